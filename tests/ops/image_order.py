"""Samples of pixels, channels and frames in another order."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.image_order import (
    ChannelShuffle,
    PixelShuffle,
    PixelUnshuffle,
    SpaceToDepth,
    TemporalShift,
)
from graphopt_tests.ops.base import Array, bf16, f32, f64, sample


def shuffled(x: Array) -> Array:
    """A pixel of each channel in turn, of two rows and two columns."""
    out = np.empty((x.shape[0], x.shape[1] // 4, x.shape[2] * 2, x.shape[3] * 2), x.dtype)
    for at in range(4):
        out[:, :, at // 2 :: 2, at % 2 :: 2] = x[:, at::4]
    return out


def moved(x: Array) -> Array:
    """The first channel from the frame before, the second from the one behind."""
    out = x.copy()
    out[1:, 0], out[0, 0] = x[:-1, 0], 0
    out[:-1, 1], out[-1, 1] = x[1:, 1], 0
    return out


SAMPLES = {
    PixelShuffle: [
        sample(f32(2, 8, 2, 3), upscale_factor=2).gives(shuffled),
        sample(bf16(1, 2, 3, 4), upscale_factor=2, data_format="NHWC"),
    ],
    PixelUnshuffle: [
        sample(shuffled(f32(2, 8, 2, 3)), downscale_factor=2).gives(
            lambda x: np.stack([x[:, :, i // 2 :: 2, i % 2 :: 2] for i in range(4)], 2).reshape(
                2, 8, 2, 3
            )
        ),
        sample(f64(1, 2, 4, 3), downscale_factor=2, data_format="NHWC"),
    ],
    ChannelShuffle: [
        sample(f32(1, 6, 1, 2), groups=2).gives(lambda x: x[:, [0, 3, 1, 4, 2, 5]]),
        sample(f64(1, 2, 1, 6), groups=3, data_format="NHWC").gives(
            lambda x: x[..., [0, 2, 4, 1, 3, 5]]
        ),
    ],
    SpaceToDepth: [
        sample(f32(1, 4, 2, 2), blocksize=2).gives(lambda x: shuffled(x).reshape(1, 16, 1, 1)),
    ],
    TemporalShift: [
        sample(f32(3, 4, 1, 2), seg_num=3).gives(moved),
        sample(f64(4, 1, 2, 4), seg_num=2, data_format="NHWC"),
    ],
}
