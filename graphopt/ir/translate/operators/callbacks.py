"""The legacy operator that calls back to the host, `py_func`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.callback import PyFunc, PyFuncBackward
from graphopt.ir.program import Operator, Variable
from graphopt.ir.translate.operators.translator import Translator


def _py_func(self: Translator, op: Operator) -> dict[str, SSAValue]:
    """The call, and after it the identity that carries the backward function, if there is one."""
    names, outs = op.input("X"), [_declared(op, name) for name in op.output("Out")]
    xs = [self.read(name) for name in names]
    called = self.emit(
        PyFunc,
        op,
        xs,
        function=int(op.attr("forward_callable_id")),
        sizes=[size for out in outs for size in out.shape],
        ranks=[len(out.shape) for out in outs],
        dtypes=[str(out.dtype) for out in outs],
        variables=op.output("Out") or names,
    )
    results = called.results
    backward = int(op.attrs.get("backward_callable_id", -1))
    if backward >= 0:
        skip = op.attrs.get("backward_skip_vars") or ()
        skipped = [i for i, name in enumerate([*names, *op.output("Out")]) if name in skip]
        made = self.emit(
            PyFuncBackward,
            op,
            xs,
            list(results),
            function=backward,
            skipped=skipped,
            variables=op.output("Out"),
        )
        results = made.results
    return dict(zip(op.output("Out"), results, strict=True))


def _declared(op: Operator, name: str) -> Variable:
    variable = op.block.find_var(name)
    if variable is None or not variable.has_type:
        raise ProgramError(
            f"py_func: the output '{name}' needs a shape and a dtype: make it with "
            "default_main_program().current_block().create_var(name, shape, dtype)"
        )
    return variable


CALLBACKS: Mapping[str, Callable[[Translator, Operator], dict[str, SSAValue]]] = {
    "py_func": _py_func,
}
