"""Operators such as `x + y` and `x < 0` in programs of paddle.fluid, by the rules of 1.8.

The left operand decides the dtype. A right operand whose first dimension is unknown is aligned with
the first dimension of the left one, not the last: `x - reduce_max(x, dim=1)` subtracts from each
row its own maximum. Integer division rounds toward 0.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from graphopt.errors import ProgramError
from graphopt.frontend.sequence_notes import note
from graphopt.ir.program import Variable
from graphopt.ir.program.lengths import levels_of
from graphopt.tensor.creation import to_tensor
from graphopt.tensor.scaled import (
    COMPARISONS,
    append,
    as_scale,
    cast_to,
    constant,
    is_integral,
    power,
)


def operate(type: str, x: Variable, other: Any, *, reverse: bool = False) -> Any:
    """Emit an operator on x and a Variable, number or array; else return NotImplemented.

    Raises ProgramError for a fraction with an integer tensor, and TypeError for `//` of operands
    that are not integers.
    """
    if reverse and type in ("elementwise_floordiv", "elementwise_mod"):
        return NotImplemented
    if isinstance(other, (np.ndarray, list, tuple)) and np.ndim(other):
        other = to_tensor(np.asarray(other))
    if isinstance(other, Variable):
        return _of_two(type, x, other, reverse=reverse)
    if not isinstance(other, (numbers.Real, np.ndarray, np.bool_)):
        return NotImplemented
    value: Any = other.item() if isinstance(other, (np.ndarray, np.generic)) else other
    x = cast_to(x, "int64") if x.dtype == "bool" and type not in COMPARISONS else x
    integral = is_integral(x.dtype)
    plain = isinstance(other, (int, float)) and not (integral and type == "elementwise_div")
    scaled = as_scale(type, value, reverse) if plain else None
    if scaled is not None:
        if integral and value != int(value):
            raise ProgramError(
                f"'{x.name}' is {x.dtype}, and {value} is not an integer; cast one of them: "
                "x.astype('float32')"
            )
        return append("scale", {"X": x}, scaled)
    value = int(value) if integral else value
    if type == "elementwise_pow" and not reverse:
        return power(x, value)
    number = constant(value, x.dtype, (1,))
    return _of_two(type, x, number, reverse=reverse)


def _of_two(type: str, x: Variable, other: Variable, *, reverse: bool) -> Variable:
    other = other if other.dtype == x.dtype else cast_to(other, x.dtype)
    left, right = (other, x) if reverse else (x, other)
    axis = 0 if right.shape[:1] == (-1,) and left.shape != (1,) else -1
    inputs = {"X": left, "Y": right}
    integral = left.dtype in ("int32", "int64")
    if type == "elementwise_floordiv" and not integral:
        raise TypeError(f"the operator // needs int32 or int64, found {x.dtype}: '{x.name}'")
    if type == "elementwise_mod" and integral:
        return _remainder(left, right, axis)
    # `//` truncates; since 2.0, the operator of that name rounds down
    type = "elementwise_div" if type == "elementwise_floordiv" else type
    made = append(type, inputs, {"axis": axis})
    return note(made, levels_of(x)) if reverse and levels_of(x) else made


def _remainder(x: Variable, y: Variable, axis: int) -> Variable:
    """Emit x % y of integers with the sign of x; elementwise_mod has the sign of y since 2.0."""
    layer = "elementwise_mod"
    whole = append("elementwise_div", {"X": x, "Y": y}, {"axis": axis}, layer=layer)
    part = append("elementwise_mul", {"X": whole, "Y": y}, {"axis": axis}, layer=layer)
    return append("elementwise_sub", {"X": x, "Y": part}, {"axis": -1})
