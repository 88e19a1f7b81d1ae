"""Indexed reads and writes, diagonals and bins (paddle.*)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign, full
from graphopt.tensor.logic import equal, less_than
from graphopt.tensor.manipulation import cast, expand, flatten, gather, reshape, unsqueeze
from graphopt.tensor.math import add, clip, max, min, multiply, remainder, subtract, times
from graphopt.tensor.positions import put_along_axis
from graphopt.tensor.ranges import diag, linspace
from graphopt.tensor.search import searchsorted, where


def index_add(
    x: Variable,
    index: Variable,
    axis: int,
    value: Variable,
    name: str | None = None,
    *,
    alpha: float = 1,
) -> Variable:
    """Add slices of alpha * value to x at `index` along `axis` (paddle.index_add)."""
    inputs = {
        "X": arguments.variable(x, "x", "index_add"),
        "Index": arguments.variable(index, "index", "index_add"),
        "AddValue": times(arguments.variable(value, "value", "index_add"), alpha, "index_add"),
    }
    attrs = {"axis": arguments.integer(axis, "axis", "index_add")}
    return emit("index_add", inputs, attrs, name=name)


def index_put(
    x: Variable,
    indices: Sequence[Variable],
    value: Variable,
    accumulate: bool = False,
    name: str | None = None,
) -> Variable:
    """Copy x with values at the positions of index tensors (paddle.index_put).

    There is one tensor of integers for each of the first axes; they and the values broadcast. A
    bool tensor stands for the indices of its true elements, on as many axes as its rank (see
    `data_sized`); where one value goes to all of them, `where` is much faster. `accumulate` adds.
    """
    inputs = {
        "x": arguments.variable(x, "x", "index_put"),
        "indices": arguments.variables(indices, "indices", "index_put"),
        "value": arguments.variable(value, "value", "index_put"),
    }
    attrs = {"accumulate": arguments.flag(accumulate, "accumulate", "index_put")}
    return emit("index_put", inputs, attrs, name=name, out="out")


def index_fill(
    x: Variable, index: Variable, axis: int, value: Any, name: str | None = None
) -> Variable:
    """Fill the slices of x at `index` along `axis` with a number (paddle.index_fill)."""
    rank = len(arguments.variable(x, "x", "index_fill").shape)
    at = arguments.integer(axis, "axis", "index_fill")
    if not -rank <= at < rank:
        raise ValueError(f"index_fill(): 'axis' {axis} is out of range for {list(x.shape)}")
    filler = value if isinstance(value, Variable) else full([], value, x.dtype)
    numbers = assign(np.arange(x.shape[at], dtype="int64"))
    wanted = cast(flatten(arguments.variable(index, "index", "index_fill")), "int64")
    size = full([], x.shape[at], "int64")
    wanted = where(less_than(wanted, full([], 0, "int64")), add(wanted, size), wanted)
    hits = cast(equal(unsqueeze(numbers, 1), wanted), "int32")
    chosen = cast(max(hits, 1), "bool")
    shape = [-1 if i == at % rank else 1 for i in range(rank)]
    return where(reshape(chosen, shape), filler, x, name)


def take(x: Variable, index: Variable, mode: str = "raise", name: str | None = None) -> Variable:
    """Gather elements of the flattened tensor, in the shape of `index` (paddle.take).

    Negative indices count from the end. Indices out of range wrap around with mode 'wrap', and are
    clamped with 'clip', negative ones to 0. With 'raise' they read nan or the least integer,
    because a compiled program cannot raise an error.
    """
    flat = flatten(arguments.variable(x, "x", "take"))
    arguments.choice(mode, "mode", "take", ("raise", "wrap", "clip"))
    places = cast(flatten(arguments.variable(index, "index", "take")), "int64")
    size = flat.shape[0]
    if size < 0:
        raise UnsupportedError(f"take(): the sizes of x {list(x.shape)} must be known")
    count = full([], size, "int64")
    if mode == "clip":
        places = clip(places, 0, size - 1)
    elif mode == "wrap":
        places = remainder(places, count)
    else:
        places = where(less_than(places, full([], 0, "int64")), add(places, count), places)
    return reshape(gather(flat, places), list(index.shape), name)


def shard_index(
    input: Variable, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1
) -> Variable:
    """Map an id to its number within shard `shard_id`, or else to `ignore_value`.

    Each shard has index_num / nshards numbers, rounded up. Paddle page: paddle.shard_index.
    """
    attrs = {
        "index_num": arguments.integer(index_num, "index_num", "shard_index"),
        "nshards": arguments.integer(nshards, "nshards", "shard_index"),
        "shard_id": arguments.integer(shard_id, "shard_id", "shard_index"),
        "ignore_value": arguments.integer(ignore_value, "ignore_value", "shard_index"),
    }
    if not 0 <= attrs["shard_id"] < attrs["nshards"]:
        raise ValueError(f"shard_index(): the shard_id({shard_id}) should be in [0, {nshards})")
    inputs = {"X": arguments.variable(input, "input", "shard_index")}
    return emit("shard_index", inputs, attrs, stop_gradient=True)


def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Variable:
    """Put the last axis on a diagonal of matrices in the axes dim1 and dim2 (paddle.diag_embed)."""
    x = input if isinstance(input, Variable) else assign(np.asarray(input))
    attrs = {
        "offset": arguments.integer(offset, "offset", "diag_embed"),
        "dim1": arguments.integer(dim1, "dim1", "diag_embed"),
        "dim2": arguments.integer(dim2, "dim2", "diag_embed"),
    }
    return emit("diag_embed", {"Input": x}, attrs)


def diagflat(x: Variable, offset: int = 0, name: str | None = None) -> Variable:
    """Build a matrix with the flattened elements of x on a diagonal (paddle.diagflat)."""
    arguments.variable(x, "x", "diagflat")
    return diag(x if len(x.shape) == 1 else flatten(x), offset, name=name)


def _index_ranges(x: Variable, axes: Any, starts: Any, ends: Any, strides: Any) -> list[Any]:
    """Compute the constant indices that a strided slice takes on each axis of x."""
    function = "slice_scatter"
    chosen: list[Any] = [np.arange(size) for size in x.shape]
    given = [
        arguments.integers(v, n, function)
        for n, v in (("axes", axes), ("starts", starts), ("ends", ends), ("strides", strides))
    ]
    for axis, start, end, step in zip(*given, strict=True):
        chosen[axis] = chosen[axis][start:end:step]
    return chosen


def _overwrite(x: Variable, chosen: list[Any], value: Variable, name: str | None) -> Variable:
    """Copy x with values at a constant grid of positions."""
    if _smallest(x.shape) < 0:
        raise UnsupportedError(f"the sizes of x {list(x.shape)} must be known to write into it")
    grids = np.meshgrid(*chosen, indexing="ij")
    places = np.ravel_multi_index([grid.reshape(-1) for grid in grids], tuple(x.shape))
    shape = [len(numbers) for numbers in chosen]
    values = reshape(expand(value, shape), [-1])
    flat = put_along_axis(flatten(x), assign(places.astype("int64")), values, 0)
    return reshape(flat, list(x.shape), name)


def _smallest(shape: Sequence[int]) -> int:
    """Return the smallest dimension, but 0 at most; a negative one is unknown."""
    return sorted([0, *shape])[0]


def slice_scatter(
    x: Variable,
    value: Variable,
    axes: Any,
    starts: Any,
    ends: Any,
    strides: Any,
    name: str | None = None,
) -> Variable:
    """Copy x with values in a strided slice (paddle.slice_scatter)."""
    arguments.variable(x, "x", "slice_scatter")
    arguments.variable(value, "value", "slice_scatter")
    return _overwrite(x, _index_ranges(x, axes, starts, ends, strides), value, name)


def select_scatter(
    x: Variable, values: Variable, axis: int, index: int, name: str | None = None
) -> Variable:
    """Copy x with values in one slice along `axis` (paddle.select_scatter)."""
    rank = len(arguments.variable(x, "x", "select_scatter").shape)
    at = arguments.integer(axis, "axis", "select_scatter") % rank
    arguments.variable(values, "values", "select_scatter")
    chosen: list[Any] = [np.arange(size) for size in x.shape]
    chosen[at] = chosen[at][[arguments.integer(index, "index", "select_scatter")]]
    return _overwrite(x, chosen, unsqueeze(values, at), name)


def diagonal_scatter(
    x: Variable,
    y: Variable,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    name: str | None = None,
) -> Variable:
    """Copy x with y on a diagonal of two axes (paddle.diagonal_scatter)."""
    shape = list(arguments.variable(x, "x", "diagonal_scatter").shape)
    if _smallest(shape) < 0:
        raise UnsupportedError(f"diagonal_scatter(): the sizes of x {shape} must be known")
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    places = np.diagonal(numbers, offset, axis1, axis2)
    if list(places.shape) != list(arguments.variable(y, "y", "diagonal_scatter").shape):
        raise ValueError(
            f"diagonal_scatter(): 'y' should have the shape {list(places.shape)}, "
            f"but received {list(y.shape)}"
        )
    at = assign(places.reshape(-1).astype("int64"))
    return reshape(put_along_axis(flatten(x), at, flatten(y), 0), shape, name)


def bucketize(
    x: Variable,
    sorted_sequence: Variable,
    out_int32: bool = False,
    right: bool = False,
    name: str | None = None,
) -> Variable:
    """Find the position of each element of x in a sorted vector (paddle.bucketize)."""
    arguments.variable(sorted_sequence, "sorted_sequence", "bucketize")
    if len(sorted_sequence.shape) != 1:
        raise ValueError(
            f"bucketize(): 'sorted_sequence' should be 1-D, found {list(sorted_sequence.shape)}"
        )
    return searchsorted(sorted_sequence, x, out_int32, right, name)


def histogram_bin_edges(
    input: Variable, bins: int = 100, min: float = 0.0, max: float = 0.0, name: str | None = None
) -> Variable:
    """Compute the bin edges of `histogram`, float32 (paddle.histogram_bin_edges).

    If min and max are equal, the bins cover the elements.
    """
    low, high = (
        arguments.number(v, n, "histogram_bin_edges") for n, v in (("min", min), ("max", max))
    )
    if high < low:
        raise ValueError(f"histogram_bin_edges(): max {high} should not be below min {low}")
    count = arguments.integer(bins, "bins", "histogram_bin_edges")
    if low != high:
        return linspace(low, high, count + 1, "float32", name)
    return _edges_of_data(
        cast(arguments.variable(input, "input", "histogram_bin_edges"), "float32"), count, name
    )


def _edges_of_data(x: Variable, count: int, name: str | None) -> Variable:
    low, high = min(x), max(x)
    same = equal(low, high)
    half = full([], 0.5, "float32")
    low = where(same, subtract(low, half), low)
    high = where(same, add(high, half), high)
    steps = linspace(0.0, 1.0, count + 1, "float32")
    return add(low, multiply(subtract(high, low), steps), name)


def fill_diagonal(x: Variable, value: float, offset: int = 0, wrap: bool = False) -> Variable:
    """Copy x with a number on its main diagonal, or at an offset (Tensor.fill_diagonal_)."""
    shape = list(arguments.variable(x, "x", "fill_diagonal").shape)
    if len(shape) < 2 or _smallest(shape) < 0:
        raise ValueError(f"fill_diagonal(): 'x' should have rank 2 and known sizes, found {shape}")
    on = np.zeros(shape, bool)
    if len(shape) == 2:
        rows = np.arange(shape[0])
        period = shape[1] + 1 if wrap else shape[0] + shape[1] + 1
        columns = rows % period + offset
        kept = (columns >= 0) & (columns < shape[1])
        on[rows[kept], columns[kept]] = True
    else:
        each = np.arange(shape[0])
        on[(each,) * len(shape)] = True
    return where(assign(on), full([], value, x.dtype), x)
