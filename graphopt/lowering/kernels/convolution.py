"""Ways to compute a convolution that are faster than XLA's own on CPUs, with their derivatives.

Images are [batch, height, width, channels] here and filters [height, width, in / groups, out].
`passes/target/choose_convolution.py` chooses among them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

Array = jax.Array
LAYOUT = ("NHWC", "HWIO", "NHWC")
# From so many pixels on, a separate product for each image takes 0.6 to 0.8 of the time of its
# share in a joint product.
LARGE = 32 * 32
# Groups with fewer channels in all are convolved together, with zeros in the filters between
# groups, which takes half the time. More convolutions than UNROLLED run in a loop, which compiles
# sooner and takes a fifth longer.
FEW, UNROLLED = 16, 16
# Patches with more elements are computed and multiplied for some images at a time, about PART
# elements each. For 128 to 1000 images of 7 x 7 pixels and 512 channels that takes 0.6 to 0.8 of
# the time.
PATCHES, PART = 2**24, 2**22


@dataclass(frozen=True)
class FilterWindow:
    """Geometry of a two-dimensional filter over images; `pads` are (before, after) per axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    dilations: tuple[int, ...]

    def taps(self, x: Array) -> list[Array]:
        """Slice x for each position of the filter, row by row."""
        padded = lax.pad(
            x, np.zeros((), x.dtype), [(0, 0, 0), *((*p, 0) for p in self.pads), (0, 0, 0)]
        )
        batch, height, width, channels = padded.shape
        first, second = self.dilations
        rows = height - first * (self.kernel[0] - 1)
        columns = width - second * (self.kernel[1] - 1)
        starts = [(i * first, j * second) for i, j in np.ndindex(*self.kernel)]
        return [
            lax.slice(
                padded,
                (0, top, left, 0),
                (batch, top + rows, left + columns, channels),
                (1, *self.strides, 1),
            )
            for top, left in starts
        ]


def pads_back(window: FilterWindow) -> tuple[tuple[int, int], ...]:
    """Compute the padding of the convolution from cotangent to images, for strides of 1."""
    reach = [d * (k - 1) for d, k in zip(window.dilations, window.kernel, strict=True)]
    return tuple(
        (own - before, own - after) for own, (before, after) in zip(reach, window.pads, strict=True)
    )


Way = Callable[[Array, Array, FilterWindow], Array]
FilterGradient = Callable[[Array, Array, FilterWindow], Array]
"""(images, cotangent of the result, window) -> the gradient of the filter."""


def with_filter_gradient(way: Way, gradient: FilterGradient, *, rereads: bool = False) -> Way:
    """Give a convolution another derivative with respect to the filter: `gradient`.

    A `gradient` that `rereads` reads the cotangent once for each position of the filter. XLA would
    fuse the producer of the cotangent, such as the derivative of a batch norm, into each read.
    """

    def forward(x: Array, w: Array, window: FilterWindow) -> tuple[Array, tuple[Array, Array]]:
        return way(x, w, window), (x, w)

    def backward(
        window: FilterWindow, saved: tuple[Array, Array], cotangent: Array
    ) -> tuple[Array, Array]:
        x, w = saved
        if rereads:
            cotangent = lax.optimization_barrier(cotangent)
        _, back = jax.vjp(lambda images: way(images, w, window), x)
        return *back(cotangent), gradient(x, cotangent, window)

    computed = jax.custom_vjp(way, nondiff_argnums=(2,))
    computed.defvjp(forward, backward)
    return computed


