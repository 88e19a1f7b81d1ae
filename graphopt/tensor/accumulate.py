"""Cumulative operations, differences, integrals, medians and modes along an axis (paddle.*)."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.ir.program import Variable
from graphopt.tensor.creation import full
from graphopt.tensor.logic import isnan, logical_not, logical_xor
from graphopt.tensor.manipulation import cast, concat, flatten, reshape, slice, squeeze
from graphopt.tensor.math import (
    add,
    as_float,
    cumsum,
    floor_divide,
    maximum,
    multiply,
    scale,
    subtract,
    sum,
)
from graphopt.tensor.positions import take_along_axis
from graphopt.tensor.search import argsort


def logcumsumexp(
    x: Variable, axis: int | None = None, dtype: Any = None, name: str | None = None
) -> Variable:
    """Compute log(cumsum(exp(x))) along `axis`, or of the flattened tensor (logcumsumexp)."""
    arguments.variable(x, "x", "logcumsumexp")
    x = as_float(x, "logcumsumexp") if dtype is None else cast(x, dtype)
    at = -1 if axis is None else arguments.integer(axis, "axis", "logcumsumexp")
    return emit("logcumsumexp", {"X": x}, {"axis": at, "flatten": axis is None}, name=name)


def _extreme(
    type: str, x: Variable, axis: int | None, dtype: Any, name: str | None
) -> tuple[Variable, Variable]:
    arguments.variable(x, "x", type)
    code = arguments.dtype(dtype, "dtype", type)
    if code not in ("int32", "int64"):
        raise TypeError(f"{type}(): the argument 'dtype' must be int32 or int64, found {code}")
    x = flatten(x) if axis is None else x
    at = -1 if axis is None else arguments.integer(axis, "axis", type)
    attrs = {"axis": at, "dtype": code.code}
    values, places = LayerHelper(type, name).emit_all(type, {"x": x}, attrs, ("out", "indices"))
    places.stop_gradient = True
    return values, places


def cummax(
    x: Variable, axis: int | None = None, dtype: Any = "int64", name: str | None = None
) -> tuple[Variable, Variable]:
    """Compute the cumulative maximum along `axis` and its indices (paddle.cummax)."""
    return _extreme("cummax", x, axis, dtype, name)


def cummin(
    x: Variable, axis: int | None = None, dtype: Any = "int64", name: str | None = None
) -> tuple[Variable, Variable]:
    """Compute the cumulative minimum along `axis` and its indices (paddle.cummin)."""
    return _extreme("cummin", x, axis, dtype, name)


def _ends(x: Variable, axis: int) -> tuple[Variable, Variable]:
    """Slice off the last element along an axis, and, as a second result, the first."""
    return slice(x, [axis], [0], [-1]), slice(x, [axis], [1], [2**31 - 1])


def diff(
    x: Variable,
    n: int = 1,
    axis: int = -1,
    prepend: Variable | None = None,
    append: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """Compute the n-th differences of neighbors along `axis` (paddle.diff).

    The difference of bools is their logical xor. `prepend` and `append` are concatenated to x
    first.
    """
    arguments.variable(x, "x", "diff")
    if arguments.integer(n, "n", "diff") < 1:
        raise ValueError(f"diff(): 'n' should be 1 or more, but received {n}")
    at = arguments.integer(axis, "axis", "diff")
    parts = [part for part in (prepend, x, append) if part is not None]
    out = concat(parts, at) if len(parts) > 1 else x
    for _ in range(n):
        first, second = _ends(out, at)
        out = logical_xor(second, first) if x.dtype == "bool" else subtract(second, first)
    return out if name is None else scale(out, name=name)


def _areas(function: str, y: Variable, x: Variable | None, dx: Any, axis: int) -> Variable:
    if x is not None and dx is not None:
        raise ValueError(f"{function}(): give either 'x' or 'dx', not both")
    rank = len(arguments.variable(y, "y", function).shape)
    at = arguments.integer(axis, "axis", function)
    heights = add(*_ends(y, at))
    if x is None:
        step = 1.0 if dx is None else dx
        if isinstance(step, Variable):
            return scale(multiply(heights, step), 0.5)
        return scale(heights, 0.5 * arguments.number(step, "dx", function))
    widths = diff(x, axis=at if len(x.shape) == rank else 0)
    if len(x.shape) == 1 and rank > 1:
        shape = [-1 if i == at % rank else 1 for i in range(rank)]
        widths = reshape(widths, shape)
    return scale(multiply(heights, widths), 0.5)


def trapezoid(
    y: Variable,
    x: Variable | None = None,
    dx: Any = None,
    axis: int = -1,
    name: str | None = None,
) -> Variable:
    """Integrate y along `axis` by the trapezoidal rule (paddle.trapezoid).

    `x` has the sample points; without it, `dx` is their spacing (1 by default).
    """
    return sum(_areas("trapezoid", y, x, dx, axis), axis, name=name)


def cumulative_trapezoid(
    y: Variable,
    x: Variable | None = None,
    dx: Any = None,
    axis: int = -1,
    name: str | None = None,
) -> Variable:
    """Integrate y cumulatively along `axis` by the trapezoidal rule (cumulative_trapezoid)."""
    return cumsum(_areas("cumulative_trapezoid", y, x, dx, axis), axis, name=name)


def renorm(x: Variable, p: float, axis: int, max_norm: float) -> Variable:
    """Scale slices along `axis` down to a p-norm of at most `max_norm` (paddle.renorm)."""
    attrs = {
        "p": arguments.number(p, "p", "renorm"),
        "axis": arguments.integer(axis, "axis", "renorm"),
        "max_norm": arguments.number(max_norm, "max_norm", "renorm"),
    }
    rank = len(arguments.variable(x, "x", "renorm").shape)
    if not -rank <= attrs["axis"] < rank:
        raise ValueError(f"renorm(): 'axis' {axis} is out of range for the shape {list(x.shape)}")
    return emit("renorm", {"X": x}, attrs)


def mode(
    x: Variable, axis: int = -1, keepdim: bool = False, name: str | None = None
) -> tuple[Variable, Variable]:
    """Find the most frequent element along `axis`, the least of several, and its index (mode)."""
    arguments.variable(x, "x", "mode")
    attrs = {
        "axis": arguments.integer(axis, "axis", "mode"),
        "keepdim": arguments.flag(keepdim, "keepdim", "mode"),
    }
    values, places = LayerHelper("mode", name).emit_all("mode", {"X": x}, attrs, ("Out", "Indices"))
    places.stop_gradient = True
    return values, places


def _smaller_median(x: Variable, axis: int, keepdim: bool) -> tuple[Variable, Variable]:
    order = argsort(x, axis)
    count = sum(cast(logical_not(isnan(x)), "int64"), axis, keepdim=True)
    one = full([], 1, "int64")
    middle = floor_divide(maximum(subtract(count, one), full([], 0, "int64")), full([], 2, "int64"))
    place = take_along_axis(order, middle, axis)
    place.stop_gradient = True
    value = take_along_axis(x, place, axis)
    return (value, place) if keepdim else (squeeze(value, axis), squeeze(place, axis))


def nanmedian(
    x: Variable,
    axis: Any = None,
    keepdim: bool = False,
    mode: str = "avg",
    name: str | None = None,
) -> Any:
    """Compute the median over `axis`, ignoring nan (paddle.nanmedian).

    Of an even number of elements, it is the average of the middle two, or the smaller one with mode
    'min'. With 'min' and one axis, a second result is its int64 index. The median is nan where all
    elements are.
    """
    if mode == "min" and isinstance(axis, int):
        return _smaller_median(x, axis, keepdim)
    arguments.variable(x, "x", "nanmedian")
    attrs = {
        "axis": arguments.axes(axis, "nanmedian"),
        "keepdim": arguments.flag(keepdim, "keepdim", "nanmedian"),
        "mode": arguments.choice(mode, "mode", "nanmedian", ("avg", "min")),
    }
    return emit("nanmedian", {"X": x}, attrs, name=name)
