"""Helpers of operators on Variables: `scale` for numbers, and results named `tmp_N`."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from graphopt.frontend.layer_helper import emit_as
from graphopt.frontend.tracing import current_trace
from graphopt.ir.dtypes import DType, as_dtype
from graphopt.ir.program import Variable, default_main_program, program_guard, unique_name
from graphopt.tensor.creation import digits

P = ParamSpec("P")
R = TypeVar("R")
# operator -> (factor, offset) of the `scale` that replaces it for a number as operand
Affine = Callable[[float], tuple[float, float]]
_RIGHT: dict[str, Affine] = {
    "elementwise_add": lambda value: (1.0, value),
    "elementwise_sub": lambda value: (1.0, -value),
    "elementwise_mul": lambda value: (value, 0.0),
    "elementwise_div": lambda value: (1.0 / value, 0.0),
}
_LEFT: dict[str, Affine] = {
    "elementwise_add": _RIGHT["elementwise_add"],
    "elementwise_mul": _RIGHT["elementwise_mul"],
    "elementwise_sub": lambda value: (-1.0, value),
}
COMPARISONS = ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal")


def as_scale(type: str, value: float, reverse: bool) -> dict[str, float] | None:
    """Express an operator with a number as attributes of `scale`, or return None.

    `reverse` puts the number on the left.
    """
    affine = (_LEFT if reverse else _RIGHT).get(type)
    if affine is None or (type == "elementwise_div" and value == 0):
        return None
    factor, offset = affine(float(value))
    return {"scale": factor, "bias": offset}


def append(
    type: str, inputs: dict[str, Variable], attrs: dict[str, Any], *, layer: str | None = None
) -> Variable:
    """Append an operator whose result is named `tmp_0`, `tmp_1`, … or after a layer.

    The result has the sequence lengths of its first input.
    """
    name = unique_name.generate("tmp" if layer is None else f"{layer}.tmp")
    return emit_as(name, type, inputs, attrs, stop_gradient=type in COMPARISONS)


def constant(value: Any, dtype: DType, shape: tuple[int, ...] = ()) -> Variable:
    """Emit a number as a tensor, for operators that take no number."""
    attrs = {"shape": list(shape), "value": float(value), "str_value": digits(value)}
    made = append("fill_constant", {}, {**attrs, "dtype": dtype.code})
    made.stop_gradient = True
    return made


def in_own_program(operator: Callable[P, R]) -> Callable[P, R]:
    """Wrap an operator to append to the program of its first Variable.

    As in Paddle, that program need not be the default one; layer functions append to the default. A
    trace has its own variables in place of other programs' variables, so there the wrapper appends
    to the default program, too.
    """

    @wraps(operator)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        x = next(given for given in args if isinstance(given, Variable))
        if x.block.program is default_main_program() or current_trace() is not None:
            return operator(*args, **kwargs)
        with program_guard(x.block.program):
            return operator(*args, **kwargs)

    return call


def power(x: Variable, exponent: float) -> Variable:
    """Raise x to the power of a number."""
    unique_name.generate("tmp")  # Paddle's result is tmp_1: it creates a variable for the number
    return append("pow", {"X": x}, {"factor": exponent})


@in_own_program
def cast_to(x: Variable, dtype: Any) -> Variable:
    """Cast x to another dtype, in a variable named `tmp_N`."""
    made = as_dtype(dtype)
    out = append("cast", {"X": x}, {"in_dtype": x.dtype.code, "out_dtype": made.code})
    out.stop_gradient = not made.is_differentiable
    return out


def promote(x: Variable, y: Variable) -> tuple[Variable, Variable]:
    """Cast both operands to the common dtype of Paddle 3, or return them unchanged.

    Two floats promote to the wider dtype, and any dtype promotes to a complex one. Operands in
    programs of paddle.fluid do not promote.
    """
    if not (x.has_type and y.has_type) or x.dtype == y.dtype or x.block.program.is_fluid:
        return x, y
    kinds = [v.dtype for v in (x, y) if not is_integral(v.dtype)]
    if len(kinds) < 2 and not any(dtype.is_complex for dtype in kinds):
        return x, y
    wider = np.result_type(*(dtype.numpy for dtype in kinds)).name
    left, right = (v if v.dtype == wider else cast_to(v, wider) for v in (x, y))
    return left, right


def is_integral(dtype: DType) -> bool:
    """True for a dtype that is neither floating nor complex."""
    return not dtype.is_floating and not dtype.is_complex
