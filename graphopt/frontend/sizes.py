"""Sizes, axes and counts that may be Variables: an attribute, or the input slots for tensors.

Paddle's operators take such an argument three ways: as an attribute, as one tensor of all numbers,
or as a list of tensors. The helpers return an attribute and input slots, to be merged into those of
the operator; the attribute has -1 where a tensor has the number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.ir.program import Variable


class SizeInputs(NamedTuple):
    """An attribute's value, and the input slots that override it."""

    value: Any
    inputs: Mapping[str, Variable | list[Variable]]


def has_variable(value: Any) -> bool:
    """True for a Variable and for a list with one in it."""
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, Variable) for item in value)
    return isinstance(value, Variable)


def sizes(value: Any, name: str, function: str, whole: str, each: str) -> SizeInputs:
    """Encode several numbers: a list of ints and Variables, or one integer Variable of all of them.

    `whole` is the slot for one tensor, `each` the slot for a list of tensors. None counts as -1.
    Raises TypeError for other values, UnsupportedError for a form without a slot.
    """
    if has_variable(value) and not (whole if isinstance(value, Variable) else each):
        wanted = "a list" if each else "numbers, or one Variable of all of them"
        raise UnsupportedError(
            f"{function}(): the argument '{name}' cannot have Variables in this form; pass {wanted}"
        )
    if isinstance(value, Variable):
        check_integers(value, name, function)
        if len(value.shape) > 1:
            value = emit("reshape2", {"X": value}, {"shape": [-1]}, stop_gradient=True)
        count = value.shape[0] if value.shape else 1
        return SizeInputs([-1] * max(count, 1), {whole: value})
    if not has_variable(value):
        return SizeInputs(arguments.shape(_as_list(value), function, name), {})
    numbers = [
        -1 if isinstance(item, Variable) else _integer(item, name, function) for item in value
    ]
    return SizeInputs(numbers, {each: as_tensors(value, name, function)})


def size(value: Any, name: str, function: str, slot: str) -> SizeInputs:
    """Encode one number: an int, or an integer Variable of one element."""
    if not isinstance(value, Variable):
        return SizeInputs(arguments.integer(value, name, function), {})
    return SizeInputs(0, {slot: check_integers(value, name, function)})


def size_of(x: Variable, axis: int) -> Any:
    """Return the size of an axis: a number, or a Variable if only the run knows it.

    Shapes computed from it are folded when the program is traced.
    """
    known = x.shape[axis]
    if known >= 0:
        return known
    at = axis % len(x.shape)
    attrs = {"axes": [0], "starts": [at], "ends": [at + 1], "decrease_axis": [0]}
    return emit(
        "slice",
        {"Input": emit("shape", {"Input": x}, stop_gradient=True)},
        attrs,
        stop_gradient=True,
    )


def product_of(factors: Iterable[Any]) -> Any:
    """Multiply sizes, some of which may be Variables; 1 for none."""
    total: Any = 1
    for factor in factors:
        total = total * factor
    return total


def check_integers(value: Variable, name: str, function: str) -> Variable:
    """Return `value` if it holds integers, or only its feed decides; raise TypeError otherwise."""
    if value.dtype not in ("int32", "int64") and not value.takes_any_shape:
        raise TypeError(
            f"{function}(): the argument '{name}' must be an int32 or int64 Variable, but "
            f"'{value.name}' is {value.dtype}"
        )
    return value


def as_tensors(items: Sequence[Any], name: str, function: str) -> list[Variable]:
    """Convert each of a list of ints and Variables to a Variable of one element."""
    tensors: list[Variable] = []
    for position, item in enumerate(items):
        if isinstance(item, Variable):
            tensors.append(check_integers(item, f"{name}[{position}]", function))
        else:
            tensors.append(_constant(_integer(item, name, function)))
    return tensors


def _as_list(value: Any) -> Any:
    return value if isinstance(value, (list, tuple, np.ndarray)) else [value]


def _integer(value: Any, name: str, function: str) -> int:
    return -1 if value is None else arguments.integer(value, name, function)


def _constant(number: int) -> Variable:
    """Emit an int64 constant of one element."""
    attrs = {"shape": [1], "value": float(number), "str_value": str(number), "dtype": 3}
    return emit("fill_constant", {}, attrs, layer="full", stop_gradient=True)
