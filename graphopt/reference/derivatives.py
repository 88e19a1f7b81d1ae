"""The derivatives of the NumPy functions in rules, and some more functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import graphopt.reference.ufuncs  # noqa: F401  (fills its table)
from graphopt.reference import special
from graphopt.reference.tape import FUNCTIONS, Array, NoDerivative, TapeNode, apply, value_of

Maker = Callable[..., Array]


def _instead_of(*functions: Any) -> Callable[[Maker], Maker]:
    def register(maker: Maker) -> Maker:
        for function in functions:
            FUNCTIONS[function] = maker
        return maker

    return register


def linear(x: Array, forward: Callable[[Array], Array], back: Callable[[Array], Array]) -> Array:
    """Apply a linear function to x, whose transpose is `back`."""
    return apply(forward, (lambda g, o, x: back(g),), x)


@_instead_of(np.reshape)
def reshape(x: Array, shape: Any) -> Array:
    return linear(x, lambda v: np.reshape(v, shape), lambda g: np.reshape(g, x.shape))


@_instead_of(np.ravel)
def ravel(x: Array) -> Array:
    return reshape(x, (-1,))


@_instead_of(np.transpose)
def transpose(x: Array, axes: Any = None) -> Array:
    axes = tuple(range(x.ndim))[::-1] if axes is None else tuple(a % x.ndim for a in axes)
    back = tuple(int(i) for i in np.argsort(axes))
    return linear(x, lambda v: np.transpose(v, axes), lambda g: np.transpose(g, back))


@_instead_of(np.swapaxes)
def swapaxes(x: Array, a: int, b: int) -> Array:
    return linear(x, lambda v: np.swapaxes(v, a, b), lambda g: np.swapaxes(g, a, b))


@_instead_of(np.moveaxis)
def moveaxis(x: Array, source: Any, destination: Any) -> Array:
    return linear(
        x,
        lambda v: np.moveaxis(v, source, destination),
        lambda g: np.moveaxis(g, destination, source),
    )


@_instead_of(np.expand_dims)
def expand_dims(x: Array, axis: Any) -> Array:
    return linear(x, lambda v: np.expand_dims(v, axis), lambda g: np.reshape(g, x.shape))


@_instead_of(np.squeeze)
def squeeze(x: Array, axis: Any = None) -> Array:
    return linear(x, lambda v: np.squeeze(v, axis), lambda g: np.reshape(g, x.shape))


@_instead_of(np.broadcast_to)
def broadcast_to(x: Array, shape: Any) -> Array:
    # pull_back sums over broadcast axes
    return linear(x, lambda v: np.broadcast_to(v, shape), lambda g: g)


@_instead_of(np.flip)
def flip(x: Array, axis: Any = None) -> Array:
    return linear(x, lambda v: np.flip(v, axis), lambda g: np.flip(g, axis))


@_instead_of(np.roll)
def roll(x: Array, shift: Any, axis: Any = None) -> Array:
    back = tuple(-s for s in shift) if isinstance(shift, (tuple, list)) else -shift
    return linear(x, lambda v: np.roll(v, shift, axis), lambda g: np.roll(g, back, axis))


@_instead_of("astype")
def astype(x: Array, dtype: Any) -> Array:
    if np.dtype(dtype).kind not in "fc":
        return value_of(x).astype(dtype)
    return linear(x, lambda v: v.astype(dtype), lambda g: g)


@_instead_of(np.real)
def real(x: Array) -> Array:
    return linear(x, np.real, lambda g: g)


@_instead_of(np.sum)
def sum_(x: Array, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Array:
    full = kept_shape(x.shape, axis)

    def back(g: Array) -> Array:
        return np.broadcast_to(np.reshape(g, full), x.shape)

    return linear(x, lambda v: np.sum(v, axis=axis, keepdims=keepdims, dtype=dtype), back)


@_instead_of(np.mean)
def mean(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
    count = x.size // max(math.prod(kept_shape(x.shape, axis)), 1)
    return np.sum(x, axis=axis, keepdims=keepdims) / count


def kept_shape(shape: Sequence[int], axis: Any) -> tuple[int, ...]:
    """Compute the shape of a reduction that keeps its axes."""
    if axis is None:
        return (1,) * len(shape)
    axes = {a % len(shape) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))}
    return tuple(1 if i in axes else dim for i, dim in enumerate(shape))


def _extreme(function: Any) -> Maker:
    def maker(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
        full = kept_shape(x.shape, axis)

        def vjp(g: Array, out: Array, x: Array) -> Array:
            equal = value_of(x) == np.reshape(value_of(out), full)
            count = np.maximum(equal.sum(axis=axis, keepdims=True), 1).astype(g.dtype)
            return np.where(equal, np.reshape(g, full) / count, 0.0)

        return apply(lambda v: function(v, axis=axis, keepdims=keepdims), (vjp,), x)

    return maker


FUNCTIONS[np.max] = FUNCTIONS[np.amax] = _extreme(np.max)
FUNCTIONS[np.min] = FUNCTIONS[np.amin] = _extreme(np.min)


@_instead_of(np.where)
def where(condition: Array, x: Array, y: Array) -> Array:
    held = np.asarray(value_of(condition))
    return apply(
        lambda x, y: np.where(held, x, y),
        (
            lambda g, o, x, y: np.where(held, g, 0.0),
            lambda g, o, x, y: np.where(held, 0.0, g),
        ),
        x,
        y,
    )


@_instead_of(np.clip)
def clip(x: Array, low: Any, high: Any) -> Array:
    return np.minimum(np.maximum(x, low), high)


@_instead_of(np.concatenate)
def concatenate(arrays: Sequence[Array], axis: int = 0) -> Array:
    axis %= arrays[0].ndim
    starts = np.cumsum([0, *(a.shape[axis] for a in arrays)])

    def part(number: int) -> Callable[..., Array]:
        key = (slice(None),) * axis + (slice(int(starts[number]), int(starts[number + 1])),)
        return lambda g, o, *args: g[key]

    vjps = [part(i) for i in range(len(arrays))]
    return apply(lambda *vs: np.concatenate(vs, axis), vjps, *arrays)


@_instead_of(np.stack)
def stack(arrays: Sequence[Array], axis: int = 0) -> Array:
    return np.concatenate([np.expand_dims(a, axis) for a in arrays], axis)


@_instead_of("getitem")
def getitem(x: Array, key: Any) -> Array:
    return linear(x, lambda v: v[key], lambda g: place(g, key, x.shape))


def place(g: Array, key: Any, shape: tuple[int, ...], start: float = 0.0) -> Array:
    """Add g to zeros of this shape at `key`, once for each mention there.

    With the start -0.0, which added to a number changes none, a -0 is kept.
    """

    def forward(v: Array) -> Array:
        out = np.full(shape, start, v.dtype)
        np.add.at(out, key, v)
        return out

    return linear(g, forward, lambda h: h[key])


@_instead_of(np.take)
def take(x: Array, indices: Array, axis: int | None = None) -> Array:
    if axis is None:
        return np.ravel(x)[np.asarray(indices)]
    return x[(slice(None),) * (axis % x.ndim) + (np.asarray(indices),)]


@_instead_of(np.take_along_axis)
def take_along_axis(x: Array, indices: Array, axis: int) -> Array:
    axis %= x.ndim
    grid = list(np.ix_(*(range(d) for d in indices.shape)))
    grid[axis] = indices
    return x[tuple(grid)]


@_instead_of(np.repeat)
def repeat(x: Array, repeats: Any, axis: int | None = None) -> Array:
    if axis is None:
        x, axis = np.ravel(x), 0
    return np.take(x, np.repeat(np.arange(x.shape[axis]), repeats), axis)


@_instead_of(np.pad)
def pad(x: Array, widths: Any, mode: str = "constant", constant_values: Any = 0.0) -> Array:
    places: Any = np.arange(x.size).reshape(x.shape)
    at = np.pad(places, widths, mode, **_minus_one(mode))  # pyright: ignore
    return np.where(at < 0, constant_values, np.ravel(x)[np.maximum(at, 0)])


def _minus_one(mode: str) -> dict[str, Any]:
    return {"constant_values": -1} if mode == "constant" else {}


@_instead_of(np.cumsum)
def cumsum(x: Array, axis: int) -> Array:
    def back(g: Array) -> Array:
        return np.flip(np.cumsum(np.flip(g, axis), axis), axis)

    return linear(x, lambda v: np.cumsum(v, axis), back)


@_instead_of(np.prod)
def prod(x: Array, axis: Any = None, keepdims: bool = False) -> Array:
    full = kept_shape(x.shape, axis)

    def vjp(g: Array, out: Array, x: Array) -> Array:
        if isinstance(x, TapeNode):
            return np.reshape(g * out, full) / x
        return np.reshape(g, full) * _products_of_others(x, axis)

    return apply(lambda v: np.prod(v, axis=axis, keepdims=keepdims), (vjp,), x)


def _products_of_others(x: Array, axis: Any) -> Array:
    """Compute for each element the product of the others along the axes, also where it is 0."""
    axes = [i for i, dim in enumerate(kept_shape(x.shape, axis)) if dim != x.shape[i] or dim == 1]
    last = np.moveaxis(x, axes, range(-len(axes), 0))
    rows = last.reshape(*last.shape[: x.ndim - len(axes)], -1)
    ones = np.ones_like(rows[..., :1])
    before = np.cumprod(np.concatenate([ones, rows[..., :-1]], -1), -1)
    after = np.flip(np.cumprod(np.flip(np.concatenate([rows[..., 1:], ones], -1), -1), -1), -1)
    return np.moveaxis((before * after).reshape(last.shape), range(-len(axes), 0), axes)


@_instead_of(np.einsum)
def einsum(subscripts: str, *operands: Array) -> Array:
    """Compute einsum; no letter is repeated in an operand, and none is in one operand only."""
    inputs, output = subscripts.split("->")
    letters = inputs.split(",")

    def vjp_of(number: int) -> Callable[..., Array]:
        others = [n for n in range(len(letters)) if n != number]
        back = ",".join([output, *(letters[n] for n in others)]) + "->" + letters[number]
        return lambda g, o, *args: np.einsum(back, g, *(args[n] for n in others))

    vjps = [vjp_of(n) for n in range(len(letters))]
    return apply(lambda *vs: np.einsum(subscripts, *vs), vjps, *operands)


def smooth(function: Callable[[Array], Array], derivative: Callable[[Array], Array]) -> Maker:
    """Make an elementwise function that is no ufunc, with its derivative."""
    return lambda x: apply(function, (lambda g, o, x: g * derivative(x),), x)


erf = smooth(special.erf, lambda x: 2.0 / math.sqrt(math.pi) * np.exp(-x * x))
erfc = smooth(special.erfc, lambda x: -2.0 / math.sqrt(math.pi) * np.exp(-x * x))
lgamma = smooth(special.lgamma, lambda x: digamma(x))
i0e = smooth(lambda x: special.scaled_bessel(0, x), lambda x: i1e(x) - np.sign(x) * i0e(x))
i1e = smooth(lambda x: special.scaled_bessel(1, x), lambda x: _slope_of_i1(x) - np.sign(x) * i1e(x))


def _slope_of_i1(x: Array) -> Array:
    """Compute the derivative of i1, times exp(-|x|)."""
    flat = np.asarray(np.abs(value_of(x)) < 1e-20)  # i1 may be a denormal number here
    return i0e(x) - np.where(flat, 0.5, i1e(x) / np.where(flat, 1.0, x))


def without_derivative(name: str, function: Callable[[Array], Array]) -> Maker:
    """Make a function of plain arrays, which `by_differences` differentiates."""

    def check(x: Array) -> Array:
        if isinstance(x, TapeNode):
            raise NoDerivative(name)
        return function(x)

    return check


digamma = without_derivative("digamma", special.digamma)
erfinv = without_derivative("erfinv", special.erfinv)


def hold(x: Array) -> Array:
    """Return the value of x; no gradient flows through it."""
    return value_of(x)


def with_gradient(value: Array, x: Array, gradient: Callable[[Array], Array]) -> Array:
    """Return `value`, computed from x in any way; its cotangent g becomes gradient(g)."""
    if not isinstance(x, TapeNode):
        return value
    return apply(lambda v: value_of(value), (lambda g, o, x: gradient(g),), x)
