"""Samples of resizing, sampling, unfolding and reordering."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import vision as ops
from graphopt_tests.ops.base import Array, bf16, f32, f64, i64, sample, u8

LINE = [[[0.0, 1.0, 2.0, 3.0]]]


def shuffled(x: Array) -> Array:
    """Shuffle a pixel of each channel in turn into two rows and two columns."""
    out = np.empty((x.shape[0], x.shape[1] // 4, x.shape[2] * 2, x.shape[3] * 2), x.dtype)
    for at in range(4):
        out[:, :, at // 2 :: 2, at % 2 :: 2] = x[:, at::4]
    return out


def moved(x: Array) -> Array:
    """Take the first channel from the frame before, the second from the frame after."""
    out = x.copy()
    out[1:, 0], out[0, 0] = x[:-1, 0], 0
    out[:-1, 1], out[-1, 1] = x[1:, 1], 0
    return out


SAMPLES = {
    ops.Interpolate: [
        # whole pixels: the fractions go at the end
        sample(
            u8([[[0, 30, 61]]]), None, size=(6,), mode="linear", align_corners=False, align_mode=0
        ).gives(lambda x, _: [[[0, 7, 22, 37, 53, 61]]]),
        sample(i64([[[4, 7]]]), None, size=(4,), align_corners=False).gives(
            lambda x, _: x.repeat(2, 2)
        ),
        # 10 times 0.7 is 7 in float32, and less than 7 where 0.7 was in float32 alone
        *(
            sample(
                f32([[range(10)]]),
                None,
                scale=(float(np.float32(0.7)),),
                single_scale=single,
                align_corners=False,
            ).gives(lambda x, _, places=places: [[places]])
            for single, places in ((True, [0, 1, 2, 4, 5, 7, 8]), (False, [0, 1, 2, 4, 5, 7]))
        ),
        # 5 halved are 2, which are 2.5 apart by the sizes, and 2 by the scale
        *(
            sample(
                f32([[range(5)]]),
                None,
                scale=(0.5,),
                spaced_by_size=by_size,
                mode="linear",
                align_corners=False,
            ).gives(lambda x, _, second=second: [[[0, second]]])
            for by_size, second in ((True, 2.5), (False, 2))
        ),
        # a single position is the first one, whatever the scale
        sample(f32(LINE), None, size=(1,), mode="linear", align_corners=False, align_mode=0).gives(
            lambda x, _: [[[0]]]
        ),
        sample(
            f32([[[[0.0, 1.0, 2.0]]]]), None, size=(1, 1), mode="bicubic", align_corners=False
        ).gives(lambda x, _: [[[[-0.09375]]]]),
        sample(f32(1, 2, 2, 3), None, scale=(2.0, 2.0), align_corners=False).gives(
            lambda x, _: x.repeat(2, 2).repeat(2, 3)
        ),
        sample(f32(LINE), None, size=(8,), mode="linear", align_corners=False, align_mode=0).gives(
            lambda x, _: [[[0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3]]]
        ),
        sample(f32(LINE), None, size=(8,), mode="linear", align_corners=False).gives(
            lambda x, _: [[[0, 0.5, 1, 1.5, 2, 2.5, 3, 3]]]
        ),
        sample(f64(LINE), None, size=(7,), mode="linear").gives(
            lambda x, _: [[[0, 0.5, 1, 1.5, 2, 2.5, 3]]]
        ),
        sample(f32(1, 2, 2, 1), None, size=(4, 4), data_layout="NHWC", align_corners=False).gives(
            lambda x, _: x.repeat(2, 1).repeat(2, 2)
        ),
        sample(f32(1, 1, 3, 3), None, size=(5, 5), mode="bicubic"),
        sample(f32(1, 1, 2, 3), f32(1, 2, 4, 6), align_corners=False)
        .gives(lambda x, y: x.repeat(2, 2).repeat(2, 3))
        .gradient_through(0),
        sample(f32(1, 1, 2, 2, 2), None, size=(3, 3, 3), mode="linear"),
    ],
    ops.Unfold: [
        sample(f32(1, 2, 2, 3), kernel_sizes=(2, 2)).gives(
            lambda x: np.stack([x[0, :, 0:2, j : j + 2].ravel() for j in range(2)], 1)[None]
        ),
        sample(f64(1, 1, 2, 2), kernel_sizes=(2, 2), strides=(2, 2), paddings=(1, 1, 1, 1)).gives(
            lambda x: [np.diag(x.ravel())[::-1]]
        ),
        sample(f32(1, 1, 3, 3), kernel_sizes=(2, 2), dilations=(2, 2)).gives(
            lambda x: [[[x[0, 0, i, j]] for i in (0, 2) for j in (0, 2)]]
        ),
        sample(f64(2, 3, 4, 5), kernel_sizes=(3, 1), paddings=(2, 1), strides=(2, 3)),
        sample(f32(0, 1, 2, 3), kernel_sizes=(1, 2), paddings=(0, 1, 1, 0)),
    ],
    ops.GridSample: [
        sample(f32(1, 2, 2, 2), f32([[[[-1.0, -1.0], [1.0, -1.0], [0.0, 0.0]]]]))
        .gives(lambda x, g: np.stack([x[:, :, 0, 0], x[:, :, 0, 1], x.mean((2, 3))], 2)[:, :, None])
        .kinked(),
        sample(f64(1, 1, 3, 3), f64(1, 2, 2, 2)).kinked(),
        sample(f64(1, 1, 2, 2, 2), f64([[[[[0.0, 0.0, 0.0], [1.0, -1.0, 1.0]]]]]))
        .gives(lambda x, g: [[[[[x.mean(), x[0, 0, 1, 0, 1]]]]]])
        .kinked(),
        sample(f32(1, 1, 3, 3), f32(1, 2, 2, 2), mode="nearest", padding_mode="border").kinked(),
        sample(
            f32(1, 1, 3, 3), f32(1, 2, 2, 2), padding_mode="reflection", align_corners=False
        ).kinked(),
        sample(f64(2, 3, 4, 3), f64(2, 4, 3, 2) * 3, padding_mode="reflection").kinked(),
        sample(f64(1, 1, 1, 2), f64(1, 3, 2, 2), padding_mode="reflection").kinked(),
        sample(f64(2, 2, 3, 1), f64(2, 1, 3, 2), mode="nearest", align_corners=False).kinked(),
        sample(f64(1, 2, 2, 3, 4), f64(1, 2, 2, 1, 3), padding_mode="border").kinked(),
        sample(f32(0, 2, 3, 3), f32(0, 2, 2, 2)),
        # between pixels it is smooth
        sample(f64(1, 2, 3, 3), f64([[[[0.3, -0.2], [0.7, 0.55]]]])),
    ],
    ops.Fold: [
        sample(f64(1, 4, 4), output_sizes=(3, 3), kernel_sizes=(2, 2)).gives(
            lambda x: [
                [
                    [
                        [x[0, 0, 0], x[0, 0, 1] + x[0, 1, 0], x[0, 1, 1]],
                        [
                            x[0, 0, 2] + x[0, 2, 0],
                            x[0, :, ::-1].diagonal().sum(),
                            x[0, 1, 3] + x[0, 3, 1],
                        ],
                        [x[0, 2, 2], x[0, 2, 3] + x[0, 3, 2], x[0, 3, 3]],
                    ]
                ]
            ]
        ),
        sample(
            f32(2, 8, 6),
            output_sizes=(4, 5),
            kernel_sizes=(2, 2),
            strides=(2, 2),
            paddings=(1, 1, 0, 1),
        ).known_sizes(),
        sample(
            f64(1, 4, 4), output_sizes=(4, 4), kernel_sizes=(2, 2), dilations=(2, 2)
        ).known_sizes(),
    ],
    ops.AffineGrid: [
        sample(f32([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), output_shape=(1, 1, 2, 2))
        .gives(lambda t: [[[[-1, -1], [1, -1]], [[-1, 1], [1, 1]]]])
        .known_sizes(),
        sample(f64(2, 3, 4), output_shape=(2, 1, 2, 3, 2), align_corners=False).known_sizes(),
        # a single row is the middle one
        sample(f64(1, 2, 3), output_shape=(1, 1, 1, 3)).known_sizes(),
    ],
    ops.PixelShuffle: [
        sample(f32(2, 8, 2, 3), upscale_factor=2).gives(shuffled),
        sample(bf16(1, 2, 3, 4), upscale_factor=2, data_format="NHWC"),
        sample(f64(2, 1, 3, 18), upscale_factor=3, data_format="NHWC"),
    ],
    ops.PixelUnshuffle: [
        sample(shuffled(f32(2, 8, 2, 3)), downscale_factor=2).gives(
            lambda x: np.stack([x[:, :, i // 2 :: 2, i % 2 :: 2] for i in range(4)], 2).reshape(
                2, 8, 2, 3
            )
        ),
        sample(f64(1, 2, 4, 3), downscale_factor=2, data_format="NHWC"),
    ],
    ops.ChannelShuffle: [
        sample(f32(1, 6, 1, 2), groups=2).gives(lambda x: x[:, [0, 3, 1, 4, 2, 5]]),
        sample(f64(1, 2, 1, 6), groups=3, data_format="NHWC").gives(
            lambda x: x[..., [0, 2, 4, 1, 3, 5]]
        ),
    ],
    ops.SpaceToDepth: [
        sample(f32(1, 4, 2, 2), blocksize=2).gives(lambda x: shuffled(x).reshape(1, 16, 1, 1)),
        sample(f64(2, 8, 4, 6), blocksize=2),
    ],
    ops.TemporalShift: [
        sample(f32(3, 4, 1, 2), seg_num=3).gives(moved),
        sample(f64(4, 1, 2, 4), seg_num=2, data_format="NHWC"),
        sample(f64(6, 5, 1, 1), seg_num=3, shift_ratio=0.5),
        sample(f32(0, 4, 1, 2), seg_num=3),
    ],
}
