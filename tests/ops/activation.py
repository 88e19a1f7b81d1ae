"""Samples of the activations."""

from __future__ import annotations

import math

import numpy as np

from graphopt.ir.dialect.ops import activation as ops
from graphopt_tests.ops.base import Array, bf16, f32, f64, sample


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def softmax(x: Array, axis: int = -1) -> Array:
    return np.exp(x) / np.exp(x).sum(axis, keepdims=True)


def elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(x))


erf = np.vectorize(math.erf)

SAMPLES = {
    ops.Relu: [
        sample(f32(2, 3)).gives(lambda x: np.maximum(x, 0)),
        sample(f32([-1.0, 0.0, np.inf, np.nan])).gives(lambda x: [0, 0, np.inf, 0]).kinked(),
        sample(f64()).gives(lambda x: np.maximum(x, 0)),
        sample(bf16(0, 3)),
    ],
    ops.Relu6: [sample(3 * f32(2, 3)).gives(lambda x: np.clip(x, 0, 6)), sample(f32())],
    ops.Gelu: [
        sample(f32(2, 3)).gives(lambda x: x * (1 + erf(x / 2**0.5)) / 2),
        sample(f32([-9.0, 9.0, 40.0])).gives(lambda x: [-1.0e-18, 9, 40]),
        sample(f32(4), approximate=True).gives(
            lambda x: x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))) / 2
        ),
    ],
    ops.Sigmoid: [
        sample(f32(2, 3)).gives(sigmoid),
        sample(f32([-200.0, 200.0])).gives(lambda x: x > 0),
    ],
    ops.Silu: [sample(f32(2, 3)).gives(lambda x: x * sigmoid(x)), sample(f64(2, 0))],
    ops.Tanh: [sample(f32(2, 3)).gives(np.tanh), sample(bf16(3)).gives(np.tanh)],
    ops.Hardsigmoid: [
        sample(f32(2, 3)).gives(lambda x: np.clip(x / 5 + 0.5, 0, 1)),
        sample(f32(4), slope=2.0, offset=-0.1).gives(lambda x: np.clip(2 * x - 0.1, 0, 1)),
    ],
    ops.Hardswish: [sample(2 * f32(2, 3)).gives(lambda x: x * np.clip(x + 3, 0, 6) / 6)],
    ops.LeakyRelu: [
        sample(f32(2, 3), negative_slope=0.1).gives(lambda x: np.where(x > 0, x, 0.1 * x)),
        sample(f64(4), negative_slope=3.0).gives(lambda x: np.where(x > 0, x, 3 * x)),
    ],
    ops.Elu: [
        sample(f32(2, 3)).gives(elu),
        sample(f64([-1.0, 800.0]), alpha=2.0).gives(lambda x: [2 * np.expm1(-1), 800]),
    ],
    ops.Selu: [
        sample(f32(2, 3)).gives(lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772)),
        sample(f64(3), scale=2.0, alpha=0.5).gives(lambda x: 2 * elu(x, 0.5)),
    ],
    ops.Celu: [
        sample(f32(2, 3), alpha=2.0).gives(lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)))
    ],
    ops.Softplus: [
        sample(f32(2, 3)).gives(lambda x: np.log1p(np.exp(x))),
        sample(f32([-300.0, 300.0]), beta=0.5).gives(lambda x: [0, 300]),
        sample(f64([1.5, -1.0]), beta=2.0, threshold=1.0).gives(
            lambda x: [1.5, np.log1p(np.exp(-2)) / 2]
        ),
    ],
    ops.Softsign: [sample(f32(2, 3)).gives(lambda x: x / (1 + abs(x)))],
    ops.Softshrink: [
        sample(f32(2, 3)).gives(lambda x: np.sign(x) * np.maximum(abs(x) - 0.5, 0)),
        sample(f64(3), threshold=0.1).gives(lambda x: x - 0.1 * np.sign(x)),
    ],
    ops.Hardshrink: [
        sample(f32(2, 3)).gives(lambda x: np.where(abs(x) > 0.5, x, 0)),
        sample(f32([1.0, -1.0, 1.5]), threshold=1.0).gives(lambda x: [0, 0, 1.5]).kinked(),
    ],
    ops.Hardtanh: [
        sample(f32(2, 3), t_min=-1.0, t_max=0.5).gives(lambda x: np.clip(x, -1, 0.5)),
        sample(f32(3)).gives(lambda x: np.maximum(x, 0)),
    ],
    ops.Tanhshrink: [sample(f32(2, 3)).gives(lambda x: x - np.tanh(x))],
    ops.LogSigmoid: [
        sample(f32(2, 3)).gives(lambda x: np.log(sigmoid(x))),
        sample(f32([-300.0, 300.0])).gives(lambda x: [-300, 0]),
    ],
    ops.Mish: [
        sample(f32(2, 3)).gives(lambda x: x * np.tanh(np.log1p(np.exp(x)))),
        sample(bf16(2)),
    ],
    ops.Swish: [
        sample(f32(2, 3)).gives(lambda x: x * sigmoid(x)),
        sample(f64(3), beta=2.0).gives(lambda x: x * sigmoid(2 * x)),
    ],
    ops.ThresholdedRelu: [
        sample(f32(2, 3)).gives(lambda x: np.where(x > 1, x, 0)),
        sample(f64([0.3, 0.4]), threshold=0.3).gives(lambda x: [0, 0.4]).kinked(),
        sample(f32([-2.0, 3.0]), value=0.5).gives(lambda x: [0.5, 3]),
    ],
    ops.Prelu: [
        sample(f32(2, 3), f32(1)).gives(lambda x, a: np.where(x > 0, x, a * x)),
        sample(f32(2, 3, 4), f32(3), mode="channel").gives(
            lambda x, a: np.where(x > 0, x, a[:, None] * x)
        ),
        sample(f64(2, 2, 3), f64(3), mode="channel", data_format="NHWC").gives(
            lambda x, a: np.where(x > 0, x, a * x)
        ),
        sample(f32(2, 3), f32(1, 3), mode="element").gives(lambda x, a: np.where(x > 0, x, a * x)),
    ],
    ops.Maxout: [
        sample(f32(2, 6, 2), groups=3).gives(lambda x: x.reshape(2, 2, 3, 2).max(2)),
        sample(f64(2, 4), groups=2, axis=-1).gives(lambda x: x.reshape(2, 2, 2).max(2)),
    ],
    ops.Softmax: [
        sample(f32(2, 3)).gives(softmax),
        sample(f32(2, 3, 2), axis=1).gives(lambda x: softmax(x, 1)),
        sample(f32([1000.0, 0.0, -1000.0])).gives(lambda x: np.exp([0, -64, -64])).kinked(),
        sample(f32([0.0, -np.inf])).gives(lambda x: np.exp([0, -64])).kinked(),
        sample(f32()).gives(lambda x: 1),
        sample(f32(0, 3)),
        sample(f32(3, 0)),
    ],
    ops.LogSoftmax: [
        sample(f32(2, 3)).gives(lambda x: np.log(softmax(x))),
        sample(f64(2, 3), axis=-2).gives(lambda x: np.log(softmax(x, 0))),
        sample(f32([1000.0, 0.0, -np.inf])).gives(lambda x: [0, -64, -64]).kinked(),
        sample(f32()).gives(lambda x: 0),
    ],
}
