"""Counts of points in the cells of a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.tensor.accumulate import diff
from graphopt.tensor.creation import assign, full, zeros
from graphopt.tensor.logic import equal, greater_equal, less_equal, logical_and
from graphopt.tensor.manipulation import cast, reshape, slice
from graphopt.tensor.math import add, clip, divide, max, min, multiply, scale, sum
from graphopt.tensor.positions import scatter_nd_add
from graphopt.tensor.ranges import linspace
from graphopt.tensor.search import searchsorted, where

_FUNCTION = "histogramdd"


def histogramdd(
    x: Variable,
    bins: Any = 10,
    ranges: Sequence[float] | None = None,
    density: bool = False,
    weights: Variable | None = None,
    name: str | None = None,
) -> tuple[Variable, list[Variable]]:
    """Count the points x [..., d] in each cell of a grid; also return the cell edges by axis.

    `bins` is the number of cells per axis, one number for all axes, or a tuple of tensors of edges.
    Without edges, the grid spans `ranges`, the lowest and the highest bound of each axis, or else
    the points. `density` divides by the total and by the cell size. Paddle page:
    paddle.histogramdd.
    Raises ValueError for the wrong number of bins or ranges.
    """
    shape = arguments.variable(x, "x", _FUNCTION).shape
    axes = shape[-1]
    points = reshape(x, [-1, axes])
    columns = [reshape(slice(points, [1], [i], [i + 1]), [-1]) for i in range(axes)]
    edges = _edges(columns, bins, ranges, x.dtype)
    counts = [edge.shape[0] - 1 for edge in edges]
    number, inside = None, None
    for column, edge, count in zip(columns, edges, counts, strict=True):
        last = slice(edge, [0], [count], [count + 1])
        cell = searchsorted(edge, column, right=True)
        # the last cell includes its upper bound
        cell = add(scale(cell, 1, -1), scale(cast(equal(column, last), "int64"), -1))
        fits = logical_and(
            greater_equal(cell, full([1], 0, "int64")),
            less_equal(cell, full([1], count - 1, "int64")),
        )
        cell = clip(cell, 0, count - 1)
        number = cell if number is None else add(scale(number, count), cell)
        inside = fits if inside is None else logical_and(inside, fits)
    assert number is not None and inside is not None
    amounts = cast(inside, x.dtype)
    if weights is not None:
        amounts = multiply(amounts, reshape(cast(weights, x.dtype), [-1]))
    total = zeros([math.prod(counts)], x.dtype)
    found = reshape(scatter_nd_add(total, reshape(number, [-1, 1]), amounts), counts)
    if arguments.flag(density, "density", _FUNCTION):
        whole = sum(found)
        for i, edge in enumerate(edges):
            along = [-1 if i == axis else 1 for axis in range(axes)]
            found = divide(found, reshape(diff(edge), along))
        found = divide(found, whole)
    return found, edges


def _edges(
    columns: list[Variable], bins: Any, ranges: Sequence[float] | None, dtype: Any
) -> list[Variable]:
    axes = len(columns)
    if isinstance(bins, tuple):
        made = [
            assign(edge)
            if isinstance(edge, np.ndarray)
            else arguments.variable(edge, "bins", _FUNCTION)
            for edge in bins
        ]
        if len(made) != axes:
            raise ValueError(f"{_FUNCTION}(): points of {axes} axes need as many bounds in 'bins'")
        return made
    counts = [bins] * axes if isinstance(bins, int) else arguments.integers(bins, "bins", _FUNCTION)
    if len(counts) != axes or (ranges is not None and len(ranges) != 2 * axes):
        raise ValueError(
            f"{_FUNCTION}(): points of {axes} axes need {axes} numbers in 'bins' and {2 * axes} in "
            f"'ranges', found {bins} and {ranges}"
        )
    made = []
    for i, (column, count) in enumerate(zip(columns, counts, strict=True)):
        if ranges is not None:
            made.append(linspace(ranges[2 * i], ranges[2 * i + 1], count + 1, dtype))
            continue
        made.append(_between(min(column), max(column), count))
    return made


def _between(low: Variable, high: Variable, count: int) -> Variable:
    """Compute the edges of equal cells in float64, each edge from the nearer end."""
    step = scale(cast(add(high, scale(low, -1.0)), "float64"), 1 / count)
    numbers = np.arange(count + 1.0)
    up = add(cast(low, "float64"), multiply(step, assign(numbers)))
    down = add(cast(high, "float64"), multiply(step, assign(numbers - count)))
    return cast(where(assign(numbers < (count + 1) // 2), up, down), low.dtype)
