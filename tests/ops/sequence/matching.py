"""Samples of matching matrices of two sequences, and of sequences selected by a tag."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.sequence.matching import FilterByInstag, MatchMatrixTensor
from graphopt_tests.ops.base import Array, f32, f64, i64, sample


def matched(x: Array, _: Array, y: Array, __: Array, w: Array) -> tuple[Array, ...]:
    """Match sequences of 2 and 1 rows with sequences of 1 and 3 rows."""
    first = np.einsum("kd,dce,le->ckl", x[:2], w, y[:1]).reshape(-1, 1)
    second = np.einsum("kd,dce,le->ckl", x[2:], w, y[1:]).reshape(-1, 1)
    products = np.einsum("kd,dce->kce", x, w).reshape(len(x), -1)
    return np.concatenate([first, second]), np.array([4, 6]), products


SAMPLES = {
    MatchMatrixTensor: [
        sample(f64(3, 2), i64([2, 1]), f64(4, 3), i64([1, 3]), f64(2, 2, 3)).gives(matched),
        sample(f32(0, 2), i64(0), f32(0, 2), i64(0), f32(2, 1, 2)),
    ],
    FilterByInstag: [
        sample(
            *(f64(5, 2), i64([[1], [2], [3], [1]]), i64([2, 1, 1]), i64([1]), i64([2, 1, 2])),
        ).gives(
            lambda x, *_: (
                x[[0, 1, 3, 4]],
                np.ones((2, 1)),
                np.array([[0, 0, 2], [2, 3, 2]]),
                np.array([2, 2]),
            )
        ),
        sample(
            *(f32(3, 2), i64([[1], [2], [3], [4]]), i64([1, 2, 1]), i64([3, 9]), None),
        ).gives(lambda x, *_: (x[1:2], np.ones((1, 1)), np.array([[0, 1, 1]]), np.array([1]))),
        sample(
            *(f32(2, 2), i64([[1], [2]]), i64([1, 1]), i64([3]), None),
            out_val_if_empty=7.0,
        ).gives(
            lambda *_: (
                np.full((1, 2), 7.0),
                np.zeros((1, 1)),
                np.array([[0, 1, 1]]),
                np.array([1]),
            )
        ),
    ],
}