def convolve_by_xla(
    x: Array,
    w: Array,
    strides: Sequence[int],
    pads: Sequence[tuple[int, int]],
    layout: tuple[str, str, str],
    *,
    dilations: Sequence[int],
    groups: int = 1,
    spread: Sequence[int] | None = None,
) -> Array:
    """Convolve by XLA, in JAX's layouts, and pad by hand where XLA would abort.

    XLA swaps x and w where w has more positions. Along an axis on which w has two positions and x
    is dilated by two, without padding, it then confuses their sizes and aborts. Such an axis gets
    explicit padding here, and so does an axis whose derivative has such a one.
    """
    axes = [layout[0].index(axis) for axis in layout[0] if axis not in "NC"]
    kernel = [w.shape[layout[1].index(layout[0][axis])] for axis in axes]
    spread = spread or [1] * len(axes)
    by_hand, cuts = [(0, 0, 0)] * x.ndim, [0] * x.ndim
    own = list(pads)
    if len(axes) > 1 and groups == 1:
        for at, axis in enumerate(axes):
            if (kernel[at], dilations[at]) != (2, 1):
                continue
            if (spread[at], strides[at]) == (1, 2) and own[at][0] == 1:
                by_hand[axis], own[at] = (*own[at], 0), (0, 0)
            elif (spread[at], strides[at], *own[at]) == (2, 1, 0, 0):
                own[at], cuts[axis] = (1, 0), 1
    found = lax.conv_general_dilated(
        lax.pad(x, np.zeros((), x.dtype), by_hand) if any(map(any, by_hand)) else x,
        w,
        strides,
        own,
        lhs_dilation=spread,
        rhs_dilation=dilations,
        dimension_numbers=layout,
        feature_group_count=groups,
    )
    return lax.slice(found, cuts, found.shape) if any(cuts) else found


def xla_convolution(x: Array, w: Array, window: FilterWindow) -> Array:
    """Convolve by XLA, in one group."""
    return convolve_by_xla(x, w, window.strides, window.pads, LAYOUT, dilations=window.dilations)


def _gradient_by_patches(x: Array, cotangent: Array, window: FilterWindow) -> Array:
    """Compute the filter gradient as one matrix product with the patches under the filter."""
    patches = lax.concatenate(window.taps(x), 3)
    found = _over_places(cotangent, patches).reshape(-1, *window.kernel, x.shape[3])
    return jnp.moveaxis(found, 0, 3)


def _gradient_by_rows(x: Array, cotangent: Array, window: FilterWindow) -> Array:
    """Compute the filter gradient as one matrix product per filter row, for strides of 1.

    The columns of a product are shifted cotangents, one for each position in the filter row: the
    cotangent of the place where this position met the pixel. Sums over very many places are slow,
    so large images are taken one by one.
    """
    batch, *places, outs = cotangent.shape
    if batch == 1 or math.prod(places) < LARGE:
        return _gradient_of_rows(x, cotangent, window)

    def add(total: Array, one: tuple[Array, Array]) -> tuple[Array, None]:
        image, its_cotangent = one
        return total + _gradient_of_rows(image[None], its_cotangent[None], window), None

    zero = jnp.zeros((*window.kernel, x.shape[3], outs), x.dtype)
    total, _ = lax.scan(add, zero, (x, cotangent))
    return total


def _gradient_of_rows(x: Array, cotangent: Array, window: FilterWindow) -> Array:
    assert all(stride == 1 for stride in window.strides)
    zero = np.zeros((), x.dtype)
    (down, right), (high, wide) = window.dilations, window.kernel
    _, places, across, outs = cotangent.shape
    width, (left, _) = x.shape[2], window.pads[1]
    rows = lax.pad(x, zero, [(0, 0, 0), (*window.pads[0], 0), (0, 0, 0), (0, 0, 0)])
    starts = [at * right - left for at in range(wide)]
    shifted = [
        lax.pad(cotangent, zero, [(0, 0, 0), (0, 0, 0), (s, width - s - across, 0), (0, 0, 0)])
        for s in starts
    ]
    neighbours = lax.concatenate(shifted, 3)
    products = [
        _over_places(lax.slice_in_dim(rows, at * down, at * down + places, axis=1), neighbours)
        for at in range(high)
    ]
    return jnp.moveaxis(jnp.stack(products).reshape(high, -1, wide, outs), 1, 2)


def _over_places(a: Array, b: Array) -> Array:
    """Contract two arrays over all places of all images."""
    a, b = a.reshape(-1, a.shape[3]), b.reshape(-1, b.shape[3])
    return lax.dot_general(a, b, (((0,), (0,)), ((), ())))


def _matmul(x: Array, w: Array, window: FilterWindow) -> Array:
    """Convolve with a filter of one position: multiply each pixel's channels by a matrix."""
    (pixels,) = window.taps(x)
    return lax.dot_general(pixels, w[0, 0], (((3,), (0,)), ((), ())))


