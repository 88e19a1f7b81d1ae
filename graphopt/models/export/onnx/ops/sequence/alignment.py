"""Masks of sequences, and the beams of a search."""

from __future__ import annotations

from graphopt.ir.dialect.ops.sequence import alignment as ops
from graphopt.ir.dtypes import DType
from graphopt.models.export.onnx.loops import Values, scanned
from graphopt.models.export.onnx.nodes import Nodes, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.registry import exports


@exports(ops.SequenceMask, open=("max_len",))
def sequence_mask(emit: Nodes, x: Value, max_len: int | Value, out_dtype: DType) -> Value:
    zero, one = emit.number(0, "int64"), emit.number(1, "int64")
    end = emit.number(max_len, "int64") if isinstance(max_len, int) else max_len
    if isinstance(max_len, Value):
        end = emit.reshape(emit.cast(max_len, "int64"), emit.ints([]))
    assert isinstance(end, Value)
    steps = emit.cast(emit("Range", zero, end, one), dtype_of(x))
    return emit.cast(emit("Less", steps, emit.unsqueeze(x, len(sizes_of(x)))), out_dtype)


@exports(ops.GatherTree)
def gather_tree(emit: Nodes, ids: Value, parents: Value) -> Value:
    """From the last step to the first, each beam reads its token and goes on to its parent."""
    count = emit.reshape(emit.size(ids, 2), emit.ints([]))
    beams = emit("Range", emit.number(0, "int64"), count, emit.number(1, "int64"))
    last = emit("Expand", emit.cast(beams, dtype_of(parents)), emit.shape(ids, 1))

    def step(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
        (beam,) = states
        tokens, origins = (inner("GatherElements", each, beam, axis=1) for each in items)
        return [origins], [tokens]

    _, (found,) = scanned(emit, [last], [ids, parents], step, reverse=True)
    return found
