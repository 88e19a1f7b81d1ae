"""Calls in traced functions: functions of the user are converted, some built-in ones replaced."""

from __future__ import annotations

import builtins
import functools
import sys
from collections.abc import Callable
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from graphopt.frontend.mode import get_default_dtype
from graphopt.frontend.sub_blocks import is_array
from graphopt.ir.program import Variable
from graphopt.jit import settings
from graphopt.jit.conversion import branches, conditions, loops, unknown
from graphopt.jit.conversion.function import convert_function
from graphopt.static.debug import Assert, Print
from graphopt.tensor.array import array_length
from graphopt.tensor.attribute import shape as shape_of
from graphopt.tensor.manipulation import cast

# excluded with the standard library: they compute nothing on a program's tensors
_NOT_CONVERTED = {"graphopt", "paddle", "numpy", "jax", "jaxlib", "scipy", "xdsl"}
_ignored: set[str] = set()
NOT_TO_STATIC = "_graphopt_not_to_static"


def ignore(module: ModuleType) -> None:
    """Exclude the functions of a module from conversion."""
    _ignored.add(module.__name__)


def call(function: Any) -> Any:
    """Return the function that a traced function calls in place of `function`."""
    found = unknown.require_known(function)
    if getattr(found, "__module__", None) == "builtins" and found in _BUILT_IN:
        return _BUILT_IN[found]
    return convert(found)


def convert(function: Any) -> Any:
    """Convert a function or method of the user; return other objects unchanged."""
    if isinstance(function, functools.partial):
        inner = convert(function.func)
        return functools.partial(inner, *function.args, **function.keywords)
    if isinstance(function, MethodType):
        inner = convert(function.__func__)
        if inner is function.__func__:
            return function
        # an object other than a function gets `self` as its first argument
        return MethodType(inner, function.__self__)
    if not isinstance(function, FunctionType) or not _is_users(function):
        return function
    return convert_function(function, HELPERS, functools.partial(settings.report, function))


def _is_users(function: FunctionType) -> bool:
    # a wrapper has the wrapped function's name, and its own module's globals
    module = function.__globals__.get("__name__", "")
    if not belongs_to_user(module) or getattr(function, NOT_TO_STATIC, False):
        return False
    return not any(f"{module}.".startswith(f"{name}.") for name in _ignored)


def belongs_to_user(module: str) -> bool:
    """True if a module of this name may have tensors of a program."""
    top = module.partition(".")[0]
    return top not in _NOT_CONVERTED and (top not in sys.stdlib_module_names or top == "__main__")


def shape(value: Any) -> Any:
    """Evaluate `x.shape`; a Variable's is a list, with Variables for unknown dimensions."""
    found = unknown.require_known(value).shape
    if not isinstance(value, Variable):
        return found
    if -1 not in found:
        return list(found)
    sizes: Any = shape_of(value)
    return [sizes[at] if size < 0 else size for at, size in enumerate(found)]


def _length(value: Any) -> Any:
    if not isinstance(value, Variable):
        return len(value)
    return array_length(value) if is_array(value) else shape(value)[0]


def _range(*limits: Any) -> Any:
    if any(isinstance(limit, Variable) for limit in limits):
        return loops.Range(*limits)
    return range(*limits)


def _enumerate(items: Any, start: int = 0) -> Any:
    return (
        loops.Enumerated(items, start) if isinstance(items, Variable) else enumerate(items, start)
    )


def _casting(kind: type, dtype: Callable[[], str]) -> Callable[..., Any]:
    def call(value: Any = 0, *args: Any) -> Any:
        return cast(value, dtype()) if isinstance(value, Variable) else kind(value, *args)

    return call


def _print(*values: Any, **options: Any) -> None:
    """Print known values now; Variables when the program runs."""
    known = [value for value in values if not isinstance(value, Variable)]
    if len(known) == len(values):
        print(*values, **options)
        return
    message = " ".join(map(str, known))
    for value in values:
        if isinstance(value, Variable):
            Print(value, message=message)


def assertion(test: Any, message: Callable[[], Any]) -> None:
    """Evaluate `assert test, message`."""
    if not isinstance(test, Variable):
        if not test:
            text = message()
            raise AssertionError(*(() if text is None else (text,)))
        return
    Assert(conditions.as_flag(test, "assert"))


_BUILT_IN: dict[Any, Callable[..., Any]] = {
    builtins.len: _length,
    builtins.range: _range,
    builtins.enumerate: _enumerate,
    builtins.print: _print,
    builtins.bool: _casting(bool, lambda: "bool"),
    builtins.int: _casting(int, lambda: "int32"),
    builtins.float: _casting(float, get_default_dtype),
}

HELPERS = SimpleNamespace(
    call=call,
    shape=shape,
    assertion=assertion,
    all_of=conditions.all_of,
    any_of=conditions.any_of,
    negation=conditions.negation,
    comparison=conditions.comparison,
    branch=branches.branch,
    choice=branches.choice,
    loop=loops.loop,
    each=loops.each,
    value=unknown.value,
    known=unknown.require_known,
    returned=unknown.require_returned,
)
