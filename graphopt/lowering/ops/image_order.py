"""Pixels, channels and frames in another order, in JAX."""

from __future__ import annotations

from jax import numpy as jnp

from graphopt.ir.dialect.ops.conv import is_channels_last
from graphopt.ir.dialect.ops.image_order import (
    ChannelShuffle,
    PixelShuffle,
    PixelUnshuffle,
    SpaceToDepth,
    TemporalShift,
)
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lowers


@lowers(PixelShuffle)
def pixel_shuffle(x: Array, upscale_factor: int, data_format: str) -> Array:
    r = upscale_factor
    if is_channels_last(data_format):
        n, h, w, c = x.shape
        apart = x.reshape(n, h, w, c // (r * r), r, r).transpose(0, 1, 4, 2, 5, 3)
        return apart.reshape(n, h * r, w * r, c // (r * r))
    n, c, h, w = x.shape
    apart = x.reshape(n, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return apart.reshape(n, c // (r * r), h * r, w * r)


@lowers(PixelUnshuffle)
def pixel_unshuffle(x: Array, downscale_factor: int, data_format: str) -> Array:
    r = downscale_factor
    if is_channels_last(data_format):
        n, h, w, c = x.shape
        apart = x.reshape(n, h // r, r, w // r, r, c).transpose(0, 1, 3, 5, 2, 4)
        return apart.reshape(n, h // r, w // r, c * r * r)
    n, c, h, w = x.shape
    apart = x.reshape(n, c, h // r, r, w // r, r).transpose(0, 1, 3, 5, 2, 4)
    return apart.reshape(n, c * r * r, h // r, w // r)


@lowers(ChannelShuffle)
def channel_shuffle(x: Array, groups: int, data_format: str) -> Array:
    axis = 3 if is_channels_last(data_format) else 1
    apart = x.reshape(*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :])
    return jnp.swapaxes(apart, axis, axis + 1).reshape(x.shape)


@lowers(SpaceToDepth)
def space_to_depth(x: Array, blocksize: int) -> Array:
    # Paddle writes larger images of fewer channels, and only then calls them smaller ones of more
    n, c, h, w = x.shape
    b = blocksize
    apart = x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    return apart.reshape(n, c * b * b, h // b, w // b)


@lowers(TemporalShift)
def temporal_shift(x: Array, seg_num: int, shift_ratio: float, data_format: str) -> Array:
    last = is_channels_last(data_format)
    channels = x.shape[3 if last else 1]
    first, second = int(channels * shift_ratio), int(channels * 2 * shift_ratio)
    videos = x.reshape(-1, seg_num, *x.shape[1:])
    videos = jnp.moveaxis(videos, 4 if last else 2, -1)
    empty = jnp.zeros_like(videos[:, :1])
    before = jnp.concatenate([empty, videos[:, :-1]], 1)
    after = jnp.concatenate([videos[:, 1:], empty], 1)
    parts = [before[..., :first], after[..., first:second], videos[..., second:]]
    moved = jnp.moveaxis(jnp.concatenate(parts, -1), -1, 4 if last else 2)
    return moved.reshape(x.shape)
