"""Samples of the reductions and of running results."""

from __future__ import annotations

from math import nan

import numpy as np

from graphopt.ir.dialect.ops import reduce as ops
from graphopt_tests.ops.base import bf16, f16, f32, f64, flags, i32, i64, sample, u8

SAMPLES = {
    ops.Mean: [
        sample(f32(2, 3)).gives(np.mean),
        sample(f32(2, 3, 4), axis=(0, -1), keepdim=True).gives(
            lambda x: x.mean((0, 2), keepdims=True)
        ),
        sample(f64()).gives(np.mean),
        sample(bf16(5000) * 0 + 1).gives(lambda x: 1),
    ],
    ops.Sum: [
        sample(f32(2, 3), axis=(1,)).gives(lambda x: x.sum(1)),
        sample(i32([2**30] * 4)).gives(lambda x: 2**32),
        sample(flags(4)).gives(np.sum),
        sample(u8(3)),
        sample(f16(2, 3), dtype="float32").gives(lambda x: x.sum(dtype="float32")),
        sample(f32(0, 3), axis=(0,)).gives(lambda x: x.sum(0)),
        sample(f32(2, 3), axis=(-1, 0), keepdim=True).gives(lambda x: x.sum(keepdims=True)),
    ],
    ops.Max: [
        sample(f32(2, 3)).gives(np.max),
        sample(i64(2, 3), axis=(-1,), keepdim=True).gives(lambda x: x.max(1, keepdims=True)),
        sample(f32(0, 3), axis=(1,)),
    ],
    ops.Min: [
        sample(f32(2, 3), axis=(0,)).gives(lambda x: x.min(0)),
        sample(flags(3)).gives(np.min),
    ],
    ops.Prod: [
        sample(f32(2, 3), axis=(1,)).gives(lambda x: x.prod(1)),
        sample(f64([2.0, 0.0, 3.0])).gives(np.prod),
        sample(i32(2, 3)).gives(np.prod),
    ],
    ops.Argmax: [
        sample(f32(2, 3)).gives(lambda x: x.argmax(-1)),
        sample(f32([1.0, 3.0, 3.0])).gives(lambda x: 1),
        sample(i64(2, 3), axis=0, keepdim=True, dtype="int32").gives(
            lambda x: x.argmax(0, keepdims=True)
        ),
        sample(f64(2, 3), flatten=True).gives(np.argmax),
        sample(f32(2, 3), flatten=True, keepdim=True).gives(lambda x: [[x.argmax()]]),
        # NaN is skipped, and alone it is the first
        sample(f32([[nan, 1.0], [2.0, nan], [nan, nan]])).gives(lambda x: [1, 0, 0]),
    ],
    ops.Argmin: [
        sample(f32(2, 3)).gives(lambda x: x.argmin(-1)),
        sample(i64([3, 1, 1]), flatten=True, dtype="int32").gives(lambda x: 1),
        sample(f64([nan, 1.0, 0.5])).gives(lambda x: 2),
        sample(f64(2, 3), axis=0, keepdim=True).gives(lambda x: x.argmin(0, keepdims=True)),
    ],
    ops.Amax: [
        sample(f32(2, 3), axis=(0,)).gives(lambda x: x.max(0)),
        sample(i32(2, 3)).gives(np.max),
    ],
    ops.Amin: [sample(f32(2, 3), axis=(1,), keepdim=True).gives(lambda x: x.min(1, keepdims=True))],
    ops.All: [
        sample(flags(2, 3), axis=(0,)).gives(lambda x: x.all(0)),
        sample(i64([1, 2])).gives(np.all),
        sample(flags(0)).gives(np.all),
    ],
    ops.Any: [
        sample(flags(2, 3), axis=(1,), keepdim=True).gives(lambda x: x.any(1, keepdims=True)),
        sample(f32([0.0, 0.0])).gives(lambda x: False),
        sample(flags(0, 3), axis=(0,)).gives(lambda x: x.any(0)),
    ],
    ops.Logsumexp: [
        sample(f32(2, 3), axis=(1,)).gives(lambda x: np.log(np.exp(x).sum(1))),
        sample(f32([1000.0, 1000.0])).gives(lambda x: 1000 + np.log(2)),
        sample(f64(2, 3), axis=(0, 1), keepdim=True).gives(lambda x: [[np.log(np.exp(x).sum())]]),
    ],
    ops.PNorm: [
        sample(f32(2, 3), axis=(1,)).gives(lambda x: np.linalg.norm(x, axis=1)),
        sample(f32(2, 3), porder=3.0, keepdim=True).gives(
            lambda x: [[np.sum(abs(x) ** 3) ** (1 / 3)]]
        ),
        sample(f64(2, 3), axis=(0,), porder=1.0).gives(lambda x: abs(x).sum(0)),
        sample(f32(2, 3), axis=(0,), porder=1.5).gives(
            lambda x: np.sum(abs(x) ** 1.5, 0) ** (2 / 3)
        ),
        sample(f32(2, 3), porder=np.inf).gives(lambda x: abs(x).max()),
        sample(f32(2, 3), porder=-np.inf, axis=(-1,)).gives(lambda x: abs(x).min(1)),
        sample(f32([0.0, 3.0]), porder=0.0).gives(lambda x: 1).kinked(),
        sample(f32([0.0, 0.0])).gives(lambda x: 0).kinked(),
    ],
    ops.SquaredL2Norm: [sample(f32(2, 3)).gives(lambda x: [np.sum(x**2)])],
    ops.ClipByNorm: [
        sample(f32(2, 3), max_norm=0.5).gives(lambda x: x / np.linalg.norm(x) / 2),
        sample(f32(2), max_norm=50.0).gives(lambda x: x),
        sample(f32([0.0, 0.0]), max_norm=1.0).gives(lambda x: x).kinked(),
    ],
    ops.ReduceAs: [
        sample(f32(2, 3), f32(1, 3)).gives(lambda x, _: x.sum(0, keepdims=True)),
        sample(f32(2, 3), f32(3)).gives(lambda x, _: x.sum(0)),
        sample(i32(2, 3), i32(2, 1)).gives(lambda x, _: x.sum(1, keepdims=True)),
        sample(f64(2, 3), f64(2, 3)).gives(lambda x, _: x),
    ],
    ops.Numel: [sample(f32(2, 3)).gives(lambda x: 6), sample(i32()).gives(lambda x: 1)],
    ops.Cumsum: [
        sample(f32(2, 3)).gives(lambda x: np.cumsum(x, -1)),
        sample(f32(256, 3)).gives(lambda x: np.cumsum(x, -1)),
        sample(i32(2, 3), axis=0).gives(lambda x: np.cumsum(x, 0)),
        sample(f64(2, 3), flatten=True).gives(np.cumsum),
        sample(f32(2, 4), exclusive=True).gives(lambda x: np.cumsum(x, 1) - x),
        sample(f32(4), reverse=True).gives(lambda x: np.cumsum(x[::-1])[::-1]),
        sample(i64([1, 2, 4]), exclusive=True, reverse=True).gives(lambda x: [6, 4, 0]),
        sample(f32(0, 2), axis=0, exclusive=True),
        sample(f32(), flatten=True).gives(lambda x: x.reshape(1)),
    ],
    ops.Cumprod: [
        sample(f32(2, 3), axis=-1).gives(lambda x: np.cumprod(x, 1)),
        sample(i64(2, 3), axis=0).gives(lambda x: np.cumprod(x, 0)),
        sample(f64([2.0, 0.0, 3.0]), axis=0).gives(np.cumprod),
        sample(f64([2.0, 0.0, 3.0]), axis=0, exclusive=True).gives(lambda x: [1, 2, 0]),
        sample(f32([[2.0, 4.0, 3.0]]), axis=1, reverse=True).gives(lambda x: [[24, 12, 3]]),
        sample(f32([[2.0, 4.0, 3.0]]), axis=-1, exclusive=True, reverse=True).gives(
            lambda x: [[12, 3, 1]]
        ),
    ],
    ops.Logcumsumexp: [
        sample(f32(2, 3)).gives(lambda x: np.logaddexp.accumulate(x, -1)),
        sample(f64(2, 3), flatten=True).gives(lambda x: np.logaddexp.accumulate(x.ravel())),
        sample(f64(3, 2), axis=0, reverse=True).gives(
            lambda x: np.logaddexp.accumulate(x[::-1], 0)[::-1]
        ),
        sample(f32([1.0, 2.0]), exclusive=True).gives(lambda x: [-np.inf, 1]).kinked(),
        sample(bf16(2, 3)),
    ],
    ops.Cummax: [
        sample(f32([[3.0, 1.0, 4.0], [2.0, 6.0, 5.0]])).gives(
            lambda x: (np.maximum.accumulate(x, -1), [[0, 0, 2], [0, 1, 1]])
        ),
        sample(i64([1, 1, 0]), axis=0, dtype="int32").gives(lambda x: ([1, 1, 1], [0, 1, 1])),
        sample(f64([1.0, np.nan, 2.0]), axis=0)
        .gives(lambda x: ([1, np.nan, np.nan], [0, 1, 1]))
        .kinked(),
    ],
    ops.Cummin: [
        sample(f64([[3.0, 1.0, 4.0], [2.0, 6.0, 5.0]]), axis=-2).gives(
            lambda x: (np.minimum.accumulate(x, 0), [[0, 0, 0], [1, 0, 0]])
        ),
    ],
}
