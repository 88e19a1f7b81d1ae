"""Contractions, distances between rows, and covariances (paddle.*)."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.frontend import arguments
from graphopt.frontend.sizes import product_of, size_of
from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign, full, ones
from graphopt.tensor.distances import norm
from graphopt.tensor.linalg import matmul, t, transpose
from graphopt.tensor.manipulation import cast, concat, gather, reshape, unsqueeze
from graphopt.tensor.math import clip, cumprod, divide, multiply, scale, sqrt, subtract, sum
from graphopt.tensor.ranges import diag
from graphopt.tensor.rearrange import flip, tile
from graphopt.tensor.stat import mean


def _contracted_axes(axes: Any, rank_x: int, rank_y: int) -> tuple[list[int], list[int]]:
    """Resolve the `axes` of tensordot to the contracted axes of x and of y, in pairs."""
    if isinstance(axes, (list, tuple)):
        if axes and isinstance(axes[0], (list, tuple)):
            first = arguments.integers(axes[0], "axes", "tensordot")
            second = arguments.integers(axes[-1], "axes", "tensordot")
        else:
            first = second = arguments.integers(axes, "axes", "tensordot")
        # extend the shorter list by the longer list's axes
        count = max(len(first), len(second))
        first, second = first + second[len(first) : count], second + first[len(second) : count]
    else:
        number = arguments.integer(axes, "axes", "tensordot")
        if not 0 <= number <= min(rank_x, rank_y):
            raise ValueError(f"tensordot(): 'axes' {axes} is not from 0 to the smaller rank")
        first, second = list(range(rank_x - number, rank_x)), list(range(number))
    return [a % rank_x for a in first], [a % rank_y for a in second]


def tensordot(x: Variable, y: Variable, axes: Any = 2, name: str | None = None) -> Variable:
    """Contract x and y over pairs of axes (paddle.tensordot).

    `axes` is a count n, for the last n axes of x and the first n of y, or one list for both, or a
    pair of lists. Dimensions of 1 broadcast.
    """
    shape_x = list(arguments.variable(x, "x", "tensordot").shape)
    shape_y = list(arguments.variable(y, "y", "tensordot").shape)
    over_x, over_y = _contracted_axes(axes, len(shape_x), len(shape_y))
    for a, b in zip(over_x, over_y, strict=True):
        one, other = shape_x[a], shape_y[b]
        if one == 1 and other > 1:
            x = _repeat_axis(y, b, x, a)
            shape_x = list(x.shape)
        elif other == 1 and one > 1:
            y = _repeat_axis(x, a, y, b)
            shape_y = list(y.shape)
        elif -1 not in (one, other) and one != other:
            raise ValueError(
                f"tensordot(): axis {a} of x {shape_x} and axis {b} of y {shape_y} differ"
            )
    kept_x = [a for a in range(len(shape_x)) if a not in over_x]
    kept_y = [b for b in range(len(shape_y)) if b not in over_y]
    left, right = [size_of(x, a) for a in kept_x], [size_of(y, b) for b in kept_y]
    inner = product_of(size_of(y, b) for b in over_y)
    flat_x, flat_y = [product_of(left), inner], [inner, product_of(right)]
    rows = reshape(transpose(x, [*kept_x, *over_x]) if shape_x else x, flat_x)
    columns = reshape(transpose(y, [*over_y, *kept_y]) if shape_y else y, flat_y)
    return reshape(matmul(rows, columns), left + right, name)


def _repeat_axis(y: Variable, b: int, x: Variable, a: int) -> Variable:
    """Repeat axis `a` of x, of size 1, to the size of axis `b` of y."""
    return tile(x, [y.shape[b] if i == a else 1 for i in range(len(x.shape))])


def vecdot(x: Variable, y: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """Compute dot products along an axis (paddle.vecdot, paddle.linalg.vecdot)."""
    arguments.variable(x, "x", "vecdot")
    return sum(multiply(x, arguments.variable(y, "y", "vecdot")), axis, name=name)


def cdist(
    x: Variable,
    y: Variable,
    p: float = 2.0,
    compute_mode: str = "use_mm_for_euclid_dist_if_necessary",
    name: str | None = None,
) -> Variable:
    """Compute the p-norm distances of all rows of x [..., n, d] and y [..., m, d] (paddle.cdist).

    `compute_mode` has no effect.
    """
    for what, value in (("x", x), ("y", y)):
        if len(arguments.variable(value, what, "cdist").shape) < 2:
            raise ValueError(f"cdist(): '{what}' should have rank 2 or more")
    gaps = subtract(unsqueeze(x, -2), unsqueeze(y, -3))
    order = arguments.number(p, "p", "cdist")
    if order < 0:
        raise ValueError(f"cdist(): 'p' should not be negative, but received {p}")
    return norm(gaps, order, -1, name=name)


def pdist(x: Variable, p: float = 2.0, name: str | None = None) -> Variable:
    """Compute the p-norm distances of all pairs of rows of x [n, d], n known (paddle.pdist)."""
    shape = arguments.variable(x, "x", "pdist").shape
    if len(shape) != 2 or shape[0] < 0:
        raise ValueError(f"pdist(): 'x' should be [n, d] with n known, found {list(shape)}")
    first, second = np.triu_indices(shape[0], 1)
    rows = [gather(x, assign(places.astype("int64"))) for places in (first, second)]
    return norm(subtract(rows[0], rows[1]), arguments.number(p, "p", "pdist"), -1, name=name)


def vander(
    x: Variable, n: int | None = None, increasing: bool = False, name: str | None = None
) -> Variable:
    """Build the Vandermonde matrix of a vector; powers fall unless `increasing` (paddle.vander)."""
    shape = arguments.variable(x, "x", "vander").shape
    if len(shape) != 1:
        raise ValueError(f"vander(): 'x' should be 1-D, but received {list(shape)}")
    count = shape[0] if n is None else arguments.integer(n, "n", "vander")
    if count < 0:
        raise ValueError(f"vander(): 'n' should be known and not negative, but received {n}")
    if not count:
        return full([shape[0], 0], 0, x.dtype)
    first = ones([shape[0], 1], x.dtype)
    if count == 1:
        return first
    powers = cumprod(tile(unsqueeze(x, 1), [1, count - 1]), 1)
    rising = concat([first, powers], 1)
    return rising if increasing else flip(rising, 1, name)


def cov(
    x: Variable,
    rowvar: bool = True,
    ddof: bool = True,
    fweights: Variable | None = None,
    aweights: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Compute the covariances of the rows (or columns) of x (paddle.linalg.cov).

    The divisor is n - 1 with `ddof`, else n. `fweights` counts the occurrences of each observation,
    `aweights` has its weight.
    """
    rank = len(arguments.variable(x, "x", "cov").shape)
    if rank not in (1, 2):
        raise ValueError(f"cov(): 'x' should have rank 1 or 2, but received {list(x.shape)}")
    rows = reshape(x, [1, -1]) if rank == 1 else x if rowvar else t(x)
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            own = cast(given, x.dtype)
            weights = own if weights is None else multiply(weights, own)
    if weights is None:
        count = rows.shape[1]
        centered = subtract(rows, mean(rows, 1, keepdim=True))
        product = matmul(centered, centered, transpose_y=True)
        total: Any = full([], float(count - (1 if ddof else 0)), x.dtype)
    else:
        amount = sum(weights)
        average = divide(sum(multiply(rows, weights), 1, keepdim=True), amount)
        centered = subtract(rows, average)
        product = matmul(multiply(centered, weights), centered, transpose_y=True)
        total = amount
        if ddof and aweights is not None:
            share = divide(sum(multiply(weights, cast(aweights, x.dtype))), amount)
            total = subtract(amount, share)
        elif ddof:
            total = scale(amount, 1.0, -1.0)
    out = divide(product, clip(total, min=0.0))
    shape = [] if rows.shape[0] == 1 else list(out.shape)
    return reshape(out, shape, name)


def corrcoef(x: Variable, rowvar: bool = True, name: str | None = None) -> Variable:
    """Compute the correlations of the rows (or columns) of x, in [-1, 1] (linalg.corrcoef)."""
    covariance = cov(x, rowvar)
    if not covariance.shape:
        return divide(covariance, covariance, name)
    spread = sqrt(diag(covariance))
    out = divide(divide(covariance, unsqueeze(spread, 1)), spread)
    return clip(out, -1.0, 1.0, name)
