"""The largest element and the sum of each window, with derivatives, which are fast on CPUs.

XLA goes through each window; shifted images are compared by vector instructions, along one
dimension after the other. XLA's derivative keeps positions with the values: arrays of integers as
large as the image, one for each dimension. This one looks once for the position in the window that
has the maximum, adds up the windows' contributions to each phase of the stride, and lays the phases
side by side. `passes/target/choose_pooling.py` chooses it where it is faster.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

Array = jax.Array
Slide = tuple[int, int, tuple[int, int]]
"""The size, stride and padding (before, after) of a window along one axis."""
Slides = tuple[Slide, ...]
Parts = tuple[tuple[int, int], ...]
"""The start and stop of each part of an axis."""


def largest(x: Array, slides: Slides) -> Array:
    """Compute the maximum of each window of a floating-point array; padding never counts.

    Of equal maxima the first gets the gradient, as in Paddle's pool2d_grad.
    """
    for axis, slide in _from_the_last(slides):
        x = _largest_along(x, axis, slide)
    return x


def largest_with_places(x: Array, slides: Slides) -> tuple[Array, Array]:
    """Compute each window's maximum, and its flat index in the windowed last dimensions."""
    places: Array | None = None
    step = 1
    for axis, slide in reversed(list(enumerate(slides, start=x.ndim - len(slides)))):
        _, stride, (before, _) = slide
        y: Any = _largest_along(x, axis, slide)
        first = _first_along(lax.stop_gradient(x), lax.stop_gradient(y), axis, slide)
        start = lax.broadcasted_iota(np.int32, first.shape, axis) * stride - before
        first = jnp.maximum(first, -start)  # -inf also equals padding
        here = (start + first) * step
        if places is not None:
            here += lax.select_n(first, *_met_along(places, axis, slide, 0))
        x, places, step = y, here, step * x.shape[axis]
    assert places is not None
    return x, places


def _from_the_last(slides: Slides) -> Iterator[tuple[int, Slide]]:
    """Iterate over the dimensions with windows, last first, to find the first of equal maxima."""
    return ((axis, slides[axis]) for axis in reversed(range(len(slides))) if slides[axis] != ONE)


ONE: Slide = (1, 1, (0, 0))
"""The trivial window: one element, stride 1, no padding."""


def total(x: Array, slides: Slides) -> Array:
    """Sum each window of a floating-point array; padding counts as zeros."""
    for axis, slide in _from_the_last(slides):
        x = functools.reduce(lax.add, _met_along(x, axis, slide, 0.0))
    return x


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _largest_along(x: Array, axis: int, slide: Slide) -> Array:
    return functools.reduce(lax.max, _met_along(x, axis, slide, -np.inf))


def _forward(x: Array, axis: int, slide: Slide) -> tuple[Array, tuple[Array, Array]]:
    y: Any = _largest_along(x, axis, slide)
    return y, (x, y)


def _backward(
    axis: int, slide: Slide, saved: tuple[Array, Array], cotangent: Array
) -> tuple[Array]:
    x, y = saved
    first, stride = _first_along(x, y, axis, slide), slide[1]
    phases = [_phase(first, cotangent, axis, slide, phase, x) for phase in range(stride)]
    side_by_side = lax.collapse(jnp.stack(phases, axis + 1), axis, axis + 2)
    return (lax.slice_in_dim(side_by_side, 0, x.shape[axis], axis=axis),)


_largest_along.defvjp(_forward, _backward)


def total_of_tiles(x: Array, slides: Slides) -> Array:
    """Sum each window where windows tile the array.

    The derivative repeats each number, where XLA's slides a window over zeros.
    """
    split = [
        side for n, (size, *_) in zip(x.shape, slides, strict=True) for side in (n // size, size)
    ]
    return jnp.sum(x.reshape(split), axis=tuple(range(1, 2 * x.ndim, 2)), dtype=x.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def total_of_parts(x: Array, axis: int, parts: Parts) -> Array:
    """Sum each part of a dimension; the parts cover it, may differ in length and overlap.

    Slices are added, which takes a tenth of the time of gathered elements. JAX's derivative would
    pad each slice with zeros; here neighbors that are in the same parts share a sum.
    """
    rows = [[lax.index_in_dim(x, at, axis) for at in range(*part)] for part in parts]
    return lax.concatenate([functools.reduce(lax.add, each) for each in rows], axis)


def _parts_backward(axis: int, parts: Parts, size: int, cotangent: Array) -> tuple[Array]:
    met = [tuple(n for n, part in enumerate(parts) if at in range(*part)) for at in range(size)]
    rows: list[Array] = []
    for numbers, alike in itertools.groupby(met):
        row = functools.reduce(lax.add, [lax.index_in_dim(cotangent, n, axis) for n in numbers])
        shape = [*row.shape]
        shape[axis] = len(list(alike))
        rows.append(jnp.broadcast_to(row, shape))
    return (lax.concatenate(rows, axis),)


total_of_parts.defvjp(
    lambda x, axis, parts: (total_of_parts(x, axis, parts), x.shape[axis]), _parts_backward
)


def _met_along(x: Array, axis: int, slide: Slide, beside: float) -> list[Array]:
    """Slice the elements at each position of the windows, with `beside` as padding."""
    size, stride, pads = slide
    edges = [(*pads, 0) if at == axis else (0, 0, 0) for at in range(x.ndim)]
    padded = lax.pad(x, np.asarray(beside, x.dtype), edges)
    last = (padded.shape[axis] - size) // stride * stride
    return [
        lax.slice_in_dim(padded, start, start + last + 1, stride, axis) for start in range(size)
    ]


def _first_along(x: Array, y: Array, axis: int, slide: Slide) -> Array:
    """Find the first position of each window that holds its maximum; nan counts as maximum."""
    *others, _ = _met_along(x, axis, slide, -np.inf)
    found = jnp.full(y.shape, len(others), np.int32)
    for number, met in reversed(list(enumerate(others))):
        found = jnp.where((met == y) | (met != met), number, found)
    return found


def _phase(first: Array, cotangent: Array, axis: int, slide: Slide, phase: int, x: Array) -> Array:
    """Compute the gradient of every stride-th element of x along an axis, from `phase` on."""
    (size, stride, (before, _)), zero = slide, np.zeros((), cotangent.dtype)
    count, windows = -(-x.shape[axis] // stride), first.shape[axis]
    parts: list[Array] = []
    for number in range(size):
        # the window that covers this element at `number` starts `shift` windows before the first
        shift, rest = divmod(phase + before - number, stride)
        if rest == 0:
            edges = [(0, 0, 0)] * x.ndim
            edges[axis] = (-shift, count - windows + shift, 0)
            parts.append(lax.pad(jnp.where(first == number, cotangent, zero), zero, edges))
    if not parts:
        return jnp.zeros((*first.shape[:axis], count, *first.shape[axis + 1 :]), cotangent.dtype)
    return functools.reduce(lax.add, parts)
