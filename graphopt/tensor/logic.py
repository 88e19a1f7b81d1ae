"""Comparisons and logic, elementwise with broadcasting; results are bool (paddle.*)."""

from __future__ import annotations

from typing import Any

from graphopt import arguments
from graphopt.ir.program import Variable
from graphopt.layer_helper import emit, emit_into
from graphopt.tensor.creation import full


def _compare(type: str, x: Variable, y: Any, name: str | None) -> Variable:
    arguments.variable(x, "x", type)
    other = y if isinstance(y, Variable) else full([], y, x.dtype)
    return emit(type, {"X": x, "Y": other}, {"axis": -1}, name=name, stop_gradient=True)


def equal(x: Variable, y: Any, name: str | None = None) -> Variable:
    """x == y; y may be a number (paddle.equal)."""
    return _compare("equal", x, y, name)


def not_equal(x: Variable, y: Any, name: str | None = None) -> Variable:
    """x != y (paddle.not_equal)."""
    return _compare("not_equal", x, y, name)


def less_than(x: Variable, y: Any, name: str | None = None) -> Variable:
    """x < y (paddle.less_than)."""
    return _compare("less_than", x, y, name)


def less_equal(x: Variable, y: Any, name: str | None = None) -> Variable:
    """x <= y (paddle.less_equal)."""
    return _compare("less_equal", x, y, name)


def greater_than(x: Variable, y: Any, name: str | None = None) -> Variable:
    """x > y (paddle.greater_than)."""
    return _compare("greater_than", x, y, name)


def greater_equal(x: Variable, y: Any, name: str | None = None) -> Variable:
    """x >= y (paddle.greater_equal)."""
    return _compare("greater_equal", x, y, name)


def _logical(type: str, x: Any, y: Any, out: Variable | None, name: str | None) -> Variable:
    inputs = {"X": arguments.variable(x, "x", type), "Y": arguments.variable(y, "y", type)}
    return emit_into(out, type, inputs, name=name, stop_gradient=True)


def logical_and(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Both are true; any number but 0 counts as true (paddle.logical_and)."""
    return _logical("logical_and", x, y, out, name)


def logical_or(
    x: Variable, y: Variable, out: Variable | None = None, name: str | None = None
) -> Variable:
    """Either is true (paddle.logical_or)."""
    return _logical("logical_or", x, y, out, name)


def logical_not(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """x is false (paddle.logical_not)."""
    inputs = {"X": arguments.variable(x, "x", "logical_not")}
    return emit_into(out, "logical_not", inputs, name=name, stop_gradient=True)
