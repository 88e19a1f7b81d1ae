"""Samples of the ops that order, find and count elements."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import sort as ops
from graphopt_tests.ops.base import bf16, f32, f64, i32, i64, sample, u8

SAMPLES = {
    ops.Argsort: [
        sample(f32(2, 4)).gives(lambda x: (np.sort(x), np.argsort(x))),
        sample(f64(3, 2), axis=0, descending=True).gives(
            lambda x: (-np.sort(-x, 0), np.argsort(-x, 0))
        ),
        sample(i32([3, -(2**31), 3]), descending=True).gives(
            lambda x: ([3, 3, -(2**31)], [0, 2, 1])
        ),
        sample(f32()).gives(lambda x: (x, 0)),
        sample(bf16(2, 0)),
    ],
    ops.Kthvalue: [
        sample(f32(2, 4), k=2).gives(lambda x: (np.sort(x)[:, 1], np.argsort(x)[:, 1])),
        sample(i64([[3, 1, 2]]), k=3, axis=-1, keepdim=True).gives(lambda x: ([[3]], [[0]])),
    ],
    ops.Searchsorted: [
        sample(f32([1.0, 2.0, 2.0]), f32([[0.0, 2.0], [3.0, 1.5]])).gives(np.searchsorted),
        sample(i64([[1, 3], [2, 4]]), i64([[3], [3]]), out_int32=True, right=True).gives(
            lambda s, v: [[2], [1]]
        ),
        sample(f32([1.0, 3.0, 5.0]), f64([3.0, 4.0])).gives(lambda s, v: [1, 2]),
        sample(i64([1, 3, 5]), f32([3.0, 4.5])).gives(lambda s, v: [1, 2]),
    ],
    ops.Histogram: [
        sample(f32([1.0, 2.0, 1.0, 4.0]), bins=3).gives(lambda x: [2, 1, 1]),
        sample(i64([0, 1, 2, 3, 9]), bins=2, min=1.0, max=3.0).gives(lambda x: [1, 2]),
        sample(f32(0), bins=2).gives(lambda x: [0, 0]),
        sample(f64([3.0, 3.0]), bins=3).gives(lambda x: [0, 2, 0]),
        sample(f32([0.5, 1.0, 7.0]), bins=2, min=2.0, max=2.0).gives(lambda x: [2, 1]),
        sample(f32([0.5, 1.0, 1.5, 5.0]), bins=2, min=1.0, max=5.0, density=True)
        .gives(lambda x: [1 / 3, 1 / 6])
        .kinked(),
        sample(i64([0, 1, 2, 3]), i64([9, 1, 2, 5]), bins=2, min=1.0, max=3.0).gives(
            lambda x, w: [1, 7]
        ),
        sample(f32(0), f32(0), bins=2, density=True).gives(lambda x, w: [0, 0]),
    ],
    ops.Mode: [
        sample(f32([[2.0, 1.0, 2.0, 1.0], [3.0, 3.0, 0.0, 1.0]]))
        .gives(lambda x: ([1, 3], [3, 1]))
        .kinked(),
        sample(i64([[2], [2], [1]]), axis=0, keepdim=True).gives(lambda x: ([[2]], [[1]])),
    ],
    ops.Nanmedian: [
        sample(f32([[1.0, np.nan, 3.0], [4.0, 2.0, 9.0]]), axis=(1,))
        .gives(lambda x: [2, 4])
        .kinked(),
        sample(f64(2, 3, 2), axis=(0, -1), keepdim=True).gives(
            lambda x: np.median(x, (0, 2), keepdims=True)
        ),
        sample(f64(2, 2), mode="min").gives(lambda x: np.sort(x.ravel())[1]),
        sample(i64([1, 5, 2])).gives(lambda x: 2),
        sample(f32([np.nan])).gives(lambda x: np.nan).kinked(),
    ],
    ops.Topk: [
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
}
