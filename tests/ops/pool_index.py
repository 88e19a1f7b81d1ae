"""Samples of pools that say where the maxima are, and of their inverses."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.pool_index import (
    MaxPool2dWithIndex,
    MaxPool3dWithIndex,
    Unpool,
    Unpool3d,
)
from graphopt_tests.ops.base import bf16, f32, f64, i32, i64, sample

IMAGE = [[[[1.0, 5.0, 2.0, 3.0], [4.0, 0.0, 9.0, 8.0]]]]

SAMPLES = {
    MaxPool2dWithIndex: [
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
    ],
    MaxPool3dWithIndex: [
        sample(f32(1, 2, 2, 3, 3), kernel_size=(2, 2, 2), strides=(1, 1, 1)),
        sample(f64([[[[[1.0]], [[3.0]]]]]), kernel_size=(2, 1, 1)).gives(
            lambda x: ([[[[[3]]]]], [[[[[1]]]]])
        ),
    ],
    Unpool: [
        sample(f32([[[[5.0, 9.0]]]]), i32([[[[1, 6]]]]), output_size=(2, 4)).gives(
            lambda x, at: [[[[0, 5, 0, 0], [0, 0, 9, 0]]]]
        ),
        sample(f64(2, 2, 1, 1), i64(2, 2, 1, 1) % 4, output_size=(2, 2)).known_sizes(),
    ],
    Unpool3d: [
        sample(f32([[[[[3.0]]]]]), i32([[[[[1]]]]]), output_size=(2, 1, 1)).gives(
            lambda x, at: np.array([0, 3]).reshape(1, 1, 2, 1, 1)
        ),
    ],
}
