"""Wrappers of the public functions and classes, for calls from a script.

A call is all or nothing: its changes to programs are undone when it fails. It starts only if its
arguments have the types and dtypes of `accepted`. Its error ends at the caller's line. Calls
between parts of graphopt skip the wrapper: packages wrap only the names that they publish.
"""

from __future__ import annotations

import re
from collections.abc import Callable, MutableMapping
from dis import opmap
from functools import wraps
from types import FunctionType, ModuleType, TracebackType
from typing import Any, TypeVar

from graphopt.errors import GraphoptError
from graphopt.frontend.accepted import Check, checks_of
from graphopt.frontend.missing import explain
from graphopt.ir.program import undo
from graphopt.ir.program.location import is_users
from graphopt.runtime.settings.flags import full_traceback

# the last step on a result
Finish = Callable[[Any], Any]
_RAISE = opmap["RAISE_VARARGS"]
_Error = TypeVar("_Error", bound=BaseException)


def shorten(error: _Error) -> _Error:
    """Reduce the traceback of an error to the caller's frames if graphopt raised it on purpose."""
    if not full_traceback() and _is_meant(error):
        error.__traceback__ = _users(error.__traceback__)
    return error


def _is_meant(error: BaseException) -> bool:
    if isinstance(error, GraphoptError):
        return True
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is not None and not is_users(last.tb_frame.f_code) and _raises(last)


def _raises(entry: TracebackType) -> bool:
    """True if the frame's own `raise` statement raised the error, not a callee's."""
    return entry.tb_frame.f_code.co_code[entry.tb_lasti] == _RAISE


def _users(entry: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    while entry is not None:
        if is_users(entry.tb_frame.f_code):
            kept.append(entry)
        entry = entry.tb_next
    following = None
    for one in reversed(kept):
        one.tb_next = following
        following = one
    return following


_PLAIN = "_plain"
_PACKAGE = __name__.partition(".")[0] + "."
# the modules of program records
_INSIDE = f"{_PACKAGE}ir."
_ALSO = ("__init__", "__call__")


def publish(names: MutableMapping[str, Any], package: str) -> None:
    """Wrap each function and class of graphopt in a package's namespace; explain missing names."""
    for name, found in list(names.items()):
        if not name.startswith("_"):
            names[name] = publish_object(found, package, name)
    if "__getattr__" not in names:
        explain(names)


def publish_object(found: Any, package: str, name: str) -> Any:
    """Wrap a function or the methods of a class for publication; return other objects unchanged."""
    if isinstance(found, ModuleType) or not _is_offered(getattr(found, "__module__", None) or ""):
        return found
    if isinstance(found, type):
        _publish_class(found)
        return found
    found = getattr(found, _PLAIN, found)
    if not isinstance(found, FunctionType):
        return found
    made = called_from_outside(found, checks_of(package, name, found))
    # pickle looks it up where it is published
    made.__module__, made.__qualname__ = package, name
    return made


def _is_offered(module: str) -> bool:
    # the dot also matches `graphopt` itself: packages of older names publish its functions again
    return f"{module}.".startswith(_PACKAGE) and not module.startswith(_INSIDE)


def _publish_class(owner: type) -> None:
    for base in owner.__mro__:
        if _is_offered(base.__module__):
            for name, found in list(vars(base).items()):
                ours = isinstance(found, FunctionType) and not hasattr(found, _PLAIN)
                if ours and (name in _ALSO or not name.startswith("_")):
                    setattr(base, name, called_from_outside(found))


def _own_form(
    error: BaseException, function: Callable[..., Any], given: dict[str, Any]
) -> tuple[dict[str, Any], Finish | None] | None:
    """Translate the keywords of a failed call from another release's parameters to this one's.

    Returns the arguments by their names here, and a function to apply to the result. Returns None
    if the call failed for another reason; an error about an unknown keyword then suggests the
    nearest parameter, as Python 3.13 does.
    """
    said = str(error) if given and isinstance(error, TypeError) else ""
    found = re.search(r"got an unexpected keyword argument '(\w+)'$", said)
    if found is None:
        return None
    # only errors need these imports
    from difflib import get_close_matches
    from inspect import signature

    from graphopt.frontend.later_parameters import without_later
    from graphopt.frontend.parameter_names import with_own_names

    own = with_own_names(function, given)
    if own is not None:
        return own, None
    later = without_later(function, given)
    near = get_close_matches(found[1], signature(function).parameters, 1)
    if later is None and near:
        error.args = (f"{said}; did you mean '{near[0]}'?",)
    return later


def called_from_outside(
    function: Callable[..., Any], checks: tuple[Check, ...] = ()
) -> Callable[..., Any]:
    """Wrap a function for calls from a script."""

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # pytest and IPython omit this frame
        finish: Finish | None = None
        while True:  # try again after renaming parameters, and without parameters of later releases
            start = undo.begin()
            try:
                for check in checks:
                    check(args, kwargs)
                found = function(*args, **kwargs)
                found = found if finish is None else finish(found)
            except BaseException as error:
                undo.roll_back(start)
                own = _own_form(error, function, kwargs)
                if own is not None:
                    kwargs, finish = own[0], own[1] or finish
                    continue
                kept = error.__traceback__
                if shorten(error).__traceback__ is kept:
                    raise
                raise error  # FLAGS_graphopt_full_traceback=1 shows the position in graphopt
            undo.commit(start)
            return found

    setattr(call, _PLAIN, function)
    return call
