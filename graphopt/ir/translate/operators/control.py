"""Operators without blocks of their own that programs with control flow contain."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.debug import PARTS, Assert, Print, PrintGradient
from graphopt.ir.dialect.ops.index import FillRows
from graphopt.ir.dialect.ops.math import Where
from graphopt.ir.dialect.ops.reduce import Sum
from graphopt.ir.dialect.ops.shape import Assign, Expand, Reshape
from graphopt.ir.dialect.types import dtype_of, rank_of, shape_of
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import Operator
from graphopt.ir.translate.operators.translator import Translator


def _fill_constant_batch_size_like(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """A constant with one dimension taken from a tensor, as a sum over the others has it."""
    x = self.read(op.input("Input")[0])
    source, target = (int(op.attrs.get(f"{n}_dim_idx", 0)) for n in ("input", "output"))
    shape = [int(dim) for dim in op.attr("shape")]
    rank, value = rank_of(x.type), float(op.attrs.get("str_value") or op.attrs.get("value", 0.0))
    if not (0 <= source < rank and 0 <= target < len(shape)):
        raise ProgramError(
            f"dimension {source} of {list(shape_of(x.type))} cannot be dimension {target} of "
            f"{shape}"
        )
    axes = tuple(axis for axis in range(rank) if axis != source)
    rows = self.emit(Sum, op, x, axis=axes).results[0] if axes else x
    filled = self.emit(FullLike, op, rows, value=value, dtype=as_dtype(op.attr("dtype")))
    ones = [-1 if axis == target else 1 for axis in range(len(shape))]
    column = self.emit(Reshape, op, filled, shape=ones)
    shape[target] = -1
    made = self.emit(Expand, op, column, shape=shape)
    return {op.output("Out")[0]: made.results[0]}


def _split_rows(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """The rows of a branch of IfElse, in their places; see `FillRows`."""
    x, mask = self.read(op.input("X")[0]), self.read(op.input("Mask")[0])
    return {
        op.output(slot)[0]: self.emit(FillRows, op, x, mask, keep=keep).results[0]
        for slot, keep in (("OutTrue", True), ("OutFalse", False))
    }


def _merge_rows(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """Each row from the branch that it belongs to."""
    mask, yes, no = (self.read(op.input(slot)[0]) for slot in ("Mask", "InTrue", "InFalse"))
    shape = (-1, *(1,) * (rank_of(yes.type) - 1))
    column = self.emit(Reshape, op, mask, shape=shape).results[0]
    made = self.emit(Where, op, column, yes, no)
    return {op.output("Out")[0]: made.results[0]}


def _print(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """The value is printed here, and its gradient where that is computed, as the phase says."""
    (name,), (out,) = op.input("In"), op.output("Out")
    x, phase = self.read(name), str(op.attrs.get("print_phase", "BOTH")).upper()
    flags = {"name": "name", "lod": "lod", "shape": "shape", "layout": "layout", "dtype": "type"}
    hidden = {p for p, flag in flags.items() if not op.attrs.get(f"print_tensor_{flag}", True)}
    how = {
        "message": op.attrs.get("message", ""),
        "first_n": op.attrs.get("first_n", -1),
        "summarize": op.attrs.get("summarize", 20),
        "parts": tuple(part for part in PARTS if part not in hidden),
    }
    if phase in ("FORWARD", "BOTH"):
        self.emit(Print, op, x, variable=name, **how)
    if phase in ("BACKWARD", "BOTH") and dtype_of(x.type).is_differentiable:
        made = self.emit(PrintGradient, op, x, variable=f"{out}@GRAD", **how)
    else:
        made = self.emit(Assign, op, x)
    return {out: made.results[0]}


def _assert(self: Translator, op: Operator) -> dict[str, SSAValue]:
    names = [*op.input("Cond"), *op.input("Data")]
    condition, *data = (self.read(name) for name in names)
    summarize = op.attrs.get("summarize", -1)
    self.emit(Assert, op, condition, data, variables=names, summarize=summarize)
    return {}


CONTROL: Mapping[str, Callable[[Translator, Operator], dict[str, SSAValue]]] = {
    "fill_constant_batch_size_like": _fill_constant_batch_size_like,
    "split_lod_tensor": _split_rows,
    "merge_lod_tensor": _merge_rows,
    "print": _print,
    "assert": _assert,
}
