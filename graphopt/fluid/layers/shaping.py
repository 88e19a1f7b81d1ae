"""Reshaping, slicing and ordering with the arguments of 1.8 (paddle.fluid.layers)."""

from __future__ import annotations

from typing import Any

from graphopt.fluid.common import activate
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.frontend.one_layer import one_layer
from graphopt.frontend.sizes import sizes
from graphopt.ir.program import Variable
from graphopt.nn.functional.alignment import sequence_mask as _sequence_mask
from graphopt.tensor.data_sized import nonzero as _nonzero
from graphopt.tensor.manipulation import reshape as _reshape
from graphopt.tensor.manipulation import slice
from graphopt.tensor.manipulation import split as _split
from graphopt.tensor.manipulation import squeeze as _squeeze
from graphopt.tensor.manipulation import stack as _stack
from graphopt.tensor.manipulation import unsqueeze as _unsqueeze
from graphopt.tensor.positions import scatter as _scatter
from graphopt.tensor.positions import scatter_nd_add as _scatter_nd_add
from graphopt.tensor.rearrange import crop as _crop


def reshape(
    x: Variable,
    shape: Any,
    actual_shape: Variable | None = None,
    act: str | None = None,
    inplace: bool = False,
    name: str | None = None,
) -> Variable:
    """Reshape x; 0 copies a dimension, one -1 takes the rest (fluid.layers.reshape).

    A run uses `actual_shape`, an integer Variable, in place of `shape` if it is set. `inplace` has
    no effect.
    """
    if actual_shape is None:
        return activate(_reshape(x, shape, name), act)
    arguments.variable(x, "x", "reshape")
    inputs = {"X": x, "Shape": arguments.variable(actual_shape, "actual_shape", "reshape")}
    declared = arguments.integers(shape, "shape", "reshape")
    return activate(emit("reshape2", inputs, {"shape": list(declared)}, name=name), act)


def squeeze(input: Variable, axes: Any, name: str | None = None) -> Variable:
    """Remove these axes of size 1, or all of them for [] (fluid.layers.squeeze)."""
    return _squeeze(input, axes, name)


def unsqueeze(input: Variable, axes: Any, name: str | None = None) -> Variable:
    """Insert axes of size 1 at these positions of the result (fluid.layers.unsqueeze)."""
    return _unsqueeze(input, axes, name)


def flatten(x: Variable, axis: int = 1, name: str | None = None) -> Variable:
    """Flatten the dimensions before `axis` and from it on to a matrix (fluid.layers.flatten)."""
    arguments.variable(x, "x", "flatten")
    at = arguments.integer(axis, "axis", "flatten")
    if not 0 <= at <= len(x.shape):
        raise ValueError(f"flatten(): 'axis' should be in [0, {len(x.shape)}], found {at}")
    return emit("flatten2", {"X": x}, {"axis": at}, layer="flatten", name=name)


def split(
    input: Variable, num_or_sections: Any, dim: int = -1, name: str | None = None
) -> list[Variable]:
    """Split the input along an axis into equal parts, or parts of these sizes (layers.split)."""
    return _split(input, num_or_sections, dim, name)


def stack(x: Any, axis: int = 0, name: str | None = None) -> Variable:
    """Stack tensors of one shape along a new axis (fluid.layers.stack)."""
    return _stack([x] if isinstance(x, Variable) else x, axis, name)


def expand(x: Variable, expand_times: Any, name: str | None = None) -> Variable:
    """Repeat every axis of x as often as `expand_times` has it (fluid.layers.expand).

    `expand_times` has an integer above 0 for each axis, or is an integer Variable of them; an item
    of a list may be a Variable of one element. The result has the dtype of x. Raises TypeError for
    other kinds, ValueError for 0 and below. Since Paddle 2.0 it is `paddle.tile`.
    """
    arguments.variable(x, "x", "expand")
    if x.has_type and x.dtype == "bool" and x.stop_gradient:
        # Paddle's check
        raise ValueError("expand(): 'x' of dtype bool must have stop_gradient False")
    times = sizes(expand_times, "expand_times", "expand", "ExpandTimes", "expand_times_tensor")
    if not times.inputs and min(times.value, default=1) < 1:
        raise ValueError(f"expand(): 'expand_times' should be above 0, found {times.value}")
    return emit("expand", {"X": x, **times.inputs}, {"expand_times": times.value}, name=name)


