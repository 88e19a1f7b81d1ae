"""Averages, spread, medians and counts (paddle.*)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphopt.errors import OperandError, UnsupportedError
from graphopt.frontend import arguments, lazy
from graphopt.frontend.sizes import size_of
from graphopt.ir.program import Variable
from graphopt.tensor.attribute import shape
from graphopt.tensor.creation import assign, full
from graphopt.tensor.logic import any, equal, isnan, logical_not, not_equal
from graphopt.tensor.manipulation import (
    cast,
    flatten,
    gather,
    reshape,
    slice,
    squeeze,
)
from graphopt.tensor.math import (
    clip,
    divide,
    prod,
    reduce,
    scale,
    sqrt,
    square,
    subtract,
    sum,
)
from graphopt.tensor.positions import take_along_axis
from graphopt.tensor.quantiles import quantile_of
from graphopt.tensor.search import argmax, argsort, where


def mean(
    x: Variable,
    axis: Any = None,
    keepdim: bool = False,
    name: str | None = None,
    *,
    dtype: Any = None,
) -> Variable:
    """Compute the mean over `axis`, without the fraction for integers (paddle.mean)."""
    x = x if dtype is None else cast(x, dtype)
    return reduce("reduce_mean", x, axis, keepdim, name, layer="mean")


def var(
    x: Variable,
    axis: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    name: str | None = None,
    *,
    correction: float = 1,
) -> Variable:
    """Compute the variance over `axis`, divided by n - 1, or by n if not `unbiased` (paddle.var).

    With `correction` the divisor is n less this number, but 0 at least.
    """
    correction = arguments.number(correction, "correction", "var")
    if not arguments.variable(x, "x", "var").dtype.is_differentiable:
        raise OperandError(f"var(): 'x' must be floating-point, found {x.dtype}; cast it first")
    centered = subtract(x, mean(x, axis, True))
    if not arguments.flag(unbiased, "unbiased", "var") or correction == 0:
        return mean(square(centered), axis, keepdim, name)
    total = sum(square(centered), axis, keepdim=keepdim, name=name)
    rank = len(x.shape)
    dims = [d % rank for d in arguments.axes(axis, "var") if rank] or list(range(rank))
    counts = [x.shape[d] for d in dims]
    if all(count >= 0 for count in counts):
        if 0 in counts:
            return divide(total, total)  # NaN
        if correction == 1:
            # one sample has no variance; Paddle 2.x returns 0
            return scale(total, 1.0 / (math.prod(counts) - 1 or 1))
        left = math.prod(counts) - correction
        return divide(total, full([], left if left > 0 else 0.0, x.dtype))
    sizes = cast(gather(shape(x), assign(dims)), x.dtype)
    left = scale(prod(sizes), 1.0, -correction)
    return divide(total, left if correction <= 1 else clip(left, min=0.0))


def std(
    x: Variable,
    axis: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """Compute the standard deviation over `axis`, the square root of `var` (paddle.std)."""
    return sqrt(var(x, axis, unbiased, keepdim), name)


def median(
    x: Variable,
    axis: int | None = None,
    keepdim: bool = False,
    mode: str = "avg",
    name: str | None = None,
) -> Variable | tuple[Variable, Variable]:
    """Compute the median along `axis`, or of all elements (paddle.median).

    Of an even number of elements, it is the average of the middle two. It is nan where an element
    is, and float32 for integers. With the mode "min" it is the smaller of the two, in the dtype of
    x, and with an axis its int64 index is a second result.
    """
    if mode == "avg":
        x = arguments.variable(x, "x", "median")
        x = x if x.dtype.is_floating else cast(x, "float32")
        return quantile_of(x, 0.5, axis, keepdim, "median", name)
    if mode != "min":
        raise ValueError(f"median(): 'mode' should be 'avg' or 'min', but received {mode!r}")
    return _lower_median(x, axis, arguments.flag(keepdim, "keepdim", "median"), name)


def _lower_median(
    x: Variable, axis: int | None, keepdim: bool, name: str | None
) -> Variable | tuple[Variable, Variable]:
    """Find the lower median, or the first nan; with an axis, also return its index."""
    rank = len(arguments.variable(x, "x", "median").shape)
    rows = flatten(x) if axis is None and rank != 1 else x
    along = 0 if axis is None else arguments.integer(axis, "axis", "median")
    lower = (_elements_along(rows, along, axis, "median") - 1) // 2
    middle = slice(argsort(rows, along), [along], [lower], [lower + 1])
    if x.dtype.is_floating:
        undefined = isnan(rows)
        first = argmax(cast(undefined, "int32"), along, keepdim=True)
        middle = where(any(undefined, along, keepdim=True), first, middle)
    found = take_along_axis(rows, middle, along)
    if axis is None:
        return reshape(found, [1] * rank if keepdim else [], name=name)
    if keepdim:
        return found, middle
    return squeeze(found, along, name=name), squeeze(middle, along)


def _elements_along(x: Variable, along: int, axis: Any, function: str) -> Any:
    size = size_of(x, along)
    if not isinstance(size, Variable) and size < 1:
        raise UnsupportedError(
            f"{function}(): there are no elements along axis {axis} of {list(x.shape)}"
        )
    return size


def nansum(
    x: Variable, axis: Any = None, dtype: Any = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """Sum over `axis`, ignoring nan (paddle.nansum)."""
    return sum(_without_nan(x), axis, dtype, keepdim, name)


def nanmean(
    x: Variable, axis: Any = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """Compute the mean over `axis`, ignoring nan (paddle.nanmean)."""
    count = sum(cast(logical_not(isnan(x)), x.dtype), axis, keepdim=keepdim)
    return divide(nansum(x, axis, keepdim=keepdim), count, name)


def _without_nan(x: Any) -> Variable:
    return where(isnan(x), full([], 0, x.dtype), x)


def nan_to_num(
    x: Variable,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
    name: str | None = None,
) -> Variable:
    """Replace nan by a number and infinities by the dtype's extremes (paddle.nan_to_num).

    `nan`, `posinf` and `neginf` set the replacements.
    """
    limits = np.finfo(arguments.variable(x, "x", "nan_to_num").dtype.numpy)
    highest = float(limits.max) if posinf is None else posinf
    lowest = float(limits.min) if neginf is None else neginf
    x = where(isnan(x), full([], nan, x.dtype), x)
    x = where(equal(x, math.inf), full([], highest, x.dtype), x)
    return where(equal(x, -math.inf), full([], lowest, x.dtype), x, name)


def count_nonzero(
    x: Variable, axis: Any = None, keepdim: bool = False, name: str | None = None
) -> Variable:
    """Count the elements over `axis` that are not 0, int64 (paddle.count_nonzero)."""
    return sum(cast(not_equal(x, 0), "int64"), axis, keepdim=keepdim, name=name)


lazy.join_package(globals())
