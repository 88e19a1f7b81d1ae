"""Variables of a current scope, which functions may nest (fluid.default_scope_funcs)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from graphopt.runtime.state.scope import Scope
from graphopt.runtime.state.slots import Slot

_of_thread = threading.local()


def _scopes() -> list[Scope]:
    """The scopes of this thread, the current one last."""
    if not hasattr(_of_thread, "scopes"):
        _of_thread.scopes = [Scope()]
    return _of_thread.scopes


def get_cur_scope() -> Scope:
    """The current scope of this thread; it is not the scope that executors use by default."""
    return _scopes()[-1]


def enter_local_scope() -> None:
    """Make a new scope inside the current one the current one."""
    _scopes().append(get_cur_scope().new_scope())


def leave_local_scope() -> None:
    """Make the scope around the current one the current one, and forget those inside of it.

    Raises RuntimeError where no scope was entered.
    """
    if len(_scopes()) == 1:
        raise RuntimeError("leave_local_scope(): call enter_local_scope() before")
    _scopes().pop()
    get_cur_scope().drop_kids()


def var(name: str) -> Slot:
    """The variable of the current scope, made if it lacks one."""
    return get_cur_scope().var(name)


def find_var(name: str) -> Slot | None:
    """The variable of the current scope or one around it; None when there is none."""
    return get_cur_scope().find_var(name)


def scoped_function(func: Callable[[], object]) -> None:
    """Call a function inside a local scope of its own."""
    enter_local_scope()
    try:
        func()
    finally:
        leave_local_scope()
