"""Reading and writing elements at given positions (paddle.*).

Positions outside a tensor raise in Paddle; here they read nan and write nothing.
"""

from __future__ import annotations

from typing import Any

from graphopt import arguments
from graphopt.ir.program import Variable
from graphopt.layer_helper import emit
from graphopt.tensor.creation import full, zeros
from graphopt.tensor.search import where


def _inputs(function: str, **slots: tuple[Any, str]) -> dict[str, Variable]:
    """Operands by slot, each given with the name of its argument."""
    return {slot: arguments.variable(v, name, function) for slot, (v, name) in slots.items()}


def gather_nd(x: Variable, index: Variable, name: str | None = None) -> Variable:
    """The elements or slices of x that each row of `index` names (paddle.gather_nd)."""
    inputs = _inputs("gather_nd", X=(x, "x"), Index=(index, "index"))
    return emit("gather_nd", inputs, name=name)


def scatter(
    x: Variable,
    index: Variable,
    updates: Variable,
    overwrite: bool = True,
    name: str | None = None,
) -> Variable:
    """x with the rows that `index` names replaced by `updates` (paddle.scatter).

    Without `overwrite` these rows become the sums of their updates.
    """
    inputs = _inputs("scatter", X=(x, "x"), Ids=(index, "index"), Updates=(updates, "updates"))
    attrs = {"overwrite": arguments.flag(overwrite, "overwrite", "scatter")}
    return emit("scatter", inputs, attrs, name=name)


# In a static program the in-place form makes a new variable, as in Paddle.
scatter_ = scatter


def scatter_nd_add(
    x: Variable, index: Variable, updates: Variable, name: str | None = None
) -> Variable:
    """x with `updates` added where each row of `index` names (paddle.scatter_nd_add)."""
    inputs = _inputs(
        "scatter_nd_add", X=(x, "x"), Index=(index, "index"), Updates=(updates, "updates")
    )
    return emit("scatter_nd_add", inputs, name=name)


def scatter_nd(index: Variable, updates: Variable, shape: Any, name: str | None = None) -> Variable:
    """Zeros of a shape with `updates` added where `index` names (paddle.scatter_nd)."""
    dtype = arguments.variable(updates, "updates", "scatter_nd").dtype
    return scatter_nd_add(zeros(shape, dtype), index, updates, name)


def take_along_axis(arr: Variable, indices: Variable, axis: int) -> Variable:
    """Elements of `arr` by their number along an axis (paddle.take_along_axis).

    The other dimensions of the two tensors broadcast.
    """
    inputs = _inputs("take_along_axis", Input=(arr, "arr"), Index=(indices, "indices"))
    attrs = {"Axis": arguments.integer(axis, "axis", "take_along_axis")}
    return emit("take_along_axis", inputs, attrs, out="Result")


def put_along_axis(
    arr: Variable, indices: Variable, values: Any, axis: int, reduce: str = "assign"
) -> Variable:
    """`arr` with values written by their number along an axis (paddle.put_along_axis).

    `reduce` says how a value joins the element: assign, add, or multiply (mul).
    """
    inputs = _inputs("put_along_axis", Input=(arr, "arr"), Index=(indices, "indices"))
    inputs["Value"] = values if isinstance(values, Variable) else full([], values, arr.dtype)
    options = ("assign", "add", "multiply", "mul")
    attrs = {
        "Axis": arguments.integer(axis, "axis", "put_along_axis"),
        "Reduce": arguments.choice(reduce, "reduce", "put_along_axis", options),
    }
    return emit("put_along_axis", inputs, attrs, out="Result")


def masked_fill(x: Variable, mask: Variable, value: Any, name: str | None = None) -> Variable:
    """x with `value` where the bool tensor `mask` is true (paddle.masked_fill)."""
    _inputs("masked_fill", X=(x, "x"), Mask=(mask, "mask"))
    filler = value if isinstance(value, Variable) else full([], value, x.dtype)
    return where(mask, filler, x, name)


def index_sample(x: Variable, index: Variable) -> Variable:
    """From each row of x the elements that the same row of `index` names (paddle.index_sample)."""
    return emit("index_sample", _inputs("index_sample", X=(x, "x"), Index=(index, "index")))


def index_select(x: Variable, index: Variable, axis: int = 0, name: str | None = None) -> Variable:
    """The slices of x along an axis that a 1-D integer tensor names (paddle.index_select)."""
    inputs = _inputs("index_select", X=(x, "x"), Index=(index, "index"))
    attrs = {"dim": arguments.integer(axis, "axis", "index_select")}
    return emit("index_select", inputs, attrs, name=name)
