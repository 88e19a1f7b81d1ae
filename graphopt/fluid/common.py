"""Helpers of several `fluid` functions: feeds, results of one dimension at least, activations."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.ir.program import Variable
from graphopt.static.input import data


def declare_feed(name: str, shape: Any, dtype: Any, lod_level: int) -> Variable:
    """A variable that is fed; its program becomes one of paddle.fluid."""
    made = data(name, shape, dtype, lod_level)
    made.block.program.is_fluid = True
    return made


def vector(x: Variable) -> Variable:
    """x, or [x] when it has no dimensions: in 1.8 every tensor has one at least."""
    return emit("reshape2", {"X": x}, {"shape": [1]}, layer="reshape") if x.shape == () else x


def activate(x: Variable, act: str | None) -> Variable:
    """x through the activation of this name; UnsupportedError when there is none."""
    return x if act is None else LayerHelper(act).append_activation(x, act)


def unary(type: str, x: Any, name: str | None = None, **attrs: Any) -> Variable:
    """An operator from X to Out."""
    return emit(type, {"X": arguments.variable(x, "x", type)}, attrs, name=name)


def given_or(value: Any, default: float, name: str, function: str) -> float:
    """A number, or the default for None."""
    return default if value is None else arguments.number(value, name, function)
