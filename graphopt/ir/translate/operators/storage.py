"""Legacy operators about how tensors are stored, which values do not show: they only pass through.

Startup programs of recurrent networks lay all weights out in one flat tensor; sparse gradients
(`sparse.py`) are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.ir import SSAValue

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.math import Add, Cast
from graphopt.ir.dialect.ops.rearrange import Pad
from graphopt.ir.dialect.ops.shape import Assign, Concat, Reshape
from graphopt.ir.dialect.types import dtype_of, shape_of
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import Operator
from graphopt.ir.translate.operators.emitter import Emitter
from graphopt.ir.translate.operators.translator import Translator


def _coalesce_tensor(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """The inputs, or a constant in their shapes, and a flat copy of them all."""
    Emitter(self, op).only("Input")
    if op.attrs.get("use_align", True):
        raise UnsupportedError("coalesce_tensor with use_align, which leaves gaps in its result")
    values = [self.read(name) for name in op.input("Input")]
    if op.attrs.get("set_constant"):
        constant = op.attrs.get("constant", 0.0)
        values = [self.emit(FullLike, op, v, value=constant).results[0] for v in values]
    dtype = as_dtype(op.attrs.get("dtype", dtype_of(values[0].type)))
    flat = [self.emit(Reshape, op, value, shape=(-1,)).results[0] for value in values]
    flat = [
        v if dtype_of(v.type) == dtype else self.emit(Cast, op, v, dtype=dtype).results[0]
        for v in flat
    ]
    joined = self.emit(Concat, op, flat, axis=0).results[0]
    (fused,) = op.output("FusedOutput")
    variable = op.block.find_var(fused)
    if variable is not None and variable.has_type and len(variable.shape) == 1:
        missing = variable.shape[0] - shape_of(joined.type)[0]
        if missing > 0:
            joined = self.emit(Pad, op, joined, paddings=(0, missing)).results[0]
    return {**dict(zip(op.output("Output"), values, strict=False)), fused: joined}


def _same(self: Translator, op: Operator) -> dict[str, SSAValue]:
    made = self.emit(Assign, op, self.read(op.input("X")[0]))
    return {op.output("Out")[0]: made.results[0]}


def _zeros_like(self: Translator, op: Operator) -> dict[str, SSAValue]:
    made = self.emit(FullLike, op, self.read(op.input("X")[0]), value=0.0)
    return {op.output("Out")[0]: made.results[0]}


def _grad_add(self: Translator, op: Operator) -> dict[str, SSAValue]:
    x, y = self.read(op.input("X")[0]), self.read(op.input("Y")[0])
    return {op.output("Out")[0]: self.emit(Add, op, x, y).results[0]}


STORAGE: Mapping[str, Callable[[Translator, Operator], dict[str, SSAValue]]] = {
    "coalesce_tensor": _coalesce_tensor,
    "merge_selected_rows": _same,
    "get_tensor_from_selected_rows": _same,
    "memcpy": _same,
    "share_data": _same,
    "fill_zeros_like": _zeros_like,
    "fill_zeros_like2": _zeros_like,
    "grad_add": _grad_add,
}
