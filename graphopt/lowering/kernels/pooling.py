"""The largest element and the sum of each window, with derivatives, which are fast on CPUs.

XLA goes through each window; shifted images are compared by vector instructions. XLA's derivative
keeps positions with the values: arrays of integers as large as the image, one for
each dimension. This one looks once for the position in the window that has the maximum, and adds up
the windows' contributions to each phase of the strides. `passes/target/choose_pooling.py` chooses
it where it is faster.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

Array = jax.Array
Ints = tuple[int, ...]
Slides = tuple[tuple[int, int, tuple[int, int]], ...]
"""For each dimension of an array: size and stride of the window, padding before and after."""


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def largest(x: Array, slides: Slides) -> Array:
    """The maximum of each window of a floating-point array; padding never counts.

    Of equal maxima the first gets the gradient, as in Paddle's pool2d_grad.
    """
    return functools.reduce(lax.max, _all_met(x, slides, -np.inf))


def total(x: Array, slides: Slides) -> Array:
    """The sum of each window of a floating-point array; padding counts as zeros."""
    return functools.reduce(lax.add, _all_met(x, slides, 0.0))


def _forward(x: Array, slides: Slides) -> tuple[Array, tuple[Array, Array]]:
    y: Any = largest(x, slides)
    return y, (x, y)


def _backward(slides: Slides, saved: tuple[Array, Array], cotangent: Array) -> tuple[Array]:
    x, y = saved
    first, zero = _position(x, y, slides), np.zeros((), x.dtype)
    starts = [min(stride, n) for n, (_, stride, _) in zip(x.shape, slides, strict=True)]
    phases = {
        phase: functools.reduce(lax.add, parts)
        for phase in np.ndindex(*starts)
        if (parts := _parts(first, cotangent, slides, phase, x.shape))
    }
    # in one loop with their sum, every phase would read every element
    phases = lax.optimization_barrier(phases)
    total = jnp.zeros_like(x)
    for phase, part in phases.items():
        edges = [
            (start, size - start - (count - 1) * stride - 1, stride - 1)
            for start, size, count, (_, stride, _) in zip(
                phase, x.shape, part.shape, slides, strict=True
            )
        ]
        total += lax.pad(part, zero, edges)
    return (total,)


largest.defvjp(_forward, _backward)


def total_of_tiles(x: Array, slides: Slides) -> Array:
    """The sum of each window where these lie side by side and leave nothing out.

    The derivative repeats each number, where XLA's slides a window over zeros.
    """
    split = [
        side for n, (size, *_) in zip(x.shape, slides, strict=True) for side in (n // size, size)
    ]
    return jnp.sum(x.reshape(split), axis=tuple(range(1, 2 * x.ndim, 2)), dtype=x.dtype)


def _all_met(x: Array, slides: Slides, beside: float) -> list[Array]:
    """The elements at each position of the windows."""
    sizes = [size for size, _, _ in slides]
    return [_elements_at(x, slides, at, beside) for at in np.ndindex(*sizes)]


def _elements_at(x: Array, slides: Slides, at: Ints, beside: float) -> Array:
    """The elements at one position of the windows: one for each window, `beside` in padding."""
    padded = lax.pad(x, np.asarray(beside, x.dtype), [(*pads, 0) for _, _, pads in slides])
    counts = [(n - size) // s for n, (size, s, _) in zip(padded.shape, slides, strict=True)]
    strides = [stride for _, stride, _ in slides]
    ends = [start + n * s + 1 for start, n, s in zip(at, counts, strides, strict=True)]
    return lax.slice(padded, at, ends, strides)


def _position(x: Array, y: Array, slides: Slides) -> Array:
    """The number of the first position of each window that has its maximum."""
    *others, _ = _all_met(x, slides, -np.inf)
    found = jnp.full(y.shape, len(others), jnp.int32)
    for number, met in reversed(list(enumerate(others))):
        found = jnp.where(met < y, found, number)
    return found


def _parts(first: Array, cotangent: Array, slides: Slides, phase: Ints, shape: Ints) -> list[Array]:
    """Gradient from each position for every stride-th element, from `phase` on, of an array."""
    zero = np.zeros((), cotangent.dtype)
    strides = [stride for _, stride, _ in slides]
    counts = [
        len(range(start, size, stride))
        for start, size, stride in zip(phase, shape, strides, strict=True)
    ]
    parts: list[Array] = []
    for number, at in enumerate(np.ndindex(*[size for size, _, _ in slides])):
        # an element of the phase is met here by the window that begins this far before the first
        behind = [p + pads[0] - a for p, a, (_, _, pads) in zip(phase, at, slides, strict=True)]
        if any(b % stride for b, stride in zip(behind, strides, strict=True)):
            continue
        shifts = [b // stride for b, stride in zip(behind, strides, strict=True)]
        edges = [
            (-shift, count - size + shift, 0)
            for shift, count, size in zip(shifts, counts, first.shape, strict=True)
        ]
        parts.append(lax.pad(jnp.where(first == number, cotangent, zero), zero, edges))
    return parts
