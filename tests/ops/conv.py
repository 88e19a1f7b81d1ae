"""Samples of convolution and pooling, against loops over the windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.conv import Conv2d, Conv3d, DepthwiseConv2d, Pool2d, Pool3d
from graphopt_tests.ops.base import Array, Sample, bf16, f32, f64, i32, sample

Pads = tuple[int, int, int, int]


def convolution(
    strides: tuple[int, int] = (1, 1),
    pads: Pads = (0, 0, 0, 0),
    dilations: tuple[int, int] = (1, 1),
    groups: int = 1,
) -> Callable[[Array, Array], Array]:
    """Cross-correlation of NCHW images; `pads` are top, bottom, left and right."""

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
    """The same function of images with the channels last."""
    return lambda x, *rest: function(x.transpose(0, 3, 1, 2), *rest).transpose(0, 2, 3, 1)


def hwio(function: Callable[..., Array]) -> Callable[..., Array]:
    """The same function of filters [height, width, in / groups, out]."""
    return lambda x, w: function(x, w.transpose(3, 2, 0, 1))


def windows(reduce: Callable[[Array], Any], *bounds: list[tuple[int, int]]) -> Any:
    """Reduce the given ranges of rows and columns of NCHW images."""

    def compute(x: Array) -> Array:
        x = x.astype(float)
        rows, columns = bounds
        cells = [[reduce(x[:, :, a:b, c:d]) for c, d in columns] for a, b in rows]
        return np.moveaxis(np.array(cells), (0, 1), (2, 3))

    return compute


def largest(x: Array) -> Array:
    return x.max((2, 3))


def average(x: Array) -> Array:
    return x.mean((2, 3))


def pool(x: Array, size: Any, kind: str = "max", **attrs: Any) -> Sample:
    return sample(x, kernel_size=size, pooling_type=kind, **attrs)


PAIRS = [(0, 2), (2, 4)]

SAMPLES = {
    Conv2d: [
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
        sample(f32(0, 2, 3, 3), f32(1, 2, 2, 2)),
    ],
    DepthwiseConv2d: [
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
    Pool2d: [
        pool(f32(1, 2, 4, 4), (2, 2), strides=(2, 2)).gives(windows(largest, PAIRS, PAIRS)),
        pool(i32(1, 1, 4, 4), (2, 2), strides=(2, 2)).gives(windows(largest, PAIRS, PAIRS)),
        pool(f32(1, 1, 5, 4), (3, 2), "avg", strides=(2, 2), paddings=(1, 0)).gives(
            windows(average, [(0, 2), (1, 4), (3, 5)], PAIRS)
        ),
        pool(
            f64(1, 1, 3, 4), (2, 2), "avg", strides=(2, 2), paddings=(1, 0), exclusive=False
        ).gives(windows(lambda x: x.sum((2, 3)) / 4, [(0, 1), (1, 3)], PAIRS)),
        pool(f32(1, 1, 5, 4), (2, 2), strides=(2, 2), ceil_mode=True).gives(
            windows(largest, [(0, 2), (2, 4), (4, 5)], PAIRS)
        ),
        pool(f32(1, 1, 5, 4), (2, 2), "avg", strides=(2, 2), ceil_mode=True).gives(
            windows(average, [(0, 2), (2, 4), (4, 5)], PAIRS)
        ),
        pool(f32(1, 1, 5, 4), (3, 2), strides=(2, 2), padding_algorithm="SAME").gives(
            windows(largest, [(0, 2), (1, 4), (3, 5)], PAIRS)
        ),
        pool(
            *(f32(1, 1, 1, 6), (1, 3), "avg"),
            strides=(1, 2),
            padding_algorithm="SAME",
            exclusive=False,
        ).gives(windows(average, [(0, 1)], [(0, 3), (2, 5), (4, 6)])),
        pool(f32(2, 3, 2, 4), (1, 1), "avg", global_pooling=True).gives(
            windows(average, [(0, 2)], [(0, 4)])
        ),
        pool(f32(2, 3, 2, 4), (1, 1), global_pooling=True, data_format="NHWC").gives(
            nhwc(windows(largest, [(0, 3)], [(0, 2)]))
        ),
        pool(f32(1, 2, 5, 4), (3, 2), "avg", adaptive=True).gives(
            windows(average, [(0, 2), (1, 4), (3, 5)], PAIRS)
        ),
        pool(f32(1, 2, 4, 5), (2, 3), adaptive=True).gives(
            windows(largest, PAIRS, [(0, 2), (1, 4), (3, 5)])
        ),
        pool(f32(1, 2, 3, 1), (4, 1), "avg", adaptive=True, data_format="NHWC").gives(
            nhwc(windows(average, [(0, 1), (0, 1), (1, 2), (1, 2)], [(0, 3)]))
        ),
        pool(bf16(1, 1, 4, 4), (2, 2), "avg", strides=(2, 2)).gives(windows(average, PAIRS, PAIRS)),
        pool(*(f64(1, 2, 5, 4), (3, 2)), strides=(2, 2), paddings=(1, 0), algorithm="shifts").gives(
            windows(largest, [(0, 2), (1, 4), (3, 5)], PAIRS)
        ),
        pool(f64(2, 4, 3, 2), (2, 2), data_format="NHWC", algorithm="shifts").gives(
            nhwc(windows(largest, [(0, 2), (1, 3), (2, 4)], [(0, 2), (1, 3)]))
        ),
        pool(f32(1, 2, 4, 5), (2, 3), adaptive=True, algorithm="shifts").gives(
            windows(largest, PAIRS, [(0, 2), (1, 4), (3, 5)])
        ),
    ],
    Conv3d: [
        sample(f32(1, 2, 1, 4, 4), f32(3, 2, 1, 2, 2)).gives(
            lambda x, w: convolution()(x[:, :, 0], w[:, :, 0])[:, :, None]
        ),
        sample(f64(1, 3, 2, 2, 2), f64(2, 2, 2, 1, 1), data_format="NDHWC").gives(
            lambda x, w: np.stack(
                [np.einsum("ndhwc,ocd->nhwo", x[:, i : i + 2], w[..., 0, 0]) for i in range(2)], 1
            )
        ),
    ],
    Pool3d: [
        pool(f32(1, 2, 1, 4, 4), (1, 2, 2), strides=(1, 2, 2)).gives(
            lambda x: windows(largest, PAIRS, PAIRS)(x[:, :, 0])[:, :, None]
        ),
        pool(f32(2, 3, 2, 2, 2), (1, 1, 1), "avg", global_pooling=True).gives(
            lambda x: x.astype(float).mean((2, 3, 4), keepdims=True)
        ),
        pool(f64(1, 1, 2, 4, 2), (1, 2, 1), "avg", adaptive=True, data_format="NCDHW").gives(
            lambda x: x.reshape(1, 1, 2, 2, 2, 2).mean((2, 4, 5))[:, :, None, :, None]
        ),
        pool(f64(1, 2, 1, 4, 4), (1, 2, 2), strides=(1, 2, 2), algorithm="shifts").gives(
            lambda x: windows(largest, PAIRS, PAIRS)(x[:, :, 0])[:, :, None]
        ),
    ],
}
