"""Helpers of several `fluid` functions: feeds, results with at least one dimension, activations."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.ir.program import Variable
from graphopt.static.input import data


def declare_feed(name: str, shape: Any, dtype: Any, lod_level: int) -> Variable:
    """Declare a feed, and mark its program as one of paddle.fluid."""
    made = data(name, shape, dtype, lod_level)
    made.block.program.is_fluid = True
    return made


def vector(x: Variable) -> Variable:
    """Reshape x to [1] if it has no dimensions: in 1.8 every tensor has at least one."""
    return emit("reshape2", {"X": x}, {"shape": [1]}, layer="reshape") if x.shape == () else x


def activate(x: Variable, act: str | None) -> Variable:
    """Apply the activation named `act` to x; raise UnsupportedError for an unknown name."""
    return x if act is None else LayerHelper(act).append_activation(x, act)


def unary(type: str, x: Any, name: str | None = None, **attrs: Any) -> Variable:
    """Emit a unary operator from the slot X to Out."""
    return emit(type, {"X": arguments.variable(x, "x", type)}, attrs, name=name)


def given_or(value: Any, default: float, name: str, function: str) -> float:
    """Return a number, or the default for None."""
    return default if value is None else arguments.number(value, name, function)