def _im2col(x: Array, w: Array, window: FilterWindow) -> Array:
    """Convolve by a matrix product with the patches under the filter, in parts if large."""

    def multiply(images: Array) -> Array:
        patches = lax.concatenate(window.taps(images), 3)
        return lax.dot_general(patches, w.reshape(-1, w.shape[3]), (((3,), (0,)), ((), ())))

    if not all(isinstance(size, int) for size in x.shape):  # symbolic sizes
        return multiply(x)
    one = jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype)
    of_an_image = sum(math.prod(tap.shape) for tap in jax.eval_shape(window.taps, one))
    if x.shape[0] * of_an_image <= PATCHES:
        return multiply(x)
    at_once = PART // of_an_image + 1
    return lax.map(lambda image: multiply(image[None])[0], x, batch_size=at_once)


def _shift(x: Array, w: Array, window: FilterWindow) -> Array:
    """Convolve each channel by one filter: multiply and add whole images for each position."""
    rows = w.reshape(-1, w.shape[3])
    products = [tap * row for tap, row in zip(window.taps(x), rows, strict=True)]
    return functools.reduce(lax.add, products)


def _by_channel(x: Array, w: Array, window: FilterWindow) -> Array:
    """Multiply and add whole images for each filter position and input channel."""
    products = [
        tap[..., at : at + 1] * channel
        for tap, position in zip(window.taps(x), w.reshape(-1, *w.shape[2:]), strict=True)
        for at, channel in enumerate(position)
    ]
    return functools.reduce(lax.add, products)


def _plain_sums(products: Sequence[Array]) -> Array:
    return jnp.stack([jnp.sum(product, (0, 1, 2)) for product in products])


@jax.custom_vjp
def _joint_sums(products: Sequence[Array]) -> Array:
    """Sum arrays over all pixels in one joint pass, with one row of results per array."""
    zeros = [np.zeros((), product.dtype) for product in products]

    def add(a: Sequence[Array], b: Sequence[Array]) -> list[Array]:
        return [x + y for x, y in zip(a, b, strict=True)]

    by_image = lax.reduce(list(products), zeros, add, (1, 2))
    return jnp.sum(jnp.stack(by_image), 1)


# JAX cannot differentiate a reduction of several arrays
_joint_sums.defvjp(
    lambda products: (_joint_sums(products), products),
    lambda products, cotangent: jax.vjp(_plain_sums, products)[1](cotangent),
)


def _gradient_by_shifts(x: Array, cotangent: Array, window: FilterWindow) -> Array:
    sums = _joint_sums([tap * cotangent for tap in window.taps(x)])
    return sums.reshape(*window.kernel, 1, cotangent.shape[3])


_shifts = with_filter_gradient(_shift, _gradient_by_shifts, rereads=True)


def _repeated_shifts(x: Array, w: Array, window: FilterWindow) -> Array:
    """Compute `_shifts` where each channel has several filters, which are neighbors."""
    count = w.shape[3] // x.shape[3]
    return _shifts(jnp.repeat(x, count, 3) if count > 1 else x, w, window)


# Lavin and Gray (2016), F(4 x 4, 3 x 3): the matrices that transform six image values, three filter
# values and six products
_OF_IMAGES = (
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)
_OF_FILTER = (
    (1 / 4, 0, 0),
    (-1 / 6, -1 / 6, -1 / 6),
    (-1 / 6, 1 / 6, -1 / 6),
    (1 / 24, 1 / 12, 1 / 6),
    (1 / 24, -1 / 12, 1 / 6),
    (0, 0, 1),
)
_OF_PRODUCTS = ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1))
# the side of an output tile, and of an input tile
SIDE, REACH = 4, 6


