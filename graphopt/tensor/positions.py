"""Gather and scatter operators (paddle.*).

Positions outside a tensor raise in Paddle; here they read nan and are not written.
"""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.in_place import in_place
from graphopt.frontend.layer_helper import emit
from graphopt.ir.program import Variable
from graphopt.tensor.attribute import shape as shape_of
from graphopt.tensor.creation import full, full_like, zeros
from graphopt.tensor.manipulation import cast, gather, reshape, slice
from graphopt.tensor.math import add, clip, cumsum, scale
from graphopt.tensor.search import where


def _inputs(function: str, **slots: tuple[Any, str]) -> dict[str, Variable]:
    """Map operands by slot, after a check; each comes with the name of its argument."""
    return {slot: arguments.variable(v, name, function) for slot, (v, name) in slots.items()}


def gather_nd(x: Variable, index: Variable, name: str | None = None) -> Variable:
    """Gather the elements or slices of x at each row of `index` (paddle.gather_nd)."""
    inputs = _inputs("gather_nd", X=(x, "x"), Index=(index, "index"))
    return emit("gather_nd", inputs, name=name)


def scatter(
    x: Variable,
    index: Variable,
    updates: Variable,
    overwrite: bool = True,
    name: str | None = None,
) -> Variable:
    """Replace the rows of x at `index` with `updates` (paddle.scatter).

    Without `overwrite` each of these rows becomes the sum of its updates.
    """
    inputs = _inputs("scatter", X=(x, "x"), Ids=(index, "index"), Updates=(updates, "updates"))
    attrs = {"overwrite": arguments.flag(overwrite, "overwrite", "scatter")}
    return emit("scatter", inputs, attrs, name=name)


scatter_ = in_place(scatter)


def scatter_nd_add(
    x: Variable, index: Variable, updates: Variable, name: str | None = None
) -> Variable:
    """Add `updates` to x at each row of `index` (paddle.scatter_nd_add)."""
    inputs = _inputs(
        "scatter_nd_add", X=(x, "x"), Index=(index, "index"), Updates=(updates, "updates")
    )
    return emit("scatter_nd_add", inputs, name=name)


def scatter_nd(index: Variable, updates: Variable, shape: Any, name: str | None = None) -> Variable:
    """Add `updates` to zeros of a shape at each row of `index` (paddle.scatter_nd)."""
    dtype = arguments.variable(updates, "updates", "scatter_nd").dtype
    return scatter_nd_add(zeros(shape, dtype), index, updates, name)


def _corner(x: Variable, like: Variable, axis: int) -> Variable:
    """Slice x to the sizes of `like` on every axis but one."""
    at = axis % len(x.shape)
    axes = [i for i, size in enumerate(like.shape) if i != at and -1 < size < x.shape[i]]
    return slice(x, axes, [0] * len(axes), [like.shape[i] for i in axes]) if axes else x


def _put_in_corner(
    inputs: dict[str, Variable], axis: int, reduce: str, include_self: bool
) -> Variable:
    arr, indices, values = inputs["Input"], inputs["Index"], inputs["Value"]
    if len(indices.shape) != len(arr.shape):
        raise ValueError("put_along_axis(): 'arr' and 'indices' should have one rank")
    if values.shape:
        values = slice(
            values, list(range(len(values.shape))), [0] * len(values.shape), list(indices.shape)
        )
    corner = _corner(arr, indices, axis)
    made = put_along_axis(corner, indices, values, axis, reduce, include_self)
    if corner is arr:
        return made
    # keep elements outside of the corner
    amounts = [
        number
        for own, whole in zip(corner.shape, arr.shape, strict=True)
        for number in (0, whole - own)
    ]
    inside = emit("pad", {"X": full_like(corner, 1.0, "float32")}, {"paddings": amounts})
    padded = emit("pad", {"X": made}, {"paddings": amounts})
    return where(cast(inside, "bool"), padded, arr)


