"""Masks of sequences."""

from __future__ import annotations

from graphopt.ir.dialect.ops.sequence import alignment as ops
from graphopt.ir.dtypes import DType
from graphopt.models.export.onnx.emitter import Emitter, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.registry import exports


@exports(ops.SequenceMask, open=("max_len",))
def sequence_mask(emit: Emitter, x: Value, max_len: int | Value, out_dtype: DType) -> Value:
    zero, one = emit.number(0, "int64"), emit.number(1, "int64")
    end = emit.number(max_len, "int64") if isinstance(max_len, int) else max_len
    if isinstance(max_len, Value):
        end = emit.reshape(emit.cast(max_len, "int64"), emit.ints([]))
    assert isinstance(end, Value)
    steps = emit.cast(emit("Range", zero, end, one), dtype_of(x))
    return emit.cast(emit("Less", steps, emit.unsqueeze(x, len(sizes_of(x)))), out_dtype)
