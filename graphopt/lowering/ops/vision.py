"""Resizing, sampling, unfolding and reordering of images in JAX."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import vision as ops
from graphopt.ir.dialect.ops.conv import (
    is_channels_last,
    spatial_sizes,
)
from graphopt.lowering.ops.base import Array, compute_wide, is_floating, wide
from graphopt.lowering.registry import lowers

Ints = tuple[int, ...]
# for each output position, the input positions and their weights
Taps = list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]


@lowers(ops.Interpolate)
@compute_wide
def interpolate(
    x: Array,
    like: Array | None,
    size: Ints,
    scale: tuple[float, ...],
    single_scale: bool,
    spaced_by_size: bool,
    mode: str,
    align_corners: bool,
    align_mode: int,
    data_layout: str,
) -> Array:
    sizes = spatial_sizes(x.shape, data_layout)
    size = size if like is None else spatial_sizes(like.shape, data_layout)
    first = 1 if is_channels_last(data_layout) else 2
    wanted = ops.resized_sizes(sizes, size, scale, single_scale)
    scale = () if spaced_by_size else scale
    scales = scale if len(scale) > 1 else scale * len(sizes)
    if wanted == tuple(sizes):
        return x  # as in Paddle, whatever the scale
    dtype = x.dtype
    if mode != "nearest" and not is_floating(x):
        x = x.astype(np.float32)  # integers are truncated at the end
    for at, (old, new) in enumerate(zip(sizes, wanted, strict=True)):
        ratio = _ratio(old, new, scales[at] if scales else 0, align_corners)
        taps = _taps(mode, old, new, ratio, align_corners, align_mode)
        x = _resample_axis(x, first + at, taps, _transpose_taps(taps, old, new))
    return x.astype(dtype)


# More readers of one input are rare; then a scatter computes the derivative.
_MOST_READERS = 32


def _transpose_taps(taps: Taps, old: int, new: int) -> Taps:
    """Find for each input position the output positions that read it, with their weights."""
    pairs = np.concatenate([index * new + np.arange(new) for index, _ in taps])
    pairs, places = np.unique(pairs, return_inverse=True)
    weights = np.bincount(places, np.concatenate([weight for _, weight in taps]))
    inputs, outputs = np.divmod(pairs, new)
    rank = np.arange(len(pairs)) - np.searchsorted(inputs, inputs)
    found = [(np.zeros(old, int), np.zeros(old)) for _ in range(rank.max() + 1)]
    for number, (index, weight) in enumerate(found):
        chosen = rank == number
        index[inputs[chosen]], weight[inputs[chosen]] = outputs[chosen], weights[chosen]
    return found


def _resample_axis(x: Array, axis: int, taps: Taps, back: Taps) -> Array:
    """Sum taps along an axis; the derivative sums the taps `back`, without a scatter."""
    phases = _count_phases(taps)
    read = _read_runs if phases else jnp.take

    def weigh(x: Array) -> Array:
        sums: list[Array] = []
        for phase in range(phases or 1):
            own = slice(phase, None, phases or 1)
            parts = [
                read(x, index[own], axis) * _along(weight[own].astype(x.dtype), x.ndim, axis)
                for index, weight in taps
            ]
            sums.append(sum(parts[1:], parts[0]))
        y = lax.collapse(jnp.stack(sums, axis + 1), axis, axis + 2) if sums[1:] else sums[0]
        # without it, readers of a few elements of each sum would recompute it
        return lax.optimization_barrier(y) if taps[1:] else y

    if len(back) > _MOST_READERS:
        return weigh(x)
    computed = jax.custom_vjp(weigh)
    computed.defvjp(lambda x: (weigh(x), None), lambda _, g: (_resample_axis(g, axis, back, taps),))
    return computed(x)


_MOST_PHASES, _MOST_RUNS = 8, 64


def _count_phases(taps: Taps) -> int:
    """Find the fewest phases of the outputs with evenly spaced inputs; 0 if there are none.

    XLA gathers elements one by one, in loops that recompute their operands. It reads slices by
    vector instructions.
    """
    outputs = len(taps[0][0])
    for phases in range(1, _MOST_PHASES + 1):
        if outputs % phases == 0:
            most = min(3 * len(taps) * phases, _MOST_RUNS)
            parts = [index[phase::phases] for index, _ in taps for phase in range(phases)]
            if sum(len(_runs_of(part)) for part in parts) <= most:
                return phases
    return 0


def _runs_of(index: np.ndarray[Any, Any]) -> list[tuple[int, int, int]]:
    """Find the runs of evenly spaced positions in an index: (first, count, distance)."""
    runs: list[tuple[int, int, int]] = []
    start = 0
    while start < len(index):
        stop, step = start + 1, 0
        if stop < len(index) and index[stop] >= index[start]:
            step = int(index[stop] - index[start])
            while stop < len(index) and index[stop] - index[stop - 1] == step:
                stop += 1
        runs.append((int(index[start]), stop - start, step))
        start = stop
    return runs


def _read_runs(x: Array, index: np.ndarray[Any, Any], axis: int) -> Array:
    parts: list[Array] = []
    for first, count, step in _runs_of(index):
        last = first + (count - 1) * step
        part = lax.slice_in_dim(x, first, last + 1, step or 1, axis)
        shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
        parts.append(part if step else jnp.broadcast_to(part, shape))
    return lax.concatenate(parts, axis) if parts[1:] else parts[0]


def _along(vector: np.ndarray[Any, Any], rank: int, axis: int) -> np.ndarray[Any, Any]:
    return vector.reshape([-1 if i == axis else 1 for i in range(rank)])


def _ratio(old: int, new: int, scale: float, align_corners: bool) -> np.float32:
    """Compute the distance of the positions in the old image; in float32, as in Paddle.

    0 for a single position, whatever the scale.
    """
    if new == 1:
        return np.float32(0)
    if align_corners:
        return np.float32(np.float32(old - 1) / np.float32(new - 1))
    return np.float32(1 / scale if scale > 0 else np.float32(old) / np.float32(new))


def _taps(
    mode: str, old: int, new: int, ratio: np.float32, align_corners: bool, align_mode: int
) -> Taps:
    position = np.arange(new, dtype=np.float32)
    if mode == "nearest":
        at = np.floor(ratio * position + np.float32(0.5 if align_corners else 0)).astype(int)
        return [(np.minimum(at, old - 1), np.ones(new))]
    half_pixels = not align_corners and (mode == "bicubic" or align_mode == 0)
    source = ratio * (position + np.float32(0.5)) - np.float32(0.5) if half_pixels else None
    source = ratio * position if source is None else source
    if mode == "bicubic":
        low = np.floor(source).astype(int)
        weights = _cubic(source - low)
        return [(np.clip(low + i - 1, 0, old - 1), w) for i, w in enumerate(weights)]
    source = np.maximum(source, 0)
    low = np.minimum(np.floor(source).astype(int), old - 1)
    after = source - low
    return [(low, 1 - after), (np.minimum(low + 1, old - 1), after)]


def _cubic(t: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    """Compute the weights of the four neighbors, with the coefficient -0.75."""
    a = -0.75

    def near(d: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


@lowers(ops.Unfold)
def unfold(x: Array, kernel_sizes: Ints, strides: Ints, paddings: Ints, dilations: Ints) -> Array:
    zero = np.zeros((), x.dtype)
    pads = [(*pair, 0) for pair in ops.unfold_pads(paddings, kernel_sizes)]
    x = lax.pad(x, zero, [(0, 0, 0), (0, 0, 0), *pads])
    # slice for each window position, first rows, then columns: n, c, kh, kw, oh, ow
    for at, (k, stride, d) in enumerate(zip(kernel_sizes, strides, dilations, strict=True)):
        axis = 2 * at + 2
        last = x.shape[axis] - d * (k - 1)
        parts = [lax.slice_in_dim(x, i * d, last + i * d, stride, axis) for i in range(k)]
        x = jnp.stack(parts, at + 2)
    n, c, kh, kw, oh, ow = x.shape
    return x.reshape(n, c * kh * kw, oh * ow)


@lowers(ops.Fold)
def fold(
    x: Array,
    output_sizes: Ints,
    kernel_sizes: Ints,
    strides: Ints,
    paddings: Ints,
    dilations: Ints,
) -> Array:
    # fold is the transpose of unfold: it adds up the copies
    channels = x.shape[1] // int(np.prod(kernel_sizes))
    image = jax.ShapeDtypeStruct((x.shape[0], channels, *output_sizes), wide(x).dtype)
    window = (kernel_sizes, strides, paddings, dilations)
    transpose = jax.linear_transpose(lambda images: unfold(images, *window), image)
    return transpose(wide(x))[0].astype(x.dtype)


@lowers(ops.GridSample)
def grid_sample(x: Array, grid: Array, mode: str, padding_mode: str, align_corners: bool) -> Array:
    images, points = wide(x), wide(grid)
    # the grid has columns before rows
    places = [
        _place(points[..., -1 - axis], size, padding_mode, align_corners)
        for axis, size in enumerate(images.shape[2:])
    ]
    if mode == "nearest":
        return _read(images, [jnp.round(p) for p in places]).astype(x.dtype)
    corners: list[Array] = []
    for corner in itertools.product(*map(_neighbours, places)):
        weights = [weight for _, weight in corner]
        share = functools.reduce(lax.mul, weights)[:, None]
        corners.append(_read(images, [at for at, _ in corner]) * share)
    return sum(corners[1:], corners[0]).astype(x.dtype)


def _place(points: Array, size: int, padding_mode: str, align_corners: bool) -> Array:
    """Map points from -1 to 1 to positions in a dimension."""
    half = (size - 1) / 2 if align_corners else size / 2
    at = points * half + (size - 1) / 2
    if padding_mode == "reflection":
        at = _reflect(at, size, align_corners)
    return at if padding_mode == "zeros" else jnp.clip(at, 0, size - 1)


def _reflect(at: Array, size: int, align_corners: bool) -> Array:
    """Mirror positions at the centers or at the edges of the outer pixels."""
    low, span = (0.0, size - 1) if align_corners else (-0.5, size)
    if span <= 0:
        return jnp.zeros_like(at)
    distance = jnp.abs(at - low)
    turns = lax.stop_gradient(jnp.floor(distance / span))
    rest = distance - turns * span
    return jnp.where(turns % 2 == 0, rest, span - rest) + low


def _neighbours(place: Array) -> list[tuple[Array, Array]]:
    """Find the integers around a position and their weights."""
    low = lax.stop_gradient(jnp.floor(place))
    after = place - low
    return [(low, 1 - after), (low + 1, after)]


def _read(images: Array, places: list[Array]) -> Array:
    """Read the pixels [n, c, ...] at integer positions [n, ...] of each dimension, 0 outside."""
    inside, index = jnp.asarray(True), jnp.asarray(np.int32(0))
    for at, size in zip(places, images.shape[2:], strict=True):
        inside = inside & (at >= 0) & (at < size)
        index = index * size + jnp.clip(at, 0, size - 1).astype(np.int32)
    flat = lax.collapse(images, 2)
    taken = jnp.take_along_axis(flat, lax.collapse(index, 1)[:, None], 2)
    pixels = taken.reshape(*images.shape[:2], *index.shape[1:])
    return jnp.where(inside[:, None], pixels, jnp.zeros((), pixels.dtype))


@lowers(ops.AffineGrid)
def affine_grid(theta: Array, output_shape: Ints, align_corners: bool) -> Array:
    sizes = output_shape[2:]
    lines = [_line(size, align_corners) for size in sizes]
    grids = np.meshgrid(*lines, indexing="ij")
    # last axis first; a column of ones for the translation
    points = np.stack([*grids[::-1], np.ones(sizes)], -1).reshape(-1, len(sizes) + 1)
    placed = jnp.matmul(points.astype(theta.dtype), theta.mT)
    return placed.reshape(theta.shape[0], *sizes, len(sizes))


def _line(size: int, align_corners: bool) -> np.ndarray[Any, Any]:
    line = np.linspace(-1, 1, size) if size > 1 else np.zeros(1)
    return line if align_corners else line * (size - 1) / size


@lowers(ops.PixelShuffle)
def pixel_shuffle(x: Array, upscale_factor: int, data_format: str) -> Array:
    r = upscale_factor
    if is_channels_last(data_format):
        n, h, w, c = x.shape
        apart = x.reshape(n, h, w, c // (r * r), r, r).transpose(0, 1, 4, 2, 5, 3)
        return apart.reshape(n, h * r, w * r, c // (r * r))
    n, c, h, w = x.shape
    apart = x.reshape(n, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return apart.reshape(n, c // (r * r), h * r, w * r)


@lowers(ops.PixelUnshuffle)
def pixel_unshuffle(x: Array, downscale_factor: int, data_format: str) -> Array:
    r = downscale_factor
    if is_channels_last(data_format):
        n, h, w, c = x.shape
        apart = x.reshape(n, h // r, r, w // r, r, c).transpose(0, 1, 3, 5, 2, 4)
        return apart.reshape(n, h // r, w // r, c * r * r)
    n, c, h, w = x.shape
    apart = x.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return apart.reshape(n, c * r * r, h // r, w // r)


@lowers(ops.ChannelShuffle)
def channel_shuffle(x: Array, groups: int, data_format: str) -> Array:
    axis = 3 if is_channels_last(data_format) else 1
    apart = x.reshape(*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :])
    return jnp.swapaxes(apart, axis, axis + 1).reshape(x.shape)


@lowers(ops.SpaceToDepth)
def space_to_depth(x: Array, blocksize: int) -> Array:
    # Paddle writes larger images with fewer channels, and then reshapes them
    n, c, h, w = x.shape
    b = blocksize
    apart = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    return apart.reshape(n, c * b * b, h // b, w // b)


@lowers(ops.TemporalShift)
def temporal_shift(x: Array, seg_num: int, shift_ratio: float, data_format: str) -> Array:
    last = is_channels_last(data_format)
    channels = x.shape[3 if last else 1]
    first, second = int(channels * shift_ratio), int(channels * 2 * shift_ratio)
    videos = x.reshape(x.shape[0] // seg_num, seg_num, *x.shape[1:])
    videos = jnp.moveaxis(videos, 4 if last else 2, -1)
    empty = jnp.zeros_like(videos[:, :1])
    before = jnp.concatenate([empty, videos[:, :-1]], 1)
    after = jnp.concatenate([videos[:, 1:], empty], 1)
    parts = [before[..., :first], after[..., first:second], videos[..., second:]]
    moved = jnp.moveaxis(jnp.concatenate(parts, -1), -1, 4 if last else 2)
    return moved.reshape(x.shape)
