"""Samples of pools, against loops over the windows, and of their inverses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import pool as ops
from graphopt_tests.ops.base import Array, Sample, bf16, f32, f64, i32, i64, sample
from graphopt_tests.ops.conv import nhwc


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


IMAGE = [[[[1.0, 5.0, 2.0, 3.0], [4.0, 0.0, 9.0, 8.0]]]]


SAMPLES = {
    ops.Pool2d: [
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
        # the last row of windows is beyond the image
        pool(
            f64([[[[1.0], [2.0], [3.0]]]]), (2, 1), strides=(2, 1), paddings=(1, 0), ceil_mode=True
        )
        .gives(lambda x: [[[[1.0], [3.0], [np.finfo("float32").min]]]])
        .kinked(),
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
    ops.Pool3d: [
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
    ops.MaxPool2dWithIndex: [
        sample(f32(IMAGE), kernel_size=(2, 2), strides=(2, 2)).gives(
            lambda x: ([[[[5, 9]]]], [[[[1, 6]]]])
        ),
        sample(f64(IMAGE), kernel_size=(3, 3), strides=(2, 2), paddings=(1, 1)).gives(
            lambda x: ([[[[5, 9]]]], [[[[1, 6]]]])
        ),
        sample(f32(IMAGE), kernel_size=(1, 3), adaptive=True).gives(
            lambda x: ([[[[5, 9, 9]]]], [[[[1, 6, 6]]]])
        ),
        sample(f32(2, 2, 3, 3), kernel_size=(2, 2), strides=(2, 2), ceil_mode=True),
        sample(f64([[[[2.0, 2.0]]]]), kernel_size=(1, 1), global_pooling=True)
        .gives(lambda x: ([[[[2]]]], [[[[0]]]]))
        .kinked(),
        sample(bf16(1, 1, 2, 2), kernel_size=(2, 2), padding_algorithm="SAME"),
        sample(f64(2, 1, 5, 7), kernel_size=(2, 3), adaptive=True),
        sample(
            f64(1, 2, 5, 4), kernel_size=(3, 2), strides=(2, 3), paddings=(1, 0), ceil_mode=True
        ),
        sample(f32(0, 2, 3, 3), kernel_size=(2, 2)),
        # a window beyond the image
        sample(f32([[[[1.0, 2.0, 3.0]]]]), kernel_size=(1, 1), strides=(1, 4), ceil_mode=True)
        .gives(lambda x: ([[[[1, np.finfo("float32").min]]]], [[[[0, -1]]]]))
        .kinked(),
    ],
    ops.MaxPool3dWithIndex: [
        sample(f32(1, 2, 2, 3, 3), kernel_size=(2, 2, 2), strides=(1, 1, 1)),
        sample(f64([[[[[1.0]], [[3.0]]]]]), kernel_size=(2, 1, 1)).gives(
            lambda x: ([[[[[3]]]]], [[[[[1]]]]])
        ),
    ],
    ops.Unpool: [
        sample(f32([[[[5.0, 9.0]]]]), i32([[[[1, 6]]]]), output_size=(2, 4)).gives(
            lambda x, at: [[[[0, 5, 0, 0], [0, 0, 9, 0]]]]
        ),
        sample(f64(2, 2, 1, 1), i64(2, 2, 1, 1) % 4, output_size=(2, 2)).known_sizes(),
        sample(f32(0, 2, 1, 1), i64(0, 2, 1, 1), output_size=(2, 2)).known_sizes(),
    ],
    ops.Unpool3d: [
        sample(f32([[[[[3.0]]]]]), i32([[[[[1]]]]]), output_size=(2, 1, 1)).gives(
            lambda x, at: np.array([0, 3]).reshape(1, 1, 2, 1, 1)
        ),
    ],
}
