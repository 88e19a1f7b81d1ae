"""Reading and writing elements at given positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import scatter as ops
from graphopt.ir.dialect.ops.index import IndexAdd, IndexPut
from graphopt.reference.derivatives import place
from graphopt.reference.registry import Unsupported, rule
from graphopt.reference.tape import Array, NoDerivative, TapeNode


def _check_numbers(numbers: Array, size: int, op: str) -> Array:
    if not np.all((numbers >= -size) & (numbers < size)):
        raise Unsupported(op, "at a position that is out of range")
    return np.where(numbers < 0, numbers + size, numbers)


def _flat(x: Array, index: Array, op: str) -> Array:
    """Flatten each row of an index to the number of a slice of x."""
    at: Array = np.zeros(index.shape[:-1], np.int64)
    for axis in range(index.shape[-1]):
        at = at * x.shape[axis] + _check_numbers(index[..., axis], x.shape[axis], op)
    return at


def assign_rows(x: Array, at: Array, values: Array) -> Array:
    """Replace rows of x by rows of the values, the last one where a row is named again."""
    if not at.size:
        return x
    last = np.full(x.shape[0], -1)
    last[at] = np.arange(at.size)
    kept = np.reshape(last < 0, (-1,) + (1,) * (x.ndim - 1))
    return np.where(kept, x, np.take(values, np.maximum(last, 0), 0))


@rule(ops.GatherNd)
def gather_nd(x: Array, index: Array) -> Array:
    depth = index.shape[-1]
    rows = np.reshape(x, (math.prod(x.shape[:depth]), *x.shape[depth:]))
    return np.take(rows, _flat(x, index, "pd.gather_nd"), 0)


@rule(ops.ScatterNdAdd)
def scatter_nd_add(x: Array, index: Array, updates: Array) -> Array:
    depth = index.shape[-1]
    count = math.prod(x.shape[:depth])
    at = np.reshape(_flat(x, index, "pd.scatter_nd_add"), (-1,))
    wanted = (*index.shape[:-1], *x.shape[depth:])
    parts = np.reshape(np.broadcast_to(updates, wanted), (at.size, *x.shape[depth:]))
    return x + np.reshape(place(parts, at, (count, *x.shape[depth:]), -0.0), x.shape)


@rule(ops.Scatter)
def scatter(x: Array, index: Array, updates: Array, overwrite: bool) -> Array:
    rows = _check_numbers(np.reshape(index, (-1,)), x.shape[0], "pd.scatter")
    updates = np.broadcast_to(updates, (rows.size, *x.shape[1:]))
    if overwrite:
        return assign_rows(x, rows, updates)
    hit = np.zeros(x.shape[0], bool)
    hit[rows] = True
    named = np.reshape(hit, (-1,) + (1,) * (x.ndim - 1))
    return np.where(named, place(updates, rows, x.shape), x)


def _grid(x: Array, index: Array, axis: int, op: str) -> tuple[Any, ...]:
    grid: list[Any] = list(np.ogrid[tuple(slice(size) for size in x.shape)])
    grid[axis % x.ndim] = _check_numbers(index, x.shape[axis], op)
    return tuple(grid)


@rule(ops.TakeAlongAxis)
def take_along_axis(x: Array, index: Array, axis: int) -> Array:
    return x[_grid(x, index, axis, "pd.take_along_axis")]


@rule(ops.IndexSample)
def index_sample(x: Array, index: Array) -> Array:
    return x[_grid(x, index, 1, "pd.index_sample")]


@rule(ops.PutAlongAxis)
def put_along_axis(
    x: Array, index: Array, value: Array, axis: int, reduce: str, include_self: bool
) -> Array:
    grid = _grid(x, index, axis, "pd.put_along_axis")
    if isinstance(x, TapeNode) or isinstance(value, TapeNode):
        raise NoDerivative("put_along_axis")
    shape = np.broadcast_shapes(*(np.shape(g) for g in grid))
    value = np.broadcast_to(value, shape)
    out = x.copy()
    if reduce == "assign":
        out[grid] = value
        return out
    count = np.zeros(x.shape, np.int64)
    np.add.at(count, grid, 1)
    functions: dict[str, tuple[Any, Any]] = {
        "add": (np.add, 0),
        "mean": (np.add, 0),
        "mul": (np.multiply, 1),
        "multiply": (np.multiply, 1),
        "amin": (np.minimum, np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).max),
        "amax": (np.maximum, -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min),
    }
    function, neutral = functions[reduce]
    kept = (count == 0) | include_self
    out = np.where(kept, x, neutral).astype(x.dtype)
    function.at(out, grid, value)
    if reduce != "mean":
        return out
    number = np.maximum(count + kept, 1)
    return out / number if x.dtype.kind == "f" else out // number


@rule(IndexAdd)
def index_add(x: Array, index: Array, add_value: Array, axis: int) -> Array:
    rows = np.moveaxis(x, axis, 0)
    wanted = (index.size, *rows.shape[1:])
    added = np.broadcast_to(np.moveaxis(add_value, axis, 0), wanted)
    at = _check_numbers(index, rows.shape[0], "pd.index_add")
    return np.moveaxis(rows + place(added, at, rows.shape, -0.0), 0, axis)


@rule(IndexPut)
def index_put(x: Array, indices: tuple[Array, ...], value: Array, accumulate: bool) -> Array:
    depth = len(indices)
    index = np.stack(np.broadcast_arrays(*indices), -1)
    at = np.reshape(_flat(x, index, "pd.index_put"), (-1,))
    wanted = (*index.shape[:-1], *x.shape[depth:])
    parts = np.reshape(np.broadcast_to(value, wanted), (at.size, *x.shape[depth:]))
    rows = np.reshape(x, (math.prod(x.shape[:depth]), *x.shape[depth:]))
    put = rows + place(parts, at, rows.shape, -0.0) if accumulate else assign_rows(rows, at, parts)
    return np.reshape(put, x.shape)
