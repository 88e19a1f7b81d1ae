"""Integers to vectors: one-hot rows and embedding tables."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.sizes import size
from graphopt.ir.program import Variable


def one_hot(x: Variable, num_classes: Any, name: str | None = None) -> Variable:
    """Add a last axis with a one at each index, float32 (paddle.nn.functional.one_hot).

    Indices outside [0, num_classes) raise when the program runs.
    """
    depth = size(num_classes, "num_classes", "one_hot", "depth_tensor")
    inputs = {"X": arguments.variable(x, "x", "one_hot"), **depth.inputs}
    attrs = {"depth": depth.value, "allow_out_of_range": False}
    return emit("one_hot_v2", inputs, attrs, layer="one_hot_v2", name=name, stop_gradient=True)


def table_padding(padding_idx: int | None, rows: int, function: str) -> int:
    """Normalize the index of a table's padding row to a non-negative one; -1 for None."""
    if padding_idx is None:
        return -1
    index = arguments.integer(padding_idx, "padding_idx", function)
    if rows < 0:
        raise ValueError(
            f"{function}(): the table must have a known number of rows for padding_idx"
        )
    if not -rows <= index < rows:
        raise ValueError(
            f"{function}(): padding_idx must be within [-{rows}, {rows}), found {index}"
        )
    return index % rows


def embedding(
    x: Variable,
    weight: Variable,
    padding_idx: int | None = None,
    sparse: bool = False,
    name: str | None = None,
) -> Variable:
    """Look up the rows of `weight` [n, d] by the integers x (paddle.nn.functional.embedding).

    The result has x's shape and a last axis of size d; row `padding_idx` reads as zeros and gets
    no gradient, unless it is sparse. With `sparse` the gradient covers only the rows that were
    looked up: Adam and AdamW with `lazy_mode` leave other rows alone, and Adam corrects the bias of
    its moments as Paddle's CPU does there. For other optimizers there is no difference.
    Raises ValueError when padding_idx is outside [-n, n).
    """
    inputs = {"Ids": arguments.variable(x, "x", "embedding")}
    inputs["W"] = arguments.variable(weight, "weight", "embedding")
    attrs: dict[str, Any] = {
        "padding_idx": table_padding(padding_idx, weight.shape[0], "embedding"),
        "is_sparse": arguments.flag(sparse, "sparse", "embedding"),
    }
    return emit("lookup_table_v2", inputs, attrs, layer="embedding", name=name)


lazy.join_package(globals())
