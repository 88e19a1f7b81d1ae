"""Transposed convolutions that are quick on CPUs, and their derivatives.

A transposed convolution is the image gradient of a convolution. So its own derivatives are a
convolution of the cotangent, and that convolution's filter gradient, which XLA computes in ten to a
hundred times the time of a matrix product. Where filters as large as the strides tile the result,
it is one matrix product itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
from jax import lax
from jax import numpy as jnp

from graphopt.lowering.kernels.convolution import FILTER_GRADIENTS, FilterWindow

Array = jax.Array
Transposed = Callable[[Array, Array], Array]
"""(images, filter [in, out, height, width]) -> the result."""


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def transposed_conv(
    plain: Transposed, window: FilterWindow, first: int, x: Array, w: Array
) -> Array:
    """Compute `plain(x, w)`, in one group; `first` is the axis of the height.

    `window` is the window of the convolution from the result to the images.
    """
    return plain(x, w)


def _forward(
    plain: Transposed, window: FilterWindow, first: int, x: Array, w: Array
) -> tuple[Array, tuple[Array, Array]]:
    return plain(x, w), (x, w)


def _backward(
    plain: Transposed,
    window: FilterWindow,
    first: int,
    saved: tuple[Array, Array],
    cotangent: Array,
) -> tuple[Array, Array]:
    x, w = saved
    (of_images,) = jax.vjp(lambda images: plain(images, w), x)[1](cotangent)

    def by_xla(x: Array, cotangent: Array) -> Array:
        return jax.vjp(lambda filters: plain(x, filters), w)[1](cotangent)[0]

    def by_patches(x: Array, cotangent: Array) -> Array:
        if first == 2:
            x, cotangent = jnp.moveaxis(x, 1, 3), jnp.moveaxis(cotangent, 1, 3)
        # the convolution's input is the result here; its filters are [height, width, out, in]
        return FILTER_GRADIENTS["patches"](cotangent, x, window).transpose(3, 2, 0, 1)

    return of_images, lax.platform_dependent(x, cotangent, cpu=by_patches, default=by_xla)


transposed_conv.defvjp(_forward, _backward)


def transposed_tiles(x: Array, w: Array, groups: int, first: int) -> Array:
    """Convolve with filters that tile the result; `first` is the axis of the height."""
    inputs, outs, *kernel = w.shape
    filters = w.reshape(groups, inputs // groups, outs, *kernel)
    places, within = "hwd"[: len(kernel)], "klm"[: len(kernel)]
    pairs = "".join(map("".join, zip(places, within, strict=True)))
    if first == 1:
        images = x.reshape(*x.shape[:-1], groups, inputs // groups)
        found = jnp.einsum(f"n{places}gi,gio{within}->n{pairs}go", images, filters)
        sizes = x.shape[1:-1]
    else:
        images = x.reshape(x.shape[0], groups, inputs // groups, *x.shape[2:])
        found = jnp.einsum(f"ngi{places},gio{within}->ngo{pairs}", images, filters)
        sizes = x.shape[2:]
    wanted = [size * k for size, k in zip(sizes, kernel, strict=True)]
    channels = [groups * outs]
    return found.reshape(
        x.shape[0], *([*wanted, *channels] if first == 1 else [*channels, *wanted])
    )


def transposed_by_group(one: Transposed, groups: int, first: int, x: Array, w: Array) -> Array:
    """Compute a transposed convolution for each group, one after the other."""
    axis = x.ndim - 1 if first == 1 else 1
    images = jnp.stack(jnp.split(x, groups, axis))
    filters = w.reshape(groups, -1, *w.shape[1:])
    found = jnp.moveaxis(lax.map(lambda each: one(*each), (images, filters)), 0, axis)
    return found.reshape(*found.shape[:axis], -1, *found.shape[axis + 2 :])
