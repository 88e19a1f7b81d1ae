"""Comparisons, logic and bits, elementwise with broadcasting (paddle.*)."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import emit, emit_into
from graphopt.ir.program import Variable
from graphopt.tensor.creation import full
from graphopt.tensor.math import reduce
from graphopt.tensor.scaled import promote


def _compare(type: str, x: Variable, y: Any, name: str | None) -> Variable:
    arguments.variable(x, "x", type)
    x, other = promote(x, y) if isinstance(y, Variable) else (x, full([], y, x.dtype))
    return emit(type, {"X": x, "Y": other}, {"axis": -1}, name=name, stop_gradient=True)


def equal(x: Variable, y: Any, name: str | None = None) -> Variable:
    """Compute x == y; y may be a number (paddle.equal)."""
    return _compare("equal", x, y, name)


def not_equal(x: Variable, y: Any, name: str | None = None) -> Variable:
    """Compute x != y (paddle.not_equal)."""
    return _compare("not_equal", x, y, name)


def less_than(x: Variable, y: Any, name: str | None = None) -> Variable:
    """Compute x < y (paddle.less_than)."""
    return _compare("less_than", x, y, name)


def less_equal(x: Variable, y: Any, name: str | None = None) -> Variable:
    """Compute x <= y (paddle.less_equal)."""
    return _compare("less_equal", x, y, name)


def greater_than(x: Variable, y: Any, name: str | None = None) -> Variable:
    """Compute x > y (paddle.greater_than)."""
    return _compare("greater_than", x, y, name)


def greater_equal(x: Variable, y: Any, name: str | None = None) -> Variable:
    """Compute x >= y (paddle.greater_equal)."""
    return _compare("greater_equal", x, y, name)


def _logical(type: str, x: Any, y: Any, out: Variable | None, name: str | None) -> Variable:
    x, y = promote(arguments.variable(x, "x", type), arguments.variable(y, "y", type))
    inputs = {"X": x, "Y": y}
    return emit_into(out, type, inputs, name=name, stop_gradient=True)


def logical_and(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute the logical and; any number but 0 counts as true (paddle.logical_and)."""
    return _logical("logical_and", x, y, out, name)


def logical_or(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute the logical or (paddle.logical_or)."""
    return _logical("logical_or", x, y, out, name)


def logical_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """Compute the logical not (paddle.logical_not)."""
    inputs = {"X": arguments.variable(x, "x", "logical_not")}
    return emit_into(out, "logical_not", inputs, name=name, stop_gradient=True)


def logical_xor(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute the logical xor (paddle.logical_xor)."""
    return _logical("logical_xor", x, y, out, name)


def bitwise_and(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute the bitwise and, the logical and of bools (paddle.bitwise_and)."""
    return _logical("bitwise_and", x, y, out, name)


def bitwise_or(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute the bitwise or, the logical or of bools (paddle.bitwise_or)."""
    return _logical("bitwise_or", x, y, out, name)


def bitwise_xor(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Compute the bitwise xor, the logical xor of bools (paddle.bitwise_xor)."""
    return _logical("bitwise_xor", x, y, out, name)


def bitwise_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """Flip every bit; of bools, compute the logical not (paddle.bitwise_not)."""
    inputs = {"X": arguments.variable(x, "x", "bitwise_not")}
    return emit_into(out, "bitwise_not", inputs, name=name, stop_gradient=True)


def isnan(x: Variable, name: str | None = None) -> Variable:
    """Test each element for nan (paddle.isnan)."""
    inputs = {"X": arguments.variable(x, "x", "isnan")}
    return emit("isnan_v2", inputs, name=name, stop_gradient=True)


def isinf(x: Variable, name: str | None = None) -> Variable:
    """Test each element for infinity of either sign (paddle.isinf)."""
    inputs = {"X": arguments.variable(x, "x", "isinf")}
    return emit("isinf_v2", inputs, name=name, stop_gradient=True)


def isfinite(x: Variable, name: str | None = None) -> Variable:
    """Test whether each element is neither infinite nor nan (paddle.isfinite)."""
    inputs = {"X": arguments.variable(x, "x", "isfinite")}
    return emit("isfinite_v2", inputs, name=name, stop_gradient=True)


def equal_all(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Test whether shapes and elements are equal, a 0-D bool tensor (paddle.equal_all)."""
    return _logical("equal_all", x, y, None, name)


def _close(
    type: str, x: Any, y: Any, rtol: Any, atol: Any, equal_nan: bool, name: str | None
) -> Variable:
    inputs = {"Input": arguments.variable(x, "x", type), "Other": arguments.variable(y, "y", type)}
    attrs = {
        "rtol": str(arguments.number(rtol, "rtol", type)),
        "atol": str(arguments.number(atol, "atol", type)),
        "equal_nan": arguments.flag(equal_nan, "equal_nan", type),
    }
    return emit(type, inputs, attrs, name=name, stop_gradient=True)


def isclose(
    x: Variable,
    y: Variable,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Variable:
    """Test each element for |x - y| <= atol + rtol * |y| (paddle.isclose)."""
    return _close("isclose", x, y, rtol, atol, equal_nan, name)


def allclose(
    x: Variable,
    y: Variable,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Variable:
    """Test whether |x - y| <= atol + rtol * |y| everywhere (paddle.allclose)."""
    return _close("allclose", x, y, rtol, atol, equal_nan, name)


def all(x: Variable, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Test whether every element over `axis` is true (paddle.all)."""
    return reduce("reduce_all", x, axis, keepdim, name, layer="all", stop_gradient=True)


def any(x: Variable, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """Test whether some element over `axis` is true (paddle.any)."""
    return reduce("reduce_any", x, axis, keepdim, name, layer="any", stop_gradient=True)


lazy.join_package(globals())
