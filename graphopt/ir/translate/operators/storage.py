"""Legacy operators on how tensors are stored, which values do not show: the values pass through.

Startup programs of recurrent networks lay all weights out in one flat tensor; sparse gradients
(`sparse.py`) are merged.
"""

from __future__ import annotations

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.ops.rearrange import Pad
from graphopt.ir.dialect.ops.shape import Assign, Concat
from graphopt.ir.dialect.types import dtype_of, shape_of
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


@translates("coalesce_tensor")
def coalesce_tensor(emit: Emitter) -> Written:
    """Emit the inputs, or a constant in their shapes, and a flat copy of them all."""
    emit.only("Input")
    op = emit.op
    if emit.attr("use_align"):
        raise UnsupportedError(
            "operator coalesce_tensor with use_align, which leaves gaps in the result, is not "
            "supported"
        )
    values = [emit.read(name) for name in op.input("Input")]
    if op.attrs.get("set_constant"):
        constant = emit.attr("constant")
        values = [emit(FullLike, value, value=constant) for value in values]
    stated = op.attrs.get("dtype")
    dtype = dtype_of(values[0].type) if stated is None else as_dtype(stated)
    flat = [emit.reshape(value, -1) for value in values]
    flat = [v if dtype_of(v.type) == dtype else emit(Cast, v, dtype=dtype) for v in flat]
    joined = emit(Concat, flat, axis=0)
    (fused,) = op.output("FusedOutput")
    variable = op.block.find_var(fused)
    if variable is not None and variable.has_type and len(variable.shape) == 1:
        missing = variable.shape[0] - shape_of(joined.type)[0]
        if missing > 0:
            joined = emit(Pad, joined, paddings=(0, missing))
    return {**dict(zip(op.output("Output"), values, strict=False)), fused: joined}


@translates(
    *("c_sync_calc_stream", "c_sync_comm_stream"),
    *("memcpy", "memcpy_h2d", "memcpy_d2h", "share_data", "lod_reset"),
    *("merge_selected_rows", "get_tensor_from_selected_rows"),
)
def copy(emit: Emitter) -> Written:
    """Copy the values: devices and lengths of sequences are not part of a value here."""
    slot = "X" if emit.op.input("X") else "x"
    return emit.results(**{out: emit(Assign, emit.input(slot)) for out in emit.op.outputs})
