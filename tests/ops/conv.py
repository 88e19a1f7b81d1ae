"""Samples of convolutions, against loops over the windows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import conv as ops
from graphopt_tests.ops.base import Array, bf16, f32, f64, sample

Pads = tuple[int, int, int, int]


def convolution(
    strides: tuple[int, int] = (1, 1),
    pads: Pads = (0, 0, 0, 0),
    dilations: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> Callable[[Array, Array], Array]:
    """Build the cross-correlation of NCHW images; `pads` are top, bottom, left and right."""

    def compute(x: Array, w: Array) -> Array:
        x, w = x.astype(float), w.astype(float)
        x = np.pad(x, ((0, 0), (0, 0), pads[:2], pads[2:]))
        height, width = (d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:], strict=True))
        rows = range(0, x.shape[2] - height + 1, strides[0])
        columns = range(0, x.shape[3] - width + 1, strides[1])
        out = np.zeros((len(x), len(w), len(rows), len(columns)))
        per_group = len(w) // groups
        for channel, kernel in enumerate(w):
            first = channel // per_group * w.shape[1]
            images = x[:, first : first + w.shape[1]]
            for i, top in enumerate(rows):
                for j, left in enumerate(columns):
                    window = images[:, :, top : top + height, left : left + width]
                    window = window[:, :, :: dilations[0], :: dilations[1]]
                    out[:, channel, i, j] = (window * kernel).sum((1, 2, 3))
        return out

    return compute


def nhwc(function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a function of images, so that it takes and gives channels last."""
    return lambda x, *rest: function(x.transpose(0, 3, 1, 2), *rest).transpose(0, 2, 3, 1)


def hwio(function: Callable[..., Array]) -> Callable[..., Array]:
    """Wrap a function of filters, so that it takes [height, width, in / groups, out]."""
    return lambda x, w: function(x, w.transpose(3, 2, 0, 1))


def spread(
    stride: int = 1, pad: int = 0, dilation: int = 1, groups: int = 1, extra: int = 0
) -> Callable[[Array, Array], Array]:
    """Build the transpose of a convolution with channels first, equal in all dimensions."""

    def compute(x: Array, w: Array) -> Array:
        x, w = x.astype(float), w.astype(float)
        kernel, sizes = w.shape[2:], x.shape[2:]
        full = [
            (n - 1) * stride + dilation * (k - 1) + 1 + extra
            for n, k in zip(sizes, kernel, strict=True)
        ]
        out: Any = np.zeros((len(x), w.shape[1] * groups, *full))
        each = len(w) // groups
        for c, at, tap in product(range(len(w)), np.ndindex(*sizes), np.ndindex(*kernel)):
            first = c // each * w.shape[1]
            place = tuple(i * stride + j * dilation for i, j in zip(at, tap, strict=True))
            out[(slice(None), slice(first, first + w.shape[1]), *place)] += (
                x[(slice(None), c, *at)][:, None] * w[(c, slice(None), *tap)]
            )
        return out[(slice(None), slice(None), *(slice(pad, n - pad) for n in full))]

    return compute


