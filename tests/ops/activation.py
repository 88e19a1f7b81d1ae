"""Samples of the activations."""

from __future__ import annotations

import math

import numpy as np

from graphopt.ir.ops.activation import (
    Gelu,
    Hardsigmoid,
    Hardswish,
    LeakyRelu,
    LogSoftmax,
    Relu,
    Relu6,
    Sigmoid,
    Silu,
    Softmax,
    Tanh,
)
from graphopt_tests.ops.base import Array, bf16, f16, f32, f64, sample


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array, axis: int = -1) -> Array:
    return np.exp(x) / np.exp(x).sum(axis, keepdims=True)


erf = np.vectorize(math.erf)

SAMPLES = {
    Relu: [
        sample(f32(2, 3)).gives(lambda x: np.maximum(x, 0)),
        sample(f32([-1.0, 0.0, np.inf, np.nan])).gives(lambda x: [0, 0, np.inf, np.nan]).kinked(),
        sample(f64()).gives(lambda x: np.maximum(x, 0)),
        sample(bf16(0, 3)),
    ],
    Relu6: [sample(3 * f32(2, 3)).gives(lambda x: np.clip(x, 0, 6)), sample(f32())],
    Gelu: [
        sample(f32(2, 3)).gives(lambda x: x * (1 + erf(x / 2**0.5)) / 2),
        sample(f32([-9.0, 9.0, 40.0])).gives(lambda x: [-1.0e-18, 9, 40]),
        sample(f32(4), approximate=True).gives(
            lambda x: x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2
        ),
    ],
    Sigmoid: [
        sample(f32(2, 3)).gives(sigmoid),
        sample(f32([-200.0, 200.0])).gives(lambda x: x > 0),
    ],
    Silu: [sample(f32(2, 3)).gives(lambda x: x * sigmoid(x)), sample(f64(2, 0))],
    Tanh: [sample(f32(2, 3)).gives(np.tanh), sample(bf16(3)).gives(np.tanh)],
    Hardsigmoid: [
        sample(f32(2, 3)).gives(lambda x: np.clip(x / 5 + 0.5, 0, 1)),
        sample(f32(4), slope=2.0, offset=-0.1).gives(lambda x: np.clip(2 * x - 0.1, 0, 1)),
    ],
    Hardswish: [sample(2 * f32(2, 3)).gives(lambda x: x * np.clip(x + 3, 0, 6) / 6)],
    LeakyRelu: [
        sample(f32(2, 3), negative_slope=0.1).gives(lambda x: np.where(x > 0, x, 0.1 * x)),
        sample(f64(4), negative_slope=3.0).gives(lambda x: np.where(x > 0, x, 3 * x)),
    ],
    Softmax: [
        sample(f32(2, 3)).gives(softmax),
        sample(f32(2, 3, 2), axis=1).gives(lambda x: softmax(x, 1)),
        sample(f32([1000.0, 0.0, -1000.0])).gives(lambda x: [1, 0, 0]),
        sample(f32()).gives(lambda x: 1),
        sample(f32(0, 3)),
        sample(f32(3, 0)),
    ],
    LogSoftmax: [
        sample(f32(2, 3)).gives(lambda x: np.log(softmax(x))),
        sample(f64(2, 3), axis=-2).gives(lambda x: np.log(softmax(x, 0))),
        sample(f32([1000.0, 0.0])).gives(lambda x: [0, -1000]),
        sample(f32()).gives(lambda x: 0),
    ],
}
