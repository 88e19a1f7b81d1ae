"""Values of variables that no run has computed yet: initial ones and constants.

In Paddle's dynamic mode a parameter has its value when its layer is made. Here its initialiser is
in the startup program, which runs when the value is first requested.
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
    """Run the initialisers, in the default startup program, of those that have no value.

    Variables that the startup program does not write keep none.
    """
    startup = default_startup_program()
    written = {name for op in startup.global_block().ops for name in op.output_arg_names}
    names = [v.name for v in variables if v.name in written and not has_value(v)]
    if names:
        twin = startup.clone()
        keep_only(twin, [], names)
        Executor().run(twin)


def has_value(variable: Variable) -> bool:
    """True when the global scope has a value for the variable."""
    slot = global_scope().find_var(variable.name)
    return slot is not None and slot.is_initialized()


def forget(variable: Variable) -> None:
    """Compute the value again when it is next read: an operator has changed the variable."""
    slot = global_scope().find_var(variable.name)
    if slot is not None:
        slot.put(None)


def value_of(variable: Variable) -> np.ndarray[Any, Any]:
    """The value in the global scope, which is computed and put there if need be.

    A parameter gets its initial value; another variable the one that its program computes without
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
    """The value of a constant where Paddle is in dynamic mode, as constructors of layers need it.

    None for what depends on feeds or parameters, and elsewhere.
    """
    if not would_be_dynamic() or variable.persistable or variable.block.idx:
        return None
    if not has_value(variable):
        twin = _without_feed(variable)
        if twin is None or any(v.persistable for v in twin.list_vars()):
            return None
    return value_of(variable)


def needs_feed(variable: Variable) -> bool:
    """True when the variable has no value, and none without a run that feeds its program."""
    if has_value(variable) or (variable.op is not None and variable.op.type == "assign_value"):
        return False
    if variable.persistable or variable.block.idx:
        return not variable.persistable
    return _without_feed(variable) is None


def _without_feed(variable: Variable) -> Program | None:
    """The part of its program that computes a variable; None when that needs a feed."""
    twin = variable.block.program.clone()
    try:
        keep_only(twin, [], [variable.name])
    except ValueError:
        return None
    twin.readers = []  # what is left reads nothing
    made = {name for block in twin.blocks for op in block.ops for name in op.output_arg_names}
    return twin if variable.name in made else None


def _compute_value(variable: Variable) -> np.ndarray[Any, Any]:
    op = variable.op
    if op is not None and op.type == "assign_value":
        return array_of(op.attrs)
    twin = None if variable.persistable else _without_feed(variable)
    if twin is None:
        raise ScopeError(
            f"variable '{variable.name}' has no value; run the startup_program first, and fetch "
            "what depends on a feed with exe.run"
        )
    state = (v for v in twin.list_vars() if v.persistable)
    initialise(list(state))
    (value,) = Executor().run(twin, fetch_list=[variable.name])
    return np.asarray(value)
