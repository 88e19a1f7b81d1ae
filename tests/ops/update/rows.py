"""Samples of the updates by rows: rows looked up twice, padding, rows that do not exist."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.update.rows import AdagradRows, AdamRows, AdamwRows, SgdRows
from graphopt_tests.ops.base import Array, f32, f64, i32, i64, sample
from graphopt_tests.ops.update.basic import LR, powers
from graphopt_tests.ops.update.sparse import sparse_adam, sparse_adamw


def dense(param: Array, ids: list[Array], grads: list[Array], padding: tuple[int, ...]) -> Array:
    """The gradient of the whole table."""
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
    """The update of a whole table, with the gradient and the counts of some lookups."""

    def found(p: Array, lr: Array, *state_and_lookups: Any) -> tuple[Any, ...]:
        *state, ids, grads = state_and_lookups
        ones = [np.ones_like(grad) for grad in grads]
        counts = dense(p, ids, ones, padding)
        return rule(p, dense(p, ids, grads, padding), lr, *state, counts)

    return found


def adam_state() -> tuple[Array, ...]:
    return f32(4, 2), abs(f32(4, 2)), *powers()


SAMPLES = {
    AdagradRows: [
        sample(f32(4, 2), LR, abs(f32(4, 2)), [i64([2, 0, 2])], [f32(3, 2)], padding=(-1,)).gives(
            adagrad_rows
        ),
    ],
    AdamRows: [
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
    AdamwRows: [
        sample(
            *(f32(4, 2), LR, *adam_state(), [i32([[2], [0], [2]])], [f32(3, 1, 2)]),
            padding=(-1,),
            coeff=0.1,
        ).gives(by_rows(sparse_adamw, -1)),
    ],
    SgdRows: [
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
