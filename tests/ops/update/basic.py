"""Samples of the parameter updates, at the third step of a training."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.update.basic import Adam, Adamw, Momentum, Sgd
from graphopt_tests.ops.base import Array, bf16, f32, f64, sample

LR = f32([0.1])


def adam(
    p: Array, g: Array, lr: Array, m: Array, v: Array, b1: Array, b2: Array, decay: float = 0
) -> tuple[Any, ...]:
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    root = np.sqrt(1 - b2)
    p = p * (1 - lr * decay) - lr * root / (1 - b1) * m / (np.sqrt(v) + 1e-8 * root)
    return p, m, v, b1 * 0.9, b2 * 0.999


def adam_of_1_8(p: Array, g: Array, lr: Array, *state: Array) -> tuple[Any, ...]:
    m1, m2, b1, b2 = state
    m1, m2 = 0.9 * m1 + 0.1 * g, 0.999 * m2 + 0.001 * g * g
    rate = lr * np.sqrt(1 - b2) / (1 - b1)
    return p - rate * m1 / (np.sqrt(m2) + 0.5), m1, m2, b1 * 0.9, b2 * 0.999


def amsgrad(p: Array, g: Array, lr: Array, *state: Array) -> tuple[Any, ...]:
    m, v, b1, b2, largest = state
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    largest, root = np.maximum(v, largest), np.sqrt(1 - b2)
    p = p - lr * root / (1 - b1) * m / (np.sqrt(largest) + 1e-8 * root)
    return p, m, v, b1 * 0.9, b2 * 0.999, largest


def powers() -> tuple[Array, Array]:
    return f32([0.9**3]), f32([0.999**3])


SAMPLES = {
    Sgd: [
        sample(f32(2, 3), f32(2, 3), LR).gives(lambda p, g, lr: p - lr * g),
        sample(f64(3), f64(3), f64([0.1]).reshape(())).gives(lambda p, g, lr: p - lr * g),
        sample(bf16(3), bf16(3), LR).gives(lambda p, g, lr: p - lr * g),
    ],
    Momentum: [
        sample(f32(3), f32(3), f32(3), LR, mu=0.9).gives(
            lambda p, g, v, lr: (p - lr * (0.9 * v + g), 0.9 * v + g)
        ),
        sample(f32(3), f32(3), f32(3), LR, mu=0.9, use_nesterov=True).gives(
            lambda p, g, v, lr: (p - lr * (g + 0.9 * (0.9 * v + g)), 0.9 * v + g)
        ),
        sample(
            *(f64(3), f64(3), f64(3), LR),
            mu=0.5,
            regularization_method="l2_decay",
            regularization_coeff=0.1,
        ).gives(lambda p, g, v, lr: (p - lr * (w := 0.5 * v + g + 0.1 * p), w)),
    ],
    Adam: [
        sample(f32(2, 3), f32(2, 3), LR, f32(2, 3), abs(f32(2, 3)), *powers()).gives(adam),
        sample(f64(3), f64(3), f64([0.1]), f64(3), abs(f64(3)), f64([0.5]), f64([0.5])).gives(adam),
        sample(bf16(3), bf16(3), LR, f32(3), abs(f32(3)), *powers()).gives(adam),
        sample(
            *(f32(3), f32(3), LR, f32(3), abs(f32(3)), *powers()),
            uncorrected_epsilon=True,
            epsilon=0.5,
        ).gives(adam_of_1_8),
        sample(
            *(f32(3), f32(3), LR, f32(3), abs(f32(3)), *powers(), abs(f32(3))), amsgrad=True
        ).gives(amsgrad),
    ],
    Adamw: [
        sample(f32(3), f32(3), LR, f32(3), abs(f32(3)), *powers(), coeff=0.1).gives(
            lambda *a: adam(*a, decay=0.1)
        ),
        sample(f32(3), f32(3), LR, f32(3), abs(f32(3)), *powers(), with_decay=False).gives(adam),
        sample(f32(3), f32(3), LR, f32(3), abs(f32(3)), *powers(), lr_ratio=0.5).gives(
            lambda p, g, lr, *state: adam(p, g, 0.5 * lr, *state, decay=0.01)
        ),
    ],
}
