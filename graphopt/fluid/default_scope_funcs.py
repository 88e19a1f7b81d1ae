"""Variables of a current scope, which functions may nest (fluid.default_scope_funcs)."""

from __future__ import annotations

import threading
from collections.abc import Callable

from graphopt.runtime.state.scope import Scope
from graphopt.runtime.state.slots import Slot

_of_thread = threading.local()


def _scopes() -> list[Scope]:
    """Return the scopes of this thread, the current one last."""
    if not hasattr(_of_thread, "scopes"):
        _of_thread.scopes = [Scope()]
    return _of_thread.scopes


def get_cur_scope() -> Scope:
    """Return this thread's current scope; executors use another scope by default."""
    return _scopes()[-1]


def enter_local_scope() -> None:
    """Enter a new scope inside the current one."""
    _scopes().append(get_cur_scope().new_scope())


def leave_local_scope() -> None:
    """Leave the current scope for its parent, and drop the scopes inside the parent.

    Raises RuntimeError if no scope was entered.
    """
    if len(_scopes()) == 1:
        raise RuntimeError("leave_local_scope(): call enter_local_scope() before")
    _scopes().pop()
    get_cur_scope().drop_kids()


def var(name: str) -> Slot:
    """Find the variable of this name in the current scope, or create it."""
    return get_cur_scope().var(name)


def find_var(name: str) -> Slot | None:
    """Find a variable in the current scope or a scope around it; None if there is none."""
    return get_cur_scope().find_var(name)


def scoped_function(func: Callable[[], object]) -> None:
    """Call a function inside a new local scope."""
    enter_local_scope()
    try:
        func()
    finally:
        leave_local_scope()
