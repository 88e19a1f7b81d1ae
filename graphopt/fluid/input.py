"""`embedding` and `one_hot` for indices without a trailing axis of 1 (paddle.fluid.input)."""

from __future__ import annotations

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.ir.program import Variable
from graphopt.static.nn.common import embedding as embedding


def one_hot(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """Encode indices as one-hot vectors, along a new last axis of `depth` (fluid.one_hot)."""
    attrs = {
        "depth": arguments.integer(depth, "depth", "one_hot"),
        "allow_out_of_range": arguments.flag(allow_out_of_range, "allow_out_of_range", "one_hot"),
    }
    inputs = {"X": arguments.variable(input, "input", "one_hot")}
    return emit("one_hot_v2", inputs, attrs, stop_gradient=True)
