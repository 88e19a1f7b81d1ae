"""Quantiles of tensors, with and without their nan elements (paddle.*)."""

from __future__ import annotations

import math
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments, lazy
from graphopt.frontend.constants import constant_of
from graphopt.frontend.sizes import size_of
from graphopt.ir.program import Variable
from graphopt.tensor.creation import full, full_like
from graphopt.tensor.elementary import ceil, floor
from graphopt.tensor.linalg import transpose
from graphopt.tensor.logic import (
    any,
    equal,
    greater_than,
    isnan,
    logical_and,
    logical_not,
    logical_or,
)
from graphopt.tensor.manipulation import cast, flatten, slice, squeeze, stack, unsqueeze
from graphopt.tensor.math import add, lerp, maximum, multiply, scale, subtract, sum
from graphopt.tensor.positions import take_along_axis
from graphopt.tensor.rearrange import unbind
from graphopt.tensor.search import sort, where

_BETWEEN = ("linear", "lower", "higher", "nearest", "midpoint")


def quantile(
    x: Variable,
    q: Any,
    axis: Any = None,
    keepdim: bool = False,
    interpolation: str = "linear",
    name: str | None = None,
) -> Variable:
    """Compute the quantiles q of the elements over `axis` (paddle.quantile).

    `q` is a number, several numbers, or a Variable; several results are stacked along a new first
    axis. The result is nan where an element is. `interpolation` computes a value between two
    neighbors: linear, lower, higher, nearest or midpoint.
    """
    return _each(x, q, axis, keepdim, interpolation, "quantile", name)


def nanquantile(
    x: Variable,
    q: Any,
    axis: Any = None,
    keepdim: bool = False,
    interpolation: str = "linear",
    name: str | None = None,
) -> Variable:
    """Compute quantiles, ignoring nan; nan where all elements are (paddle.nanquantile)."""
    return _each(x, q, axis, keepdim, interpolation, "nanquantile", name)


def _each(
    x: Any, q: Any, axis: Any, keepdim: bool, between: str, function: str, name: str | None
) -> Variable:
    arguments.choice(between, "interpolation", function, _BETWEEN)
    if isinstance(q, Variable):
        if len(q.shape) > 1:
            raise ValueError(f"{function}(): 'q' should have at most one axis, found {q.shape}")
        known = constant_of(q)
        q = known.tolist() if known is not None else unbind(q) if q.shape else q
    if not isinstance(q, (list, tuple)):
        return quantile_of(x, q, axis, keepdim, function, name, between)
    if not q:
        raise ValueError(f"{function}(): 'q' should not be empty")
    found = [quantile_of(x, one, axis, keepdim, function, None, between) for one in q]
    return stack(found, name=name)


def quantile_of(
    x: Any,
    q: Any,
    axis: Any,
    keepdim: bool,
    function: str,
    name: str | None,
    between: str = "linear",
) -> Variable:
    """Compute one quantile; ignore nan for nanquantile. Errors name `function`."""
    rank = len(arguments.variable(x, "x", function).shape)
    x = x if x.dtype.is_floating else cast(x, "float64")
    share = cast(q, x.dtype) if isinstance(q, Variable) else arguments.number(q, "q", function)
    if not isinstance(share, Variable) and not 0 <= share <= 1:
        raise ValueError(f"{function}(): 'q' should be in [0, 1], but received {q}")
    axes = arguments.axes(axis, function)
    if [a for a in axes if not -max(rank, 1) <= a < max(rank, 1)]:
        raise ValueError(f"{function}(): 'axis' is {axis}, and x has {rank} axes")
    at = sorted(a % rank for a in axes if rank) or list(range(rank))
    kept = [i for i in range(rank) if i not in at]
    rows = flatten(transpose(x, [*kept, *at]), len(kept)) if rank else unsqueeze(x, 0)
    if function == "nanquantile":
        found = _of_ordered(sort(rows, -1), _times(share, _last_number(rows)), between)
    else:
        last = _last_place(rows, axis, function)
        ordered = sort(rows, -1)
        undefined = any(isnan(rows), -1, keepdim=True)
        # NaN sorts last
        middle = _of_ordered(ordered, _times(share, last), between)
        found = where(undefined, _pick(ordered, last), middle)
    found = squeeze(found, -1)
    if arguments.flag(keepdim, "keepdim", function):
        found = unsqueeze(found, at) if at else found
    return found if name is None else scale(found, name=name)


def _last_place(rows: Variable, axis: Any, function: str) -> Any:
    """Compute the position of the last element of a row, a number or a Variable in its dtype."""
    size = size_of(rows, -1)
    if isinstance(size, Variable):
        return scale(cast(size, rows.dtype), 1.0, -1.0)
    if size < 1:
        raise UnsupportedError(
            f"{function}(): there are no elements along axis {axis} of {list(rows.shape)}"
        )
    return size - 1.0


def _last_number(rows: Variable) -> Variable:
    """Compute the sorted position of the last element that is not nan, or 0."""
    count = sum(cast(logical_not(isnan(rows)), rows.dtype), -1, keepdim=True)
    return maximum(scale(count, 1.0, -1.0), full([], 0.0, rows.dtype))


def _times(share: Any, last: Any) -> Any:
    """Multiply two numbers, either of which may be a Variable."""
    if isinstance(share, Variable) and isinstance(last, Variable):
        return multiply(last, share)
    if isinstance(share, Variable):
        return scale(share, last)
    return scale(last, share) if isinstance(last, Variable) else share * last


def _pick(ordered: Variable, place: Any) -> Variable:
    """Gather the element at a position of each row, a number or a Variable of whole numbers."""
    if not isinstance(place, Variable):
        return slice(ordered, [-1], [int(place)], [int(place) + 1])
    index = add(full_like(slice(ordered, [-1], [0], [1]), 0.0), place)
    return take_along_axis(ordered, cast(index, "int64"), -1)


def _of_ordered(ordered: Variable, place: Any, between: str) -> Variable:
    """Interpolate sorted rows at a position that may be between two neighbors."""
    if isinstance(place, Variable):
        low, high = floor(place), ceil(place)
        past = subtract(place, low)
    else:
        low, high = math.floor(place), math.ceil(place)
        past = place - low
    if between == "nearest":
        return _pick(ordered, _nearest(place, low, high, past))
    if between == "midpoint":
        return scale(add(_pick(ordered, low), _pick(ordered, high)), 0.5)
    if between in ("lower", "higher"):
        return _pick(ordered, low if between == "lower" else high)
    first, second = _pick(ordered, low), _pick(ordered, high)
    if isinstance(past, Variable):
        return add(first, multiply(subtract(second, first), past))
    return lerp(first, second, past)


def _nearest(place: Any, low: Any, high: Any, past: Any) -> Any:
    """Round a position to the nearest whole number, halves to even."""
    if not isinstance(place, Variable):
        return round(place)
    middle = full([], 0.5, place.dtype)
    pairs = scale(low, 0.5)
    is_odd = greater_than(pairs, floor(pairs))
    is_nearer = greater_than(past, middle)
    return where(logical_or(is_nearer, logical_and(equal(past, middle), is_odd)), high, low)


lazy.join_package(globals())
