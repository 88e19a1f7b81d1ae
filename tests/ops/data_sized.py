"""Samples of the ops whose results are sized by data."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.data_sized import (
    Bincount,
    MaskedSelect,
    Nonzero,
    RepeatInterleave,
    Unique,
    UniqueConsecutive,
)
from graphopt_tests.ops.base import bf16, f32, f64, flags, i32, i64, sample

SAMPLES = {
    Nonzero: [
        sample(f32([[0.0, 2.0], [3.0, 0.0]])).gives(np.argwhere),
        sample(flags([False, False])).gives(np.argwhere),
        sample(i64(0, 2)).gives(np.argwhere),
    ],
    MaskedSelect: [
        sample(f32(2, 3), flags([[True, False, True]] * 2)).gives(lambda x, m: x[m]),
        sample(f64(3), flags([[True, False, True], [False, True, False]])).gives(
            lambda x, m: x[[0, 2, 1]]
        ),
        sample(bf16(2), flags([False, False])).gives(lambda x, m: x[m]),
    ],
    Unique: [
        sample(i64([3, 1, 3, 2])).gives(lambda x: ([1, 2, 3], [1, 3, 0], [2, 0, 2, 1], [1, 1, 2])),
        sample(f32([[2.0, 1.0], [0.0, 3.0], [2.0, 1.0]]), axis=(0,), dtype="int32").gives(
            lambda x: (x[:2][::-1], [1, 0], [1, 0, 1], [1, 2])
        ),
    ],
    UniqueConsecutive: [
        sample(i32([1, 1, 2, 1])).gives(lambda x: ([1, 2, 1], [0, 0, 1, 2], [2, 1, 1])),
        sample(f64([[1.0, 1.0, 2.0], [3.0, 3.0, 4.0]]), axis=(1,)).gives(
            lambda x: (x[:, 1:], [0, 0, 1], [2, 1])
        ),
        sample(i64(0)).gives(lambda x: (x, x, x)),
        sample(f32(0, 2), axis=(0,)).gives(lambda x: (x, [], [])),
    ],
    Bincount: [
        sample(i64([1, 3, 1])).gives(lambda x: [0, 2, 0, 1]),
        sample(i32([0, 1, 1]), f32([0.5, 1.0, 2.0]), minlength=4).gives(
            lambda x, w: [0.5, 3, 0, 0]
        ),
        sample(i32(0)).gives(lambda x: np.zeros(0)),
    ],
    RepeatInterleave: [
        sample(f32(3, 2), i64([0, 2, 1])).gives(lambda x, r: x[[1, 1, 2]]),
        sample(f64(2, 3), i32([2, 0, 1]), axis=1).gives(lambda x, r: x[:, [0, 0, 2]]),
    ],
}
