"""Calls of Python functions while a program runs (paddle.static.py_func)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.dialect import callables
from graphopt.ir.program import Variable


def py_func(
    func: Callable[..., Any],
    x: Any,
    out: Any,
    backward_func: Callable[..., Any] | None = None,
    skip_vars_in_backward_input: Any = None,
) -> Any:
    """Compute `out` from the values of `x` by a Python function (paddle.static.py_func).

    `x` and `out` are a Variable, a list of them or None; `out` must have been created with a shape
    and a dtype, where -1 is the size of the first of `x` that has the axis. `func` gets NumPy
    arrays and returns as many as `out` has. `backward_func` gets x, out and the gradients of out,
    without `skip_vars_in_backward_input`, and returns the gradients of x, None for zeros; without
    it no gradient flows. A function whose results nothing uses is called only if it has no results:
    XLA removes it.

    If a function raises, the run raises CallbackError (RuntimeError), which names the operator, its
    variables and the line that created it; the exception is its cause. Such a run stores nothing: a
    program with functions keeps the parameters of the previous step until a step has ended, and
    takes memory for both. Returns `out`.

    Raises TypeError for arguments of the wrong kind, ValueError for a variable to skip that is
    neither in x nor in out.
    """
    if not callable(func):
        raise TypeError("py_func(): func must be a Python function")
    if backward_func is not None and not callable(backward_func):
        raise TypeError("py_func(): backward_func must be a Python function")
    inputs, outputs = _several(x, "x"), _several(out, "out")
    skipped = _several(skip_vars_in_backward_input, "skip_vars_in_backward_input")
    known = {v.name for v in (*inputs, *outputs)}
    for variable in skipped:
        if variable.name not in known:
            raise ValueError(
                f"py_func(): Tensor {variable.name} is not found in forward inputs and outputs"
            )
    attrs = {
        "forward_callable_id": callables.register(func),
        "backward_callable_id": -1 if backward_func is None else callables.register(backward_func),
        "backward_skip_vars": sorted({v.name for v in skipped}) if backward_func else [],
    }
    if backward_func is None:
        for variable in outputs:
            variable.stop_gradient = True
    LayerHelper("py_func").append_op("py_func", {"X": inputs}, {"Out": outputs}, attrs)
    return out


def _several(value: Any, name: str) -> list[Variable]:
    if value is None:
        return []
    return arguments.variables([value] if isinstance(value, Variable) else value, name, "py_func")