SAMPLES = {
    ops.Conv2d: [
        sample(f32(2, 3, 5, 6), f32(4, 3, 3, 2)).gives(convolution()),
        sample(
            *(f32(1, 2, 5, 5), f32(2, 2, 3, 3)), strides=(2, 1), paddings=(1, 0), dilations=(1, 2)
        ).gives(convolution((2, 1), (1, 1, 0, 0), (1, 2))),
        sample(f64(1, 4, 4, 4), f64(2, 2, 2, 2), paddings=(1, 0, 0, 2), groups=2).gives(
            convolution((1, 1), (1, 0, 0, 2), groups=2)
        ),
        sample(
            *(f32(1, 1, 5, 6), f32(1, 1, 3, 3)),
            strides=(2, 2),
            dilations=(2, 2),
            padding_algorithm="SAME",
        ).gives(convolution((2, 2), (1, 1, 0, 1))),
        sample(f32(1, 2, 4, 4), f32(1, 2, 3, 3), paddings=(1, 1), padding_algorithm="VALID").gives(
            convolution()
        ),
        sample(f32(1, 4, 5, 2), f32(3, 2, 2, 2), data_format="NHWC").gives(nhwc(convolution())),
        sample(bf16(1, 2, 3, 3), bf16(1, 2, 2, 2)).gives(convolution()),
        sample(f32(1, 4, 5, 2), f32(2, 3, 2, 3), data_format="NHWC", filter_format="HWIO").gives(
            nhwc(hwio(convolution()))
        ),
        sample(
            *(f64(2, 3, 5, 4), f64(4, 3, 1, 1)), strides=(2, 1), paddings=(1, 0), algorithm="matmul"
        ).gives(convolution((2, 1), (1, 1, 0, 0))),
        *(
            sample(
                *(f64(2, 3, 5, 6), f64(2, 3, 3, 2)),
                strides=(2, 1),
                paddings=(1, 0, 0, 2),
                dilations=(1, 2),
                algorithm=algorithm,
            ).gives(convolution((2, 1), (1, 0, 0, 2), (1, 2)))
            for algorithm in ("im2col", "patches")
        ),
        sample(
            *(f64(2, 3, 5, 6), f64(2, 3, 3, 2)),
            paddings=(1, 0, 0, 2),
            dilations=(1, 2),
            algorithm="rows",
        ).gives(convolution((1, 1), (1, 0, 0, 2), (1, 2))),
        sample(
            *(f64(2, 3, 5, 9), f64(2, 3, 3, 3)), paddings=(1, 0, 2, 2), algorithm="winograd"
        ).gives(convolution((1, 1), (1, 0, 2, 2))),
        sample(
            *(f64(2, 3, 6, 5), f64(4, 3, 3, 2)),
            strides=(2, 1),
            paddings=(1, 0, 0, 2),
            dilations=(1, 2),
            algorithm="channels",
        ).gives(convolution((2, 1), (1, 0, 0, 2), (1, 2))),
        sample(f32(0, 2, 3, 3), f32(1, 2, 2, 2)),
    ],
    ops.DepthwiseConv2d: [
        sample(f32(1, 2, 4, 4), f32(4, 1, 3, 3), paddings=(1, 1), groups=2).gives(
            convolution(pads=(1, 1, 1, 1), groups=2)
        ),
        sample(f32(1, 4, 4, 3), f32(3, 1, 2, 2), groups=3, data_format="NHWC").gives(
            nhwc(convolution(groups=3))
        ),
        sample(
            f32(1, 2, 4, 4), f32(2, 1, 3, 3), groups=2, fuse_relu_before_depthwise_conv=True
        ).gives(lambda x, w: convolution(groups=2)(np.maximum(x, 0), w)),
        sample(
            *(f64(2, 3, 6, 5), f64(6, 1, 3, 2)),
            strides=(2, 1),
            paddings=(1, 0, 0, 2),
            dilations=(1, 2),
            groups=3,
            algorithm="shifts",
        ).gives(convolution((2, 1), (1, 0, 0, 2), (1, 2), groups=3)),
        sample(
            *(f32(1, 4, 5, 2), f32(2, 2, 1, 2)),
            groups=2,
            data_format="NHWC",
            filter_format="HWIO",
            algorithm="shifts",
        ).gives(nhwc(hwio(convolution(groups=2)))),
    ],
    ops.Conv3d: [
        sample(f32(1, 2, 1, 4, 4), f32(3, 2, 1, 2, 2), algorithm="planes").gives(
            lambda x, w: convolution()(x[:, :, 0], w[:, :, 0])[:, :, None]
        ),
        sample(f32(1, 2, 1, 4, 4), f32(3, 2, 1, 2, 2)).gives(
            lambda x, w: convolution()(x[:, :, 0], w[:, :, 0])[:, :, None]
        ),
        sample(f64(1, 3, 2, 2, 2), f64(2, 2, 2, 1, 1), data_format="NDHWC").gives(
            lambda x, w: np.stack(
                [np.einsum("ndhwc,ocd->nhwo", x[:, i : i + 2], w[..., 0, 0]) for i in range(2)], 1
            )
        ),
    ],
    ops.Conv2dTranspose: [
        sample(f32(1, 2, 3, 2), f32(2, 3, 2, 3)).gives(spread()),
        sample(f32(1, 2, 3, 3), f32(2, 1, 3, 3), strides=(2, 2), paddings=(1, 1)).gives(
            spread(2, 1)
        ),
        sample(
            *(f64(1, 4, 2, 2), f64(4, 1, 2, 2)),
            strides=(2, 2),
            dilations=(2, 2),
            groups=2,
            output_padding=(1, 1),
        ).gives(spread(2, 0, 2, 2, 1)),
        sample(f32(1, 1, 2, 2), f32(1, 2, 3, 3), strides=(2, 2), output_size=(6, 6)).gives(
            spread(2, extra=1)
        ),
        sample(f32(1, 2, 2, 2), f32(2, 1, 2, 2), data_format="NHWC").gives(
            lambda x, w: spread()(x.transpose(0, 3, 1, 2), w).transpose(0, 2, 3, 1)
        ),
    ],
    ops.Conv3dTranspose: [
        sample(f32(1, 1, 2, 2, 1), f32(1, 2, 2, 1, 2), strides=(2, 2, 2)).gives(spread(2)),
    ],
    ops.DeformableConv: [
        sample(
            f64(1, 1, 3, 3), np.full((1, 2, 3, 3), 0.5), f64([[[[2.0]]]]), f64(1, 1, 3, 3)
        ).gives(
            lambda x, o, w, m: (
                2
                * m
                * (
                    np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)))[:, :, :, :-1]
                    + np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)))[:, :, :, 1:]
                )[:, :, [0, 1, 2]]
                / 4
                + 2
                * m
                * (
                    np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)))[:, :, 1:, :-1]
                    + np.pad(x, ((0, 0), (0, 0), (0, 1), (0, 1)))[:, :, 1:, 1:]
                )
                / 4
            )
        ),
        sample(
            f64(1, 2, 4, 4),
            f64(1, 12, 2, 4) * 2,
            f64(3, 2, 3, 2),
            f64(1, 6, 2, 4),
            paddings=(1, 1, 1, 1),
            dilations=(2, 2),
        ).kinked(),
        sample(f32(0, 1, 3, 3), f32(0, 2, 3, 3), f32([[[[2.0]]], [[[1.0]]]]), None),
        sample(
            f64(2, 4, 5, 4),
            f64(2, 16, 3, 2),
            f64(2, 2, 2, 2),
            strides=(2, 2),
            paddings=(1, 0),
            groups=2,
            deformable_groups=2,
        ).known_sizes(),
    ],
}
