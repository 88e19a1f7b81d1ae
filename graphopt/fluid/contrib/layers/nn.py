"""Layers that Paddle 1.8 kept apart (paddle.fluid.contrib.layers)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.fluid.layers.proposals import multiclass_nms2 as multiclass_nms2
from graphopt.frontend import arguments
from graphopt.frontend.calls import publish
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.missing import explain as _explain
from graphopt.ir.program import Variable


def fused_elemwise_activation(
    x: Variable,
    y: Variable,
    functor_list: Any,
    axis: int = -1,
    scale: float = 0.0,
    save_intermediate_out: bool = True,
) -> Variable:
    """An elementwise function and an activation, the outer one first in `functor_list`.

    Each of "elementwise_add", "relu", "scale", "tanh" and "sigmoid"; `scale` is the factor of
    "scale". Paddle page: fluid.contrib.layers.fused_elemwise_activation.
    """
    function = "fused_elemwise_activation"
    names = functor_list.split(",") if isinstance(functor_list, str) else list(functor_list)
    if len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{function}(): 'functor_list' should have two names, found {names}")
    attrs = {
        "axis": arguments.integer(axis, "axis", function),
        "scale": arguments.number(scale, "scale", function),
        "functor_list": names,
    }
    inputs = {
        "X": arguments.variable(x, "x", function),
        "Y": arguments.variable(y, "y", function),
    }
    return emit(function, inputs, attrs)


def partial_concat(input: Sequence[Variable], start_index: int = 0, length: int = -1) -> Variable:
    """The columns from `start_index` on of each matrix, side by side (contrib.partial_concat)."""
    return _partial("partial_concat", input, start_index, length)


def partial_sum(input: Sequence[Variable], start_index: int = 0, length: int = -1) -> Variable:
    """The columns from `start_index` on of each matrix, added up (contrib.partial_sum)."""
    return _partial("partial_sum", input, start_index, length)


def _partial(function: str, input: Sequence[Variable], start: int, length: int) -> Variable:
    attrs = {
        "start_index": arguments.integer(start, "start_index", function),
        "length": arguments.integer(length, "length", function),
    }
    return emit(function, {"X": arguments.variables(input, "input", function)}, attrs)


_explain(globals())
publish(globals(), __name__)
