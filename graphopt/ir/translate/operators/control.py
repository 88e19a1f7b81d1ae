"""Operators without blocks of their own: branches of rows, printing, checks, `py_func`."""

from __future__ import annotations

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.callback import (
    PARTS,
    Assert,
    Print,
    PrintGradient,
    PyFunc,
    PyFuncBackward,
)
from graphopt.ir.dialect.ops.index import FillRows
from graphopt.ir.dialect.ops.math import Where
from graphopt.ir.dialect.ops.shape import Assign
from graphopt.ir.dialect.types import dtype_of, rank_of
from graphopt.ir.program import Operator, Variable
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


@translates("split_lod_tensor")
def split_rows(emit: Emitter) -> Written:
    """Emit the rows of each branch of IfElse, in their places; see `FillRows`."""
    x, mask = emit.input("X"), emit.input("Mask")
    return emit.results(
        OutTrue=emit(FillRows, x, mask, keep=True), OutFalse=emit(FillRows, x, mask, keep=False)
    )


@translates("merge_lod_tensor")
def merge_rows(emit: Emitter) -> Written:
    """Select each row from the branch that it belongs to."""
    mask, yes, no = (emit.input(slot) for slot in ("Mask", "InTrue", "InFalse"))
    column = emit.along(mask, rank_of(yes.type), 0)
    return emit.results(Out=emit(Where, column, yes, no))


@translates("print")
def print_value(emit: Emitter) -> Written:
    """Print the value here, or its gradient where that is computed, or both, by phase."""
    (name,), (out,) = emit.op.input("In"), emit.op.output("Out")
    x, phase = emit.read(name), emit.attr("print_phase").upper()
    flags = {"name": "name", "lod": "lod", "shape": "shape", "layout": "layout", "dtype": "type"}
    hidden = {p for p, flag in flags.items() if not emit.attr(f"print_tensor_{flag}")}
    how = {
        "message": emit.attr("message"),
        "first_n": emit.attr("first_n"),
        "summarize": emit.attr("summarize"),
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
    emit.all(Assert, condition, data, variables=names, summarize=emit.attr("summarize"))
    return {}


@translates("py_func")
def py_func(emit: Emitter) -> Written:
    """Emit the call, then the identity that carries the backward function, if there is one."""
    op = emit.op
    names, outs = op.input("X"), [_declared_type(op, name) for name in op.output("Out")]
    xs = [emit.read(name) for name in names]
    results = emit.all(
        PyFunc,
        xs,
        function=int(op.attr("forward_callable_id")),
        sizes=[size for out in outs for size in out.shape],
        ranks=[len(out.shape) for out in outs],
        dtypes=[f"{out.dtype}" for out in outs],
        variables=op.output("Out") or names,
    )
    backward = emit.attr("backward_callable_id")
    if backward >= 0:
        skip = op.attrs.get("backward_skip_vars") or ()
        skipped = [i for i, name in enumerate([*names, *op.output("Out")]) if name in skip]
        results = emit.all(
            PyFuncBackward,
            *(xs, list(results)),
            function=backward,
            skipped=skipped,
            variables=op.output("Out"),
        )
    return emit.results(Out=results)


def _declared_type(op: Operator, name: str) -> Variable:
    variable = op.block.find_var(name)
    if variable is None or not variable.has_type:
        raise ProgramError(
            f"py_func: the output '{name}' needs a shape and a dtype: make it with "
            "default_main_program().current_block().create_var(name, shape, dtype)"
        )
    return variable