def expand_as(x: Variable, target_tensor: Variable, name: str | None = None) -> Variable:
    """Repeat x along every axis up to the shape of the target (fluid.layers.expand_as)."""
    inputs = {"X": arguments.variable(x, "x", "expand_as")}
    inputs["target_tensor"] = arguments.variable(target_tensor, "target_tensor", "expand_as")
    return emit("expand_as", inputs, name=name)


def gather(input: Variable, index: Variable, overwrite: bool = True) -> Variable:
    """Gather rows of the input by an index of shape [n] or [n, 1] (fluid.layers.gather).

    The gradients of a row named twice add up whatever `overwrite` says.
    """
    inputs = {"X": arguments.variable(input, "input", "gather")}
    rank = len(arguments.variable(index, "index", "gather").shape)
    inputs["Index"] = _reshape(index, [-1]) if rank == 2 else index
    return emit("gather", inputs, {"axis": 0, "overwrite": bool(overwrite)})


def scatter(
    input: Variable,
    index: Variable,
    updates: Variable,
    name: str | None = None,
    overwrite: bool = True,
) -> Variable:
    """Replace rows of the input; without `overwrite`, by the sums of their updates (scatter)."""
    if len(arguments.variable(index, "index", "scatter").shape) == 2:
        index = _reshape(index, [-1])
    return _scatter(input, index, updates, overwrite, name)


def scatter_nd_add(
    ref: Variable, index: Variable, updates: Variable, name: str | None = None
) -> Variable:
    """Add updates to `ref` at indices (fluid.layers.scatter_nd_add)."""
    return _scatter_nd_add(ref, index, updates, name)


def pad(x: Variable, paddings: Any, pad_value: float = 0.0, name: str | None = None) -> Variable:
    """Pad each axis by numbers of elements before and after it (fluid.layers.pad)."""
    arguments.variable(x, "x", "pad")
    attrs = {
        "paddings": arguments.integers(paddings, "paddings", "pad"),
        "pad_value": arguments.number(pad_value, "pad_value", "pad"),
    }
    return emit("pad", {"X": x}, attrs, name=name)


