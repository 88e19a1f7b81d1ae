"""Operators without blocks of their own that programs with control flow contain."""

from __future__ import annotations

from graphopt.ir.dialect.ops.callback import PARTS, Assert, Print, PrintGradient
from graphopt.ir.dialect.ops.index import FillRows
from graphopt.ir.dialect.ops.math import Where
from graphopt.ir.dialect.ops.shape import Assign
from graphopt.ir.dialect.types import dtype_of, rank_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


@translates("split_lod_tensor")
def split_rows(emit: Emitter) -> Written:
    """The rows of a branch of IfElse, in their places; see `FillRows`."""
    x, mask = emit.input("X"), emit.input("Mask")
    return emit.results(
        OutTrue=emit(FillRows, x, mask, keep=True), OutFalse=emit(FillRows, x, mask, keep=False)
    )


@translates("merge_lod_tensor")
def merge_rows(emit: Emitter) -> Written:
    """Each row from the branch that it belongs to."""
    mask, yes, no = (emit.input(slot) for slot in ("Mask", "InTrue", "InFalse"))
    column = emit.along(mask, rank_of(yes.type), 0)
    return emit.results(Out=emit(Where, column, yes, no))


@translates("print")
def print_value(emit: Emitter) -> Written:
    """The value is printed here, and its gradient where that is computed, as the phase says."""
    (name,), (out,) = emit.op.input("In"), emit.op.output("Out")
    x, phase = emit.read(name), emit.attr("print_phase", "BOTH").upper()
    flags = {"name": "name", "lod": "lod", "shape": "shape", "layout": "layout", "dtype": "type"}
    hidden = {p for p, flag in flags.items() if not emit.attr(f"print_tensor_{flag}", True)}
    how = {
        "message": emit.attr("message", ""),
        "first_n": emit.attr("first_n", -1),
        "summarize": emit.attr("summarize", 20),
        "parts": tuple(part for part in PARTS if part not in hidden),
    }
    if phase in ("FORWARD", "BOTH"):
        emit.all(Print, x, variable=name, **how)
    if phase in ("BACKWARD", "BOTH") and dtype_of(x.type).is_differentiable:
        return {out: emit(PrintGradient, x, variable=f"{out}@GRAD", **how)}
    return {out: emit(Assign, x)}


@translates("assert")
def assert_all(emit: Emitter) -> Written:
    names = [*emit.op.input("Cond"), *emit.op.input("Data")]
    condition, *data = (emit.read(name) for name in names)
    emit.all(Assert, condition, data, variables=names, summarize=emit.attr("summarize", -1))
    return {}
