"""`x + y`, `2 * x`, `x < 0`, …: dtypes and numbers as Paddle's operators treat them.

A number never changes a floating-point tensor's dtype; a float turns an integer tensor into
float32. With a number, + - * / become one `scale` operator.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any

import numpy as np

from graphopt.errors import ProgramError
from graphopt.framework import current_op_attrs
from graphopt.ir import unique_name
from graphopt.ir.dtypes import DType
from graphopt.ir.program import Variable, default_main_program
from graphopt.tensor.creation import full, to_tensor
from graphopt.tensor.manipulation import cast
from graphopt.tensor.math import pow

# operator -> (factor, offset) of the `scale` that replaces it when the right one is a number
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
_COMPARISONS = ("equal", "not_equal", "less_than", "less_equal", "greater_than", "greater_equal")


def operate(type: str, x: Variable, other: Any, *, reverse: bool = False) -> Any:
    """The operator with a Variable, number or array; NotImplemented for other things."""
    if isinstance(other, (np.ndarray, list, tuple)) and np.ndim(other):
        other = to_tensor(np.asarray(other))
    if isinstance(other, Variable):
        x, other = same_dtype(type, x, other)
    elif isinstance(other, (numbers.Real, np.ndarray, np.bool_)):
        value = other.item() if isinstance(other, (np.ndarray, np.generic)) else other
        x = _fit_to_number(type, x, value)
        affine = (_LEFT if reverse else _RIGHT).get(type)
        if affine is not None and not (type == "elementwise_div" and value == 0):
            factor, offset = affine(float(value))
            return _append("scale", {"X": x}, {"scale": factor, "bias": offset})
        if type == "elementwise_pow" and not reverse:
            return pow(x, value)
        other = full([], value, x.dtype)
    else:
        return NotImplemented
    left, right = (other, x) if reverse else (x, other)
    return _append(type, {"X": left, "Y": right}, {"axis": -1}, stop=type in _COMPARISONS)


def _append(
    type: str, inputs: dict[str, Variable], attrs: dict[str, Any], *, stop: bool = False
) -> Variable:
    """Operators written as symbols name their results `tmp_0`, `tmp_1`, …"""
    block = default_main_program().current_block()
    out = block.create_var(unique_name.generate("tmp"), stop_gradient=stop)
    block.append_op(type, inputs, {"Out": out}, {**current_op_attrs(), **attrs})
    return out


def _is_integral(dtype: DType) -> bool:
    return not dtype.is_floating and not dtype.is_complex


def _fit_to_number(type: str, x: Variable, value: Any) -> Variable:
    """x in the dtype that the operator with this number computes in."""
    if type in _COMPARISONS and not (isinstance(value, float) and _is_integral(x.dtype)):
        return x
    if _is_integral(x.dtype) and (isinstance(value, float) or type == "elementwise_div"):
        return cast(x, "float32")
    if x.dtype == "bool" and not isinstance(value, bool):
        return cast(x, "int64")
    return x


def same_dtype(type: str, x: Variable, y: Variable) -> tuple[Variable, Variable]:
    """Both operands in one dtype: the wider one of their kind.

    `/` of integers is float32. Raises ProgramError for an integer and a float tensor, where either
    choice would lose something without a word.
    """
    if type == "elementwise_div" and _is_integral(x.dtype) and _is_integral(y.dtype):
        return cast(x, "float32"), cast(y, "float32")
    if x.dtype == y.dtype:
        return x, y
    if _is_integral(x.dtype) != _is_integral(y.dtype):
        raise ProgramError(
            f"the operands '{x.name}' and '{y.name}' have the dtypes {x.dtype!s} and {y.dtype!s}; "
            "cast one of them: x.astype(y.dtype)"
        )
    wider = np.promote_types(x.dtype.numpy, y.dtype.numpy).name
    return tuple(v if v.dtype == wider else cast(v, wider) for v in (x, y))  # type: ignore
