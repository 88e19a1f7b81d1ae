"""Samples of the reductions."""

from __future__ import annotations

import numpy as np

from graphopt.ir.ops.reduce import Argmax, Max, Mean, Min, Prod, Sum
from graphopt_tests.ops.base import bf16, f16, f32, f64, flags, i32, i64, sample, u8

SAMPLES = {
    Mean: [
        sample(f32(2, 3)).gives(np.mean),
        sample(f32(2, 3, 4), axis=(0, -1), keepdim=True).gives(
            lambda x: x.mean((0, 2), keepdims=True)
        ),
        sample(f64()).gives(np.mean),
        sample(bf16(5000) * 0 + 1).gives(lambda x: 1),
    ],
    Sum: [
        sample(f32(2, 3), axis=(1,)).gives(lambda x: x.sum(1)),
        sample(i32([2**30] * 4)).gives(lambda x: 2**32),
        sample(flags(4)).gives(np.sum),
        sample(u8(3)),
        sample(f16(2, 3), dtype="float32").gives(lambda x: x.sum(dtype="float32")),
        sample(f32(0, 3), axis=(0,)).gives(lambda x: x.sum(0)),
        sample(f32(2, 3), axis=(-1, 0), keepdim=True).gives(lambda x: x.sum(keepdims=True)),
    ],
    Max: [
        sample(f32(2, 3)).gives(np.max),
        sample(i64(2, 3), axis=(-1,), keepdim=True).gives(lambda x: x.max(1, keepdims=True)),
        sample(f32(0, 3), axis=(1,)),
    ],
    Min: [sample(f32(2, 3), axis=(0,)).gives(lambda x: x.min(0)), sample(flags(3)).gives(np.min)],
    Prod: [
        sample(f32(2, 3), axis=(1,)).gives(lambda x: x.prod(1)),
        sample(f64([2.0, 0.0, 3.0])).gives(np.prod),
        sample(i32(2, 3)).gives(np.prod),
    ],
    Argmax: [
        sample(f32(2, 3)).gives(lambda x: x.argmax(-1)),
        sample(f32([1.0, 3.0, 3.0])).gives(lambda x: 1),
        sample(i64(2, 3), axis=0, keepdim=True, dtype="int32").gives(
            lambda x: x.argmax(0, keepdims=True)
        ),
        sample(f64(2, 3), flatten=True).gives(np.argmax),
        sample(f32(2, 3), flatten=True, keepdim=True).gives(lambda x: [[x.argmax()]]),
    ],
}
