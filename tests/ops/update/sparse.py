"""Samples of updates from sparse gradients: rows looked up twice, padding, absent rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.update import sparse as ops
from graphopt_tests.ops.base import Array, bf16, f32, f64, i32, i64, sample
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


def dense(param: Array, ids: list[Array], grads: list[Array], padding: tuple[int, ...]) -> Array:
    """Build the gradient of the whole table."""
    whole = np.zeros_like(param)
    for numbers, grad, pad in zip(ids, grads, padding, strict=True):
        rows = grad.reshape(-1, param.shape[1])
        for number, row in zip(numbers.reshape(-1), rows, strict=True):
            if number not in (pad, len(param)) or number == -1:
                whole[number] += row
    return whole


def sgd_rows(*padding: int) -> Any:
    return lambda p, lr, ids, grads: p - lr * dense(p, ids, grads, padding)


def adagrad_rows(p: Array, lr: Array, m: Array, ids: Any, grads: Any) -> tuple[Any, ...]:
    g = dense(p, ids, grads, (-1,))
    return p - lr * g / (np.sqrt(m + g**2) + 1e-6), m + g**2


def by_rows(rule: Any, *padding: int) -> Any:
    """Build the update of a whole table, with the gradient and the counts of some lookups."""

    def found(p: Array, lr: Array, *state_and_lookups: Any) -> tuple[Any, ...]:
        *state, ids, grads = state_and_lookups
        ones = [np.ones_like(grad) for grad in grads]
        counts = dense(p, ids, ones, padding)
        return rule(p, dense(p, ids, grads, padding), lr, *state, counts)

    return found


def adam_state() -> tuple[Array, ...]:
    return f32(4, 2), abs(f32(4, 2)), *powers()


SAMPLES = {
    ops.SparseAdam: [
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
    ops.SparseAdamw: [
        sample(f32(2, 3), f32(2, 3), LR, f32(2, 3), abs(f32(2, 3)), *powers(), COUNTS, coeff=0.1)
        .gives(sparse_adamw)
        .kinked(),
        sample(f32(3), f32(3), LR, f32(3), abs(f32(3)), *powers(), None, coeff=0.1).gives(
            sparse_adamw
        ),
    ],
    ops.AdagradRows: [
        sample(f32(4, 2), LR, abs(f32(4, 2)), [i64([2, 0, 2])], [f32(3, 2)], padding=(-1,)).gives(
            adagrad_rows
        ),
    ],
    ops.AdamRows: [
        sample(f32(4, 2), LR, *adam_state(), [i64([2, 0, 2])], [f32(3, 2)], padding=(-1,)).gives(
            by_rows(sparse_adam, -1)
        ),
        # a row that is looked up twice by other numbers, padding, and a row that does not exist
        sample(
            *(f32(4, 2), LR, *adam_state()),
            *([i64([1, 4]), i64([[3, -1, 0]])], [f32(2, 2), f32(1, 3, 2)]),
            padding=(-1, 0),
        )
        .gives(by_rows(sparse_adam, -1, 0))
        .kinked(),
    ],
    ops.AdamwRows: [
        sample(
            *(f32(4, 2), LR, *adam_state(), [i32([[2], [0], [2]])], [f32(3, 1, 2)]),
            padding=(-1,),
            coeff=0.1,
        ).gives(by_rows(sparse_adamw, -1)),
    ],
    ops.SgdRows: [
        sample(f32(4, 2), LR, [i64([2, 0, 2])], [f32(3, 2)], padding=(-1,)).gives(sgd_rows(-1)),
        sample(f64(4, 2), f64([0.1]), [i32([[1], [3]])], [f64(2, 1, 2)], padding=(3,)).gives(
            sgd_rows(3)
        ),
        sample(
            f32(4, 3), LR, [i64([1, 4]), i64([[1, -1]])], [f32(2, 3), f32(1, 2, 3)], padding=(-1, 1)
        )
        .gives(sgd_rows(-1, 1))
        .kinked(),
    ],
}
