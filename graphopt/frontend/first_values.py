"""Values of variables that no run has computed yet: initial values and constants.

In Paddle's dynamic mode a parameter has its value when its layer is created. Here its initializer
is in the startup program, which runs when the value is first requested.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from graphopt.errors import ScopeError
from graphopt.frontend.constants import array_of
from graphopt.frontend.mode import would_be_dynamic
from graphopt.ir.program import Program, Variable, default_startup_program
from graphopt.ir.translate.inference import keep_only
from graphopt.runtime.executor import Executor
from graphopt.runtime.state.scope import global_scope


def initialise(variables: Iterable[Variable]) -> None:
    """Run the initializers in the default startup program for the variables without a value.

    Variables that the startup program does not write still have no value.
    """
    startup = default_startup_program()
    written = {name for op in startup.global_block().ops for name in op.output_arg_names}
    names = [v.name for v in variables if v.name in written and not has_value(v)]
    if names:
        twin = startup.clone()
        keep_only(twin, [], names)
        Executor().run(twin)


def has_value(variable: Variable) -> bool:
    """True if the global scope has a value for the variable."""
    slot = global_scope().find_var(variable.name)
    return slot is not None and slot.is_initialized()


def forget(variable: Variable) -> None:
    """Drop the value of a variable that an operator has changed; the next read computes it."""
    slot = global_scope().find_var(variable.name)
    if slot is not None:
        slot.put(None)


def value_of(variable: Variable) -> np.ndarray[Any, Any]:
    """Read a variable's value from the global scope; compute and store it there first if needed.

    A parameter gets its initial value, another variable the value that its program computes without
    a feed. Raises ScopeError when there is neither.
    """
    if not has_value(variable):
        initialise([variable])
    if not has_value(variable):
        global_scope().var(variable.name).put(_compute_value(variable))
    slot = global_scope().find_var(variable.name)
    assert slot is not None
    return slot.numpy()


def known_before_runs(variable: Variable) -> np.ndarray[Any, Any] | None:
    """Compute the value of a constant where Paddle is in dynamic mode, for constructors of layers.

    None in static mode, and for values that depend on feeds or parameters.
    """
    if not would_be_dynamic() or variable.persistable or variable.block.idx:
        return None
    if not has_value(variable):
        twin = _without_feed(variable)
        if twin is None or any(v.persistable for v in twin.list_vars()):
            return None
    return value_of(variable)


def needs_feed(variable: Variable) -> bool:
    """True if the variable has no value and only a run with a feed can compute it."""
    if has_value(variable) or (variable.op is not None and variable.op.type == "assign_value"):
        return False
    if variable.persistable or variable.block.idx:
        return not variable.persistable
    return _without_feed(variable) is None


def _without_feed(variable: Variable) -> Program | None:
    """Extract the part of a variable's program that computes it; None if that part needs a feed."""
    twin = variable.block.program.clone()
    try:
        keep_only(twin, [], [variable.name])
    except ValueError:
        return None
    twin.readers = []  # the remaining operators read no data
    made = {name for block in twin.blocks for op in block.ops for name in op.output_arg_names}
    return twin if variable.name in made else None


def _compute_value(variable: Variable) -> np.ndarray[Any, Any]:
    op = variable.op
    if op is not None and op.type == "assign_value":
        return array_of(op.attrs)
    twin = None if variable.persistable else _without_feed(variable)
    if twin is None:
        raise ScopeError(
            f"variable '{variable.name}' has no value; run the startup_program first, or, if "
            f"'{variable.name}' depends on a feed, fetch the variable with exe.run"
        )
    state = (v for v in twin.list_vars() if v.persistable)
    initialise(list(state))
    (value,) = Executor().run(twin, fetch_list=[variable.name])
    return np.asarray(value)
