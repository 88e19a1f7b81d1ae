"""Checks of the arguments of public functions; each error names the function and the argument.

OperandError is a TypeError, ProgramError a ValueError.

They convert the forms that scripts may write (an int for a pair, a NumPy integer, a string for a
dtype) to one plain form.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from graphopt.errors import OperandError, ProgramError, UnsupportedError
from graphopt.frontend.constants import constant_of
from graphopt.ir.dialect.shapes import agree
from graphopt.ir.dtypes import DType, as_dtype
from graphopt.ir.program import Variable

Function = TypeVar("Function", bound=Callable[..., Any])


def accept_old_names(**old: str) -> Callable[[Function], Function]:
    """Let a function take keywords by the names that Paddle 1.8 had: `renamed(dim="axis")`.

    Raises TypeError for an argument passed under both names.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            for name in old.keys() & kwargs.keys():
                if old[name] in kwargs:
                    raise TypeError(
                        f"{function.__name__}() got '{name}' and '{old[name]}', two names of one "
                        "argument"
                    )
                kwargs[old[name]] = kwargs.pop(name)
            return function(*args, **kwargs)

        return cast("Function", call)

    return decorate


def _kind(value: Any) -> str:
    return type(value).__name__


def variable(value: Any, name: str, function: str) -> Variable:
    """Return `value` if it is a Variable; raise OperandError otherwise."""
    if isinstance(value, Variable):
        return value
    raise OperandError(
        f"{function}(): the argument '{name}' must be a Variable, found {_kind(value)}"
    )


def one_shape(function: str, **values: Variable) -> None:
    """Raise ValueError if known sizes of the Variables differ: they must not be broadcast."""
    names, found = list(values), [list(value.shape) for value in values.values()]
    for name, shape in zip(names[1:], found[1:], strict=True):
        if not agree(found[0], shape):
            raise ValueError(
                f"{function}(): '{names[0]}' and '{name}' should have one shape, found "
                f"{found[0]} and {shape}; reshape one of them"
            )


def variables(value: Any, name: str, function: str) -> list[Variable]:
    """Return a list or tuple of Variables as a list; raise OperandError for other values."""
    if not isinstance(value, (list, tuple)):
        raise OperandError(
            f"{function}(): the argument '{name}' must be a list or tuple of Variables, "
            f"found {_kind(value)}"
        )
    return [variable(item, f"{name}[{i}]", function) for i, item in enumerate(value)]


def constant(value: Any, name: str, function: str) -> Any:
    """Read the value of a Variable that is a constant; return other values unchanged.

    Raises UnsupportedError for any other Variable: shapes depend on the number.
    """
    if not isinstance(value, Variable):
        return value
    found = constant_of(value)
    if found is None:
        raise UnsupportedError(
            f"{function}(): the argument '{name}' is the Variable '{value.name}'; graphopt needs a "
            "number or a constant for this argument, because shapes are fixed before the program "
            "runs"
        )
    return found


def integer(value: Any, name: str, function: str) -> int:
    """Convert a Python or NumPy integer, or an array of one element, to an int."""
    value = constant(value, name, function)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, numbers.Integral) and not isinstance(value, bool):
        return int(value)
    raise OperandError(f"{function}(): the argument '{name}' must be an int, found {_kind(value)}")


def at_least(least: int, values: Sequence[int], name: str, function: str) -> None:
    """Raise ProgramError for a number below `least`, such as a window or stride of 0."""
    if any(value < least for value in values):
        raise ProgramError(
            f"{function}(): the argument '{name}' must be {least} or more, found "
            f"{values[0] if len(values) == 1 else list(values)}"
        )


def integers(value: Any, name: str, function: str) -> list[int]:
    """Convert one integer or several to a list of ints."""
    value = constant(value, name, function)
    if isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim == 1):
        return [integer(item, f"{name}[{n}]", function) for n, item in enumerate(value)]
    return [integer(value, name, function)]


def pair(value: Any, name: str, function: str, length: int = 2) -> list[int]:
    """Expand an integer to `length` spatial dimensions; raise ProgramError for any other count."""
    values = integers(value, name, function)
    if len(values) == 1:
        values *= length
    if len(values) != length:
        raise ProgramError(
            f"{function}(): the argument '{name}' must be an int or {length} of them, found {value}"
        )
    return values


def axes(value: Any, function: str, name: str = "axis") -> list[int]:
    """Convert axes to a list; None and () mean all axes and become []."""
    return [] if value is None else integers(value, name, function)


def number(value: Any, name: str, function: str) -> float:
    """Convert a Python or NumPy number, or an array of one element, to a float."""
    value = constant(value, name, function)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, (numbers.Real, np.bool_)):
        return float(value)
    raise OperandError(
        f"{function}(): the argument '{name}' must be a number, found {_kind(value)}"
    )


def flag(value: Any, name: str, function: str) -> bool:
    """Convert a Python or NumPy bool to a bool."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise OperandError(f"{function}(): the argument '{name}' must be a bool, found {_kind(value)}")


def choice(value: Any, name: str, function: str, options: Sequence[str]) -> str:
    """Return `value` if it is one of the options; raise ProgramError otherwise."""
    if value in options:
        return value
    raise ProgramError(
        f"{function}(): the argument '{name}' should be one of {', '.join(options)}, "
        f"but received {value!r}"
    )


def dtype(value: Any, name: str, function: str) -> DType:
    """Convert any notation of an element type to a DType; raise OperandError otherwise."""
    try:
        return as_dtype(value)
    except TypeError as error:
        raise OperandError(f"{function}(): the argument '{name}': {error}") from None


def shape(value: Any, function: str, name: str = "shape") -> list[int]:
    """Convert a shape to a list of ints with -1 for unknown dimensions (None becomes -1)."""
    value = constant(value, name, function)
    if not isinstance(value, (list, tuple, np.ndarray)):
        raise OperandError(
            f"{function}(): the argument '{name}' must be a list or tuple of ints, "
            f"found {_kind(value)}"
        )
    value = np.atleast_1d(value) if isinstance(value, np.ndarray) else value
    return [
        -1 if dim is None else integer(dim, f"{name}[{n}]", function) for n, dim in enumerate(value)
    ]
