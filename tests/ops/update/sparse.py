"""Samples of Adam and AdamW from sparse gradients: all rows move, or those looked up."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.update.sparse import SparseAdam, SparseAdamw
from graphopt_tests.ops.base import Array, bf16, f32, f64, sample
from graphopt_tests.ops.update.basic import LR, adam, powers


def _where(counts: Array | None, new: tuple[Any, ...], *old: Array) -> tuple[Any, ...]:
    if counts is None:
        return new
    return *(np.where(counts > 0, n, o) for n, o in zip(new, old, strict=False)), *new[3:]


def sparse_adam(
    p: Array, g: Array, lr: Array, m: Array, v: Array, b1: Array, b2: Array, counts: Any
) -> tuple[Any, ...]:
    b1, b2 = b1 * 0.9, b2 * 0.999
    new = *adam(p, g, lr, m, v, b1, b2)[:3], b1, b2
    return _where(counts, new, p, m, v)


def sparse_adamw(
    p: Array, g: Array, lr: Array, m: Array, v: Array, b1: Array, b2: Array, counts: Any
) -> tuple[Any, ...]:
    return _where(counts, adam(p, g, lr, m, v, b1, b2, 0.1), p, m, v)


# the first row was looked up twice, the second one not at all
COUNTS = np.array([[2.0], [0.0]], "float32") * np.ones((2, 3), "float32")


SAMPLES = {
    SparseAdam: [
        sample(f32(2, 3), f32(2, 3), LR, f32(2, 3), abs(f32(2, 3)), *powers(), None).gives(
            sparse_adam
        ),
        sample(f32(2, 3), f32(2, 3), LR, f32(2, 3), abs(f32(2, 3)), *powers(), COUNTS)
        .gives(sparse_adam)
        .kinked(),
        sample(
            *(f64(3), f64(3), f64([0.1]), f64(3), abs(f64(3)), f64([0.5]), f64([0.5]), None)
        ).gives(sparse_adam),
        sample(bf16(3), bf16(3), LR, f32(3), abs(f32(3)), *powers(), None).gives(sparse_adam),
    ],
    SparseAdamw: [
        sample(f32(2, 3), f32(2, 3), LR, f32(2, 3), abs(f32(2, 3)), *powers(), COUNTS, coeff=0.1)
        .gives(sparse_adamw)
        .kinked(),
        sample(f32(3), f32(3), LR, f32(3), abs(f32(3)), *powers(), None, coeff=0.1).gives(
            sparse_adamw
        ),
    ],
}
