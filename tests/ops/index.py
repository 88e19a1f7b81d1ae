"""Samples of the ops that look elements up by number."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.index import Accuracy, Embedding, FillRows, Gather, OneHot, Topk
from graphopt_tests.ops.base import bf16, f32, f64, flags, i32, i64, sample, u8

SAMPLES = {
    Embedding: [
        sample(i64([[0, 2], [2, 1]]), f32(3, 4)).gives(lambda x, w: w[x]),
        sample(i32([1, 0]), f64(3, 2), padding_idx=1).gives(lambda x, w: [0 * w[0], w[0]]),
        sample(i64(0, 2), bf16(3, 2)),
        sample(i64([5, -1, 2**32 + 1, 1]), f32(3, 1))
        .gives(lambda x, w: [[np.nan], [np.nan], [np.nan], w[1]])
        .kinked(),
    ],
    OneHot: [
        sample(i64([0, 2]), depth=3).gives(lambda x: np.eye(3)[x]),
        sample(u8([[1]]), depth=300, dtype="float64").gives(lambda x: np.eye(300)[x]),
        sample(i32([4, -1]), depth=3).gives(lambda x: np.zeros((2, 3))),
    ],
    Gather: [
        sample(f32(3, 2), i64([2, 0, 2])).gives(lambda x, i: x[i]),
        sample(f64(2, 3), i32([1, 1]), axis=-1).gives(lambda x, i: x[:, i]),
        sample(i64(3, 2), i64([[1], [0]])).gives(lambda x, i: x[i[:, 0]]),
        sample(f32(3, 2), i64([2]).reshape(())).gives(lambda x, i: x[i]),
        sample(f32(3, 2), i64(0)).gives(lambda x, i: x[:0]),
        sample(f32(3, 1), i64([-1, 2**32, 3]))
        .gives(lambda x, i: [x[2], [np.nan], [np.nan]])
        .kinked(),
    ],
    Topk: [
        sample(f32(2, 4), k=2).gives(
            lambda x: (-np.sort(-x, 1)[:, :2], np.argsort(-x, 1, kind="stable")[:, :2])
        ),
        sample(f64(3, 2), k=2, axis=0, largest=False).gives(
            lambda x: (np.sort(x, 0)[:2], np.argsort(x, 0)[:2])
        ),
        sample(i32([-(2**31), 5, 2**31 - 1]), k=2, largest=False).gives(
            lambda x: ([-(2**31), 5], [0, 1])
        ),
        sample(u8([3, 0, 200]), k=1, largest=False).gives(lambda x: ([0], [1])),
        sample(bf16(2, 3)),
    ],
    Accuracy: [
        sample(f32(3, 2), i64([[0, 1], [1, 2], [2, 0]]), i64([[1], [0], [2]])).gives(
            lambda x, i, label: (2 / 3, 2, 3)
        ),
        sample(f64(2, 1), i64([[0], [1]]), i32([0, 1])).gives(lambda x, i, label: (1, 2, 2)),
        sample(f32(0, 1), i64(0, 1), i64(0, 1)).gives(lambda x, i, label: (0, 0, 0)),
    ],
    FillRows: [
        sample(f32([[1.0, 2.0], [3.5, 4.0], [5.0, 6.5]]), flags([[False], [True], [True]])).gives(
            lambda x, m: x[[1, 1, 2]]
        ),
        sample(f64([0.5, 2.5, 4.5]), flags([True, False, True]), keep=False).gives(
            lambda x, m: x[[1, 1, 1]]
        ),
        sample(i64([[1, 2], [3, 4]]), flags([[False], [False]])).gives(lambda x, m: x[[0, 0]]),
        sample(f32([]).reshape(0, 2), flags([]).reshape(0, 1)).gives(lambda x, m: x),
    ],
}
