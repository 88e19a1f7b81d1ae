"""Bitwise operators between a tensor of integers or bools and a number: `3 | x`, `x << 1`, …."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from graphopt.ir.program import Variable
from graphopt.tensor import logic, special
from graphopt.tensor.scaled import constant

# as in logic and special, both operands are Variables
Function = Callable[[Variable, Variable], Variable]


def _with_number(function: Function, x: Variable, other: Any, *, reverse: bool) -> Any:
    """Apply a bitwise function to x and a number, as a constant of the dtype of x.

    The operand may be a Variable, too. Returns NotImplemented for a number that is no integer.
    """
    if not isinstance(other, Variable):
        if not isinstance(other, (numbers.Integral, np.bool_)):
            return NotImplemented
        other = constant(int(other), x.dtype)
    return function(other, x) if reverse else function(x, other)


def and_from_left(x: Variable, other: Any) -> Any:
    """Emit `other & x`."""
    return _with_number(logic.bitwise_and, x, other, reverse=True)


def or_from_left(x: Variable, other: Any) -> Any:
    """Emit `other | x`."""
    return _with_number(logic.bitwise_or, x, other, reverse=True)


def xor_from_left(x: Variable, other: Any) -> Any:
    """Emit `other ^ x`."""
    return _with_number(logic.bitwise_xor, x, other, reverse=True)


def left_shift(x: Variable, other: Any) -> Any:
    """Emit `x << other`."""
    return _with_number(special.bitwise_left_shift, x, other, reverse=False)


def right_shift(x: Variable, other: Any) -> Any:
    """Emit `x >> other`, an arithmetic shift."""
    return _with_number(special.bitwise_right_shift, x, other, reverse=False)


def left_shift_from_left(x: Variable, other: Any) -> Any:
    """Emit `other << x`."""
    return _with_number(special.bitwise_left_shift, x, other, reverse=True)


def right_shift_from_left(x: Variable, other: Any) -> Any:
    """Emit `other >> x`, an arithmetic shift."""
    return _with_number(special.bitwise_right_shift, x, other, reverse=True)
