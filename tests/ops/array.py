"""Samples of the ops on tensor arrays of open length."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.array import ArrayRead, ArrayToTensor, ArrayWrite
from graphopt_tests.ops.base import f32, f64, i32, i64, sample

SAMPLES = {
    ArrayWrite: [
        sample(f32(2, 3), i64([2]), f32(3)).gives(lambda a, i, x: np.concatenate([a, x[None]])),
        sample(f64(2, 3), i64([0]), f64(3)).gives(lambda a, i, x: np.stack([x, a[1]])),
        sample(i32(0, 1), i64([0]), i32(1)).gives(lambda a, i, x: x[None]),
    ],
    ArrayRead: [
        sample(f32(2, 3), i64([1])).gives(lambda a, i: a[1]),
        sample(i64(3), i32([0])).gives(lambda a, i: a[0]),
    ],
    ArrayToTensor: [
        sample(f32(2, 3, 4), axis=1, use_stack=True).gives(
            lambda a: (np.moveaxis(a, 0, 1), [1, 1])
        ),
        sample(f64(2, 3, 4), axis=-1).gives(lambda a: (np.concatenate(list(a), -1), [4, 4])),
        sample(i64(2, 3)).gives(lambda a: (np.concatenate(list(a)), [3, 3])),
    ],
}
