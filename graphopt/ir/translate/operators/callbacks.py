"""The legacy operator that calls back to the host, `py_func`."""

from __future__ import annotations

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.callback import PyFunc, PyFuncBackward
from graphopt.ir.program import Operator, Variable
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


@translates("py_func")
def py_func(emit: Emitter) -> Written:
    """The call, and after it the identity that carries the backward function, if there is one."""
    op = emit.op
    names, outs = op.input("X"), [_declared(op, name) for name in op.output("Out")]
    xs = [emit.read(name) for name in names]
    results = emit.all(
        PyFunc,
        xs,
        function=int(op.attr("forward_callable_id")),
        sizes=[size for out in outs for size in out.shape],
        ranks=[len(out.shape) for out in outs],
        dtypes=[str(out.dtype) for out in outs],
        variables=op.output("Out") or names,
    )
    backward = emit.attr("backward_callable_id", -1)
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


def _declared(op: Operator, name: str) -> Variable:
    variable = op.block.find_var(name)
    if variable is None or not variable.has_type:
        raise ProgramError(
            f"py_func: the output '{name}' needs a shape and a dtype: make it with "
            "default_main_program().current_block().create_var(name, shape, dtype)"
        )
    return variable
