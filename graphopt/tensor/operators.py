"""`x + y`, `2 * x`, `x < 0`, …: dtypes and numbers as Paddle's operators treat them.

A number never changes a floating-point tensor's dtype; a float makes an integer tensor float32, and
a complex number makes real ones complex128. Booleans beside an integer stay booleans.
With a number, + - * / become one `scale` operator. Programs of paddle.fluid have their own rules,
see `graphopt.tensor.early_operators`.
"""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from graphopt.errors import ProgramError
from graphopt.frontend import arguments
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.tracing import is_converting
from graphopt.ir.program import Variable
from graphopt.ir.program.lengths import levels_of
from graphopt.tensor import early_operators
from graphopt.tensor.creation import to_tensor
from graphopt.tensor.scaled import (
    COMPARISONS,
    append,
    as_scale,
    cast_to,
    constant,
    in_own_program,
    is_integral,
    power,
    promote,
)

_OF_NUMBERS = ("elementwise_floordiv", "elementwise_mod", "elementwise_pow")


@in_own_program
def operate(type: str, x: Variable, other: Any, *, reverse: bool = False) -> Any:
    """Emit an operator on x and a Variable, number or array; else return NotImplemented."""
    if x.block.program.is_fluid:
        return early_operators.operate(type, x, other, reverse=reverse)
    if isinstance(other, (np.ndarray, list, tuple)) and np.ndim(other):
        other = to_tensor(np.asarray(other))
    if isinstance(other, Variable):
        x, other = same_dtype(type, x, other)
    elif isinstance(other, (numbers.Real, np.ndarray, np.bool_)):
        value: Any = other.item() if isinstance(other, (np.ndarray, np.generic)) else other
        x = _fit_to_number(type, x, value)
        scaled = as_scale(type, value, reverse)
        if scaled is not None:
            return append("scale", {"X": x}, scaled)
        if type == "elementwise_pow" and not reverse:
            return power(x, value)
        other = constant(value, x.dtype)
    elif isinstance(other, numbers.Complex):
        x = x if x.dtype.is_complex else cast_to(x, "complex128")
        other = to_tensor(other, x.dtype)
    else:
        return NotImplemented
    left, right = (other, x) if reverse else (x, other)
    made = append(type, {"X": left, "Y": right}, {"axis": -1})
    return note(made, levels_of(x)) if reverse and levels_of(x) else made


@in_own_program
def product(x: Variable, y: Variable) -> Variable:
    """Emit `x @ y`."""
    inputs = {"X": x, "Y": arguments.variable(y, "y", "@")}
    return append("matmul_v2", inputs, {"trans_x": False, "trans_y": False})


def product_from_left(x: Variable, y: Any) -> Variable:
    """Emit `y @ x`."""
    return product(arguments.variable(y, "x", "@"), x)


@in_own_program
def negate(x: Variable) -> Variable:
    """Emit `-x`."""
    return append("scale", {"X": x}, {"scale": -1.0, "bias": 0.0})


def _fit_to_number(type: str, x: Variable, value: Any) -> Variable:
    """Cast x to the dtype that the operator with this number computes in."""
    if type in COMPARISONS and not (isinstance(value, float) and is_integral(x.dtype)):
        return x
    if is_integral(x.dtype) and (isinstance(value, float) or type == "elementwise_div"):
        return cast_to(x, "float32")
    # As in 2.6.2, + - * keep booleans, and it lacks the other operators; 3.3.1 returns int64 for
    # all.
    if x.dtype == "bool" and type in _OF_NUMBERS:
        return cast_to(x, "int64")
    return x


def same_dtype(type: str, x: Variable, y: Variable) -> tuple[Variable, Variable]:
    """Cast both operands to one dtype: the wider one of their kind, or the complex one.

    `/` of integers computes in float32, and an integer on the right of a float is cast to its
    dtype. Raises ProgramError for an integer on the left of a float, which 2.6.2 rounds silently
    and 3.3.1 refuses. In a trace, where the integer may be a Python number, it is cast to the
    float's dtype, as in Paddle's dynamic mode.
    """
    if type == "elementwise_div" and is_integral(x.dtype) and is_integral(y.dtype):
        return cast_to(x, "float32"), cast_to(y, "float32")
    x, y = promote(x, y)
    if x.dtype == y.dtype:
        return x, y
    if is_integral(y.dtype) and not is_integral(x.dtype):
        return x, cast_to(y, x.dtype)
    if is_integral(x.dtype) and not is_integral(y.dtype):
        if is_converting():
            return cast_to(x, y.dtype), y
        raise ProgramError(
            f"the operands '{x.name}' and '{y.name}' have the dtypes {x.dtype} and {y.dtype}; "
            "cast the first: x.astype(y.dtype)"
        )
    wider = np.promote_types(x.dtype.numpy, y.dtype.numpy).name
    return tuple(v if v.dtype == wider else cast_to(v, wider) for v in (x, y))  # type: ignore