def _winograd(x: Array, w: Array, window: FilterWindow) -> Array:
    """Convolve with a 3 x 3 filter by 36 matrix products for 16 places, in place of 144.

    The rounding errors are some ten times as large as in the plain sum.
    """
    batch, *sizes, channels = x.shape
    outs = [size + sum(pads) - 2 for size, pads in zip(sizes, window.pads, strict=True)]
    tiles = [-(-out // SIDE) for out in outs]
    filled = [
        (before, count * SIDE + REACH - SIDE - size - before, 0)
        for (before, _), count, size in zip(window.pads, tiles, sizes, strict=True)
    ]
    padded = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), *filled, (0, 0, 0)])
    rows = _combine_parts(_OF_IMAGES, [_every(padded, 1, at, tiles[0]) for at in range(REACH)])
    transformed = [
        square
        for row in rows
        for square in _combine_parts(
            _OF_IMAGES, [_every(row, 2, at, tiles[1]) for at in range(REACH)]
        )
    ]
    images = jnp.stack(transformed).reshape(REACH * REACH, batch * tiles[0] * tiles[1], channels)
    filters = jnp.stack(
        [
            each
            for row in _combine_parts(_OF_FILTER, [w[at] for at in range(3)])
            for each in _combine_parts(_OF_FILTER, [row[at] for at in range(3)])
        ]
    )
    products = lax.dot_general(images, filters, (((2,), (1,)), ((0,), (0,))))
    products = products.reshape(REACH, REACH, batch, *tiles, w.shape[3])
    squares = [
        _combine_parts(_OF_PRODUCTS, [row[at] for at in range(REACH)])
        for row in _combine_parts(_OF_PRODUCTS, [products[at] for at in range(REACH)])
    ]
    # [batch, tiles, tiles, channels] each
    whole = jnp.stack([jnp.stack(row, 3) for row in squares], 2)
    whole = whole.reshape(batch, tiles[0] * SIDE, tiles[1] * SIDE, w.shape[3])
    return whole[:, : outs[0], : outs[1]]


def _every(x: Array, axis: int, start: int, count: int) -> Array:
    """Slice one element of each tile along an axis, from `start` on."""
    return lax.slice_in_dim(x, start, start + (count - 1) * SIDE + 1, SIDE, axis)


def _combine_parts(matrix: Sequence[Sequence[float]], parts: Sequence[Array]) -> list[Array]:
    """Combine parts linearly; the rows of a matrix are the coefficients."""
    sums: list[Array] = []
    for row in matrix:
        terms = [
            part if factor == 1 else part * np.asarray(factor, part.dtype)
            for factor, part in zip(row, parts, strict=True)
            if factor
        ]
        sums.append(functools.reduce(lax.add, terms))
    return sums


def _few_together(x: Array, w: Array, window: FilterWindow) -> Array:
    """Convolve densely as many groups at a time as have `FEW` channels, at least one group."""
    own = w.shape[2]
    groups = x.shape[3] // own
    together = max(n for n in range(1, groups + 1) if groups % n == 0 and n * own <= max(own, FEW))
    count, filters = groups // together, _join_groups(w, groups, together)
    images = _split(x, count)
    if count > UNROLLED:
        pairs = images, filters
        return _join(lax.map(lambda each: xla_convolution(each[0], each[1], window), pairs))
    each = zip(images, filters, strict=True)
    return lax.concatenate([xla_convolution(*one, window) for one in each], 3)


def _by_group_backward(
    window: FilterWindow, saved: tuple[Array, Array], cotangent: Array
) -> tuple[Array, Array]:
    """Differentiate group by group in a loop, which compiles sooner and runs as fast."""
    x, w = saved
    groups = x.shape[3] // w.shape[2]
    parts = _split(x, groups), _join_groups(w, groups, 1), _split(cotangent, groups)
    found = lax.map(lambda each: _group_backward(window, *each), parts)
    return _join(found[0]), _join(found[1])


def _group_backward(
    window: FilterWindow, x: Array, w: Array, cotangent: Array
) -> tuple[Array, Array]:
    """Compute the gradients of the images and of the filters of one group."""
    if set(window.strides) == {1}:
        # Reverse the filter separately: XLA is slow if the convolution reverses it.
        mirrored = lax.optimization_barrier(lax.rev(w, (0, 1)).swapaxes(2, 3))
        back = FilterWindow(window.kernel, window.strides, pads_back(window), window.dilations)
        of_images = xla_convolution(cotangent, mirrored, back)
    else:
        (of_images,) = jax.vjp(lambda images: xla_convolution(images, w, window), x)[1](cotangent)
    return of_images, _gradient_by_patches(x, cotangent, window)


