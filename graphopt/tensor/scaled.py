"""The parts of operators on Variables: `scale` for numbers, and results called `tmp_N`."""

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
# operator -> (factor, offset) of the `scale` that replaces it when one operand is a number
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
    """The attributes of an operator with a number, as a `scale`; None for others.

    `reverse` has the number on the left.
    """
    affine = (_LEFT if reverse else _RIGHT).get(type)
    if affine is None or (type == "elementwise_div" and value == 0):
        return None
    factor, offset = affine(float(value))
    return {"scale": factor, "bias": offset}


def append(
    type: str, inputs: dict[str, Variable], attrs: dict[str, Any], *, layer: str | None = None
) -> Variable:
    """Append an operator, whose result is called `tmp_0`, `tmp_1`, … or after a layer.

    It has the lengths of the sequences in its first input.
    """
    name = unique_name.generate("tmp" if layer is None else f"{layer}.tmp")
    return emit_as(name, type, inputs, attrs, stop_gradient=type in COMPARISONS)


def constant(value: Any, dtype: DType, shape: tuple[int, ...] = ()) -> Variable:
    """A number as a tensor, for operators that take no number."""
    attrs = {"shape": list(shape), "value": float(value), "str_value": digits(value)}
    made = append("fill_constant", {}, {**attrs, "dtype": dtype.code})
    made.stop_gradient = True
    return made


def in_own_program(operator: Callable[P, R]) -> Callable[P, R]:
    """The function of an operator, which then appends to the program of its first Variable.

    As in Paddle, that need not be the default program; functions of layers append to the default.
    A trace has variables of its own for those of other programs, so there it is the default, too.
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
    """x to the power of a number."""
    unique_name.generate("tmp")  # Paddle's result is tmp_1: the number is a variable of its own
    return append("pow", {"X": x}, {"factor": exponent})


@in_own_program
def cast_to(x: Variable, dtype: Any) -> Variable:
    """x in another dtype, in a variable called `tmp_N`."""
    made = as_dtype(dtype)
    out = append("cast", {"X": x}, {"in_dtype": x.dtype.code, "out_dtype": made.code})
    out.stop_gradient = not made.is_differentiable
    return out


def promote(x: Variable, y: Variable) -> tuple[Variable, Variable]:
    """Both operands in one dtype where Paddle 3 has a common one, else unchanged.

    That is the wider one of two floats, and a complex one beside any other. Programs of
    paddle.fluid have none.
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
    """Neither floating nor complex."""
    return not dtype.is_floating and not dtype.is_complex
