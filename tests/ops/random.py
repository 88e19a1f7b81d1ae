"""Samples of the random ops; tests/ir/test_op_semantics.py checks their draws."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import random as ops
from graphopt_tests.ops.base import bf16, f32, f64, i64, sample

SAMPLES = {
    ops.Dropout: [
        sample(f32(2, 3)),
        sample(f64(2, 3), p=0.3, mode="upscale_in_train", rng_id=2),
        sample(f32(2, 3), p=0.25, is_test=True).gives(lambda x: 0.75 * x),
        sample(f32(2, 3), p=0.25, is_test=True, mode="upscale_in_train").gives(lambda x: x),
        sample(f32(2, 3), p=1.0, mode="upscale_in_train").gives(np.zeros_like),
        sample(f32(2, 3), p=0.0).gives(lambda x: x),
        sample(bf16(0), seed=3),
    ],
    ops.Uniform: [
        sample(shape=(2, 3)),
        sample(shape=(), dtype="float64", min=0.0, seed=1),
        sample(shape=(2,), dtype="bfloat16"),
    ],
    ops.Gaussian: [
        sample(shape=(2, 3), mean=1.0, std=0.0).gives(lambda: np.ones((2, 3))),
        sample(shape=(0,), dtype="float64"),
        sample(shape=(2,), dtype="float16"),
    ],
    ops.TruncatedGaussian: [
        sample(shape=(2, 3), std=0.1),
        sample(shape=(3,), mean=5.0, std=2.0, a=4.0, b=6.0),
        sample(shape=(2,), dtype="float64"),
        sample(shape=(2,), dtype="bfloat16", rng_id=1),
    ],
    ops.RandomIntegers: [
        sample(shape=(2, 3), dtype="int64", high=5),
        sample(shape=(2,), dtype="int32", low=3, high=4, seed=1).gives(lambda: [3, 3]),
    ],
    ops.Permutation: [sample(n=1).gives(lambda: [0]), sample(n=5, dtype="int32", seed=2)],
    ops.Bernoulli: [
        sample(f32([0.0, 1.0])).gives(lambda p: p).kinked(),
        sample(f64([0.5, 0.2]), seed=3).kinked(),
    ],
    ops.Multinomial: [
        sample(f32([0.0, 1.0]), num_samples=3, replacement=True).gives(lambda p: [1, 1, 1]),
        sample(f64([[0.5, 0.25, 0.25]]), num_samples=2, seed=1),
    ],
    ops.Poisson: [
        sample(f32([0.0, 0.0])).gives(lambda x: [0, 0]).kinked(),
        sample(f64([3.0]), seed=2).kinked(),
    ],
    ops.StandardGamma: [sample(abs(f64(2, 3)), seed=1).kinked()],
    ops.Binomial: [
        sample(i64([5, 3]), f32([0.0, 1.0])).gives(lambda n, p: [0, 3]),
        sample(i64([5]), f64([[0.5], [0.2]]), seed=1),
    ],
    ops.GumbelSoftmax: [
        sample(f64([[90.0, 0.0], [0.0, 90.0]]), hard=True).gives(lambda x: np.eye(2)).kinked(),
        sample(f64(2, 3), axis=0, temperature=0.5),
    ],
    ops.Rrelu: [
        sample(f64([-2.0, 3.0]), is_test=True, lower=0.1, upper=0.3)
        .gives(lambda x: ([-0.4, 3], [0.2, 0.2]))
        .gradient_through(0),
        sample(f64(2, 3), seed=4).gradient_through(0),
    ],
}