def take_along_axis(
    arr: Variable, indices: Variable, axis: int, broadcast: bool = True
) -> Variable:
    """Gather elements of `arr` by their index along an axis (paddle.take_along_axis).

    The other dimensions of the two tensors broadcast. Without `broadcast`, the dimensions of
    `indices` may be smaller, and the first elements of `arr` are read.
    """
    inputs = _inputs("take_along_axis", Input=(arr, "arr"), Index=(indices, "indices"))
    if not arguments.flag(broadcast, "broadcast", "take_along_axis"):
        inputs["Input"] = _corner(arr, indices, axis)
    attrs = {"Axis": arguments.integer(axis, "axis", "take_along_axis")}
    return emit("take_along_axis", inputs, attrs, out="Result")


def put_along_axis(
    arr: Variable,
    indices: Variable,
    values: Any,
    axis: int,
    reduce: str = "assign",
    include_self: bool = True,
    broadcast: bool = True,
) -> Variable:
    """Write values into `arr` by their index along an axis (paddle.put_along_axis).

    `reduce` combines values with the element: assign, add, multiply (mul), mean, amin or amax;
    without `include_self` it combines the values only. The other dimensions broadcast. Without
    `broadcast`, smaller ones leave the rest of `arr` unchanged.
    """
    inputs = _inputs("put_along_axis", Input=(arr, "arr"), Index=(indices, "indices"))
    inputs["Value"] = values if isinstance(values, Variable) else full([], values, arr.dtype)
    if not arguments.flag(broadcast, "broadcast", "put_along_axis"):
        return _put_in_corner(inputs, axis, reduce, include_self)
    options = ("assign", "add", "multiply", "mul", "mean", "amin", "amax")
    attrs = {
        "Include_self": arguments.flag(include_self, "include_self", "put_along_axis"),
        "Axis": arguments.integer(axis, "axis", "put_along_axis"),
        "Reduce": arguments.choice(reduce, "reduce", "put_along_axis", options),
    }
    return emit("put_along_axis", inputs, attrs, out="Result")


def masked_fill(x: Variable, mask: Variable, value: Any, name: str | None = None) -> Variable:
    """Fill x with `value` where the bool tensor `mask` is true (paddle.masked_fill)."""
    _inputs("masked_fill", X=(x, "x"), Mask=(mask, "mask"))
    filler = value if isinstance(value, Variable) else full([], value, x.dtype)
    return where(mask, filler, x, name)


def masked_scatter(
    x: Variable, mask: Variable, value: Variable, name: str | None = None
) -> Variable:
    """Fill x with the elements of `value`, in order, where the bool tensor `mask` is true.

    The mask broadcasts to x. Paddle page: paddle.masked_scatter.
    """
    _inputs("masked_scatter", X=(x, "x"), Mask=(mask, "mask"), Value=(value, "value"))
    places = add(cast(mask, "int64"), full_like(x, 0, "int64"))
    number = clip(scale(cumsum(reshape(places, [-1])), 1, -1), 0)
    taken = reshape(gather(reshape(value, [-1]), number), shape_of(places))
    return where(cast(places, "bool"), taken, x, name)


def index_sample(x: Variable, index: Variable) -> Variable:
    """Gather from each row of x the elements at the same row of `index` (paddle.index_sample)."""
    return emit("index_sample", _inputs("index_sample", X=(x, "x"), Index=(index, "index")))


@arguments.accept_old_names(input="x", dim="axis")
def index_select(x: Variable, index: Variable, axis: int = 0, name: str | None = None) -> Variable:
    """Gather slices of x along an axis by a 1-D integer tensor (paddle.index_select)."""
    inputs = _inputs("index_select", X=(x, "x"), Index=(index, "index"))
    attrs = {"dim": arguments.integer(axis, "axis", "index_select")}
    return emit("index_select", inputs, attrs, name=name)