def pad2d(
    input: Variable,
    paddings: Any = (0, 0, 0, 0),
    mode: str = "constant",
    pad_value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Pad images by rows above and below and columns left and right (fluid.layers.pad2d).

    `mode` is constant, reflect or edge.
    """
    arguments.variable(input, "input", "pad2d")
    pads = arguments.integers(paddings, "paddings", "pad2d")
    if len(pads) != 4:
        raise ValueError(f"pad2d(): 'paddings' should have 4 numbers, found {pads}")
    attrs = {
        "paddings": pads,
        "mode": arguments.choice(mode, "mode", "pad2d", ("constant", "reflect", "edge")),
        "pad_value": arguments.number(pad_value, "pad_value", "pad2d"),
        "data_format": arguments.choice(data_format, "data_format", "pad2d", ("NCHW", "NHWC")),
    }
    return emit("pad2d", {"X": input}, attrs, name=name)


@one_layer("pad_constant_like")
def pad_constant_like(
    x: Variable, y: Variable, pad_value: float = 0.0, name: str | None = None
) -> Variable:
    """Pad y after each axis up to the shape of x (fluid.layers.pad_constant_like)."""
    wanted = arguments.variable(x, "x", "pad_constant_like").shape
    have = arguments.variable(y, "y", "pad_constant_like").shape
    fits = len(wanted) == len(have)
    gaps = [0 if w == h else w - h for w, h in zip(wanted, have, strict=False)]
    if not fits or min(gaps, default=0) < 0 or any(-1 in p and p[0] != p[1] for p in _pairs(x, y)):
        raise ValueError(
            f"pad_constant_like(): y {list(have)} must fit into x {list(wanted)}, whose sizes "
            "must be known"
        )
    return pad(y, [number for gap in gaps for number in (0, gap)], pad_value, name)


def _pairs(x: Variable, y: Variable) -> list[tuple[int, int]]:
    return list(zip(x.shape, y.shape, strict=False))


@one_layer("crop")
def crop(x: Variable, shape: Any = None, offsets: Any = None, name: str | None = None) -> Variable:
    """Crop x to this shape, or the shape of another Variable, at `offsets` (layers.crop)."""
    sizes = list(shape.shape) if isinstance(shape, Variable) else shape
    return _crop(x, sizes, offsets, name)


def crop_tensor(
    x: Variable, shape: Any = None, offsets: Any = None, name: str | None = None
) -> Variable:
    """Crop x to this shape at `offsets`; -1 goes to the end (fluid.layers.crop_tensor)."""
    return _crop(x, shape, offsets, name)


def topk(input: Variable, k: int, name: str | None = None) -> tuple[Variable, Variable]:
    """Find the k largest elements of the last axis, and their indices (fluid.layers.topk)."""
    arguments.variable(input, "input", "topk")
    helper = LayerHelper("top_k", name)
    attrs = {"k": arguments.integer(k, "k", "topk")}
    values, indices = helper.emit_all("top_k", {"X": input}, attrs, ("Out", "Indices"))
    indices.stop_gradient = True
    return values, indices


def one_hot(input: Variable, depth: int, allow_out_of_range: bool = False) -> Variable:
    """Encode indices [..., 1] as one-hot vectors [..., depth] (fluid.layers.one_hot)."""
    inputs = {"X": arguments.variable(input, "input", "one_hot")}
    attrs = {
        "depth": arguments.integer(depth, "depth", "one_hot"),
        "allow_out_of_range": arguments.flag(allow_out_of_range, "allow_out_of_range", "one_hot"),
    }
    return emit("one_hot", inputs, attrs, stop_gradient=True)


def sequence_mask(
    x: Variable, maxlen: Any = None, dtype: Any = "int64", name: str | None = None
) -> Variable:
    """Set the first x[i] of `maxlen` places of a new last axis to ones (layers.sequence_mask).

    `maxlen` is a number or a Variable; without it, or below 0, there are as many places as the
    largest length, and the program runs op by op.
    """
    known = isinstance(maxlen, Variable) or (maxlen is not None and maxlen >= 0)
    return _sequence_mask(x, maxlen if known else None, dtype, name)


def where(condition: Variable) -> Variable:
    """Find the indices of the true elements, int64 [count, rank] (fluid.layers.where)."""
    return _nonzero(condition)


def nonzero(input: Variable, as_tuple: bool = False) -> Any:
    """Find the indices of the elements that are not 0, int64 [count, rank] (layers.nonzero).

    With `as_tuple`, return a column [count, 1] for each axis instead.
    """
    found = where(input)
    if not as_tuple:
        return found
    return tuple(slice(found, [1], [at], [at + 1]) for at in range(len(input.shape)))


def unique(x: Variable, dtype: Any = "int32") -> tuple[Variable, Variable]:
    """Find the distinct elements of a vector, as they first occur, and each element's index there.

    Paddle page: fluid.layers.unique.
    """
    found, index = _unique("unique", ("Out", "Index"), x, dtype)
    return found, index


def unique_with_counts(x: Variable, dtype: Any = "int32") -> tuple[Variable, Variable, Variable]:
    """Find the distinct elements as `unique` does, and count them (unique_with_counts)."""
    found, index, count = _unique("unique_with_counts", ("Out", "Index", "Count"), x, dtype)
    return found, index, count


def _unique(type: str, outs: tuple[str, ...], x: Variable, dtype: Any) -> list[Variable]:
    element = arguments.dtype(dtype, "dtype", type)
    if element not in ("int32", "int64"):
        raise TypeError(f"{type}(): 'dtype' must be int32 or int64, found {element}")
    inputs = {"X": arguments.variable(x, "x", type)}
    helper = LayerHelper(type)
    return helper.emit_all(type, inputs, {"dtype": element.code}, outs, stop_gradient=True)
