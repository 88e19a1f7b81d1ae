"""Samples of the updates by rows: rows looked up twice, padding, rows that do not exist."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.ops.row_update import SgdRows
from graphopt_tests.ops.base import Array, f32, f64, i32, i64, sample
from graphopt_tests.ops.optimizer import LR


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


SAMPLES = {
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