_by_group: Any = jax.custom_vjp(_few_together, nondiff_argnums=(2,))
"""A convolution for each group, or for a few groups of few channels at a time."""
_by_group.defvjp(lambda x, w, window: (_few_together(x, w, window), (x, w)), _by_group_backward)


def _split(x: Array, count: int) -> Array:
    """Split the channels, [count, batch, height, width, channels / count]."""
    return jnp.moveaxis(x.reshape(*x.shape[:3], count, -1), 3, 0)


def _join(parts: Array) -> Array:
    """Concatenate the channels of all parts."""
    found = jnp.moveaxis(parts, 0, 3)
    return found.reshape(*found.shape[:3], -1)


def _join_groups(w: Array, groups: int, together: int) -> Array:
    """Join the filters of `together` groups, with zeros between channels of different groups."""
    own, count = w.shape[2], groups // together
    parted = w.reshape(*w.shape[:3], count, together, -1)
    if together == 1:
        return jnp.moveaxis(parted[:, :, :, :, 0], 3, 0)
    zero = jnp.zeros_like(parted[..., 0, :])
    rows = [
        lax.concatenate([parted[..., n, :] if n == row else zero for n in range(together)], 4)
        for row in range(together)
    ]
    return jnp.moveaxis(jnp.stack(rows, 2), 4, 0).reshape(
        count, *w.shape[:2], together * own, together * parted.shape[-1]
    )


FILTER_GRADIENTS: Mapping[str, FilterGradient] = {
    "patches": _gradient_by_patches,
    "rows": _gradient_by_rows,
}
WAYS: Mapping[str, Way] = {
    "shifts": _repeated_shifts,
    "matmul": _matmul,
    "im2col": _im2col,
    "channels": _by_channel,
    "winograd": _winograd,
    "groups": _by_group,
    **{
        name: with_filter_gradient(xla_convolution, gradient)
        for name, gradient in FILTER_GRADIENTS.items()
    },
}


def convolve(
    algorithm: str, x: Array, w: Array, window: FilterWindow, *, channels_last: bool
) -> Array:
    """Convolve images of either layout by one of the `WAYS`."""
    if channels_last:
        return WAYS[algorithm](x, w, window)
    out = WAYS[algorithm](jnp.moveaxis(x, 1, 3), w, window)
    return jnp.moveaxis(out, 3, 1)


def convolve_planes(
    volumes: Array, filters: Array, window: FilterWindow, groups: int, *, channels_last: bool
) -> Array:
    """Convolve volumes as images.

    Filters are [out, in / groups, depth, height, width]. An image is a plane of the result, with
    the channels of all planes that a filter meets there. XLA's own convolution takes 2 to 8 times
    as long on CPUs, and the derivatives 4 times and more.
    """
    x = volumes if channels_last else jnp.moveaxis(volumes, 1, 4)
    (depth, *kernel), (stride, *strides) = window.kernel, window.strides
    (hole, *holes), (pad, *pads) = window.dilations, window.pads
    padded = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), (*pad, 0), *[(0, 0, 0)] * 3])
    reach = padded.shape[1] - hole * (depth - 1)
    met = [
        lax.slice_in_dim(padded, tap * hole, tap * hole + reach, stride, axis=1)
        for tap in range(depth)
    ]
    batch, count, height, width, channels = met[0].shape
    apart = [each.reshape(*each.shape[:4], groups, channels // groups) for each in met]
    images = jnp.stack(apart, 5).reshape(batch * count, height, width, depth * channels)
    outs, own = filters.shape[:2]
    joined = filters.transpose(3, 4, 2, 1, 0).reshape(*kernel, depth * own, outs)
    way = xla_convolution if groups == 1 else _by_group
    out = way(images, joined, FilterWindow((*kernel,), (*strides,), (*pads,), (*holes,)))
    planes = out.reshape(batch, count, *out.shape[1:])
    return planes if channels_last else jnp.moveaxis(planes, 4, 1)
