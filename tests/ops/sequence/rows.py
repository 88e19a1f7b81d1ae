"""Samples of the ops that join, cut, repeat and reorder sequences."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.sequence.rows import (
    SequenceAlign,
    SequenceConcat,
    SequenceEditDistance,
    SequenceEnumerate,
    SequenceErase,
    SequenceReorder,
    SequenceRepeat,
    SequenceReshape,
    SequenceScatter,
    SequenceSlice,
)
from graphopt_tests.ops.base import bf16, f32, f64, i32, i64, sample

LENGTHS = [2, 0, 3]


SAMPLES = {
    SequenceConcat: [
        sample([f32(5, 2), f32(4, 2)], [i64(LENGTHS), i64([1, 2, 1])]).gives(
            lambda xs, ns: np.concatenate([xs[0][:2], xs[1][:1], xs[1][1:3], xs[0][2:], xs[1][3:]])
        ),
        sample([f64(5)], [i32(LENGTHS)]).gives(lambda xs, ns: xs[0]),
        sample([bf16(2, 1), bf16(0, 1)], [i64([0, 2]), i64([0, 0])]).gives(lambda xs, ns: xs[0]),
    ],
    SequenceRepeat: [
        sample(f32(5, 2), i64(LENGTHS), i64([2, 3, 1])).gives(
            lambda x, n, c: (x[[0, 1, 0, 1, 2, 3, 4]], [2, 2, 0, 0, 0, 3])
        ),
        sample(f64(5), i64(LENGTHS), i32([0, 1, 0])).gives(lambda x, n, c: (x[:0], [0])),
    ],
    SequenceReshape: [
        sample(f32(6, 2), i64([2, 0, 4]), new_dim=4).gives(
            lambda x, n: (x.reshape(3, 4), [1, 0, 2])
        ),
    ],
    SequenceScatter: [
        sample(f32(3, 4), i64([[1], [1], [0], [3], [2]]), f32(5, 1), i64(LENGTHS)).gives(
            lambda x, i, u, n: np.add(
                x, [[0, u[0, 0] + u[1, 0], 0, 0], [0] * 4, [u[2, 0], 0, u[4, 0], u[3, 0]]]
            )
        ),
        sample(f64(1, 2), i32([1]), f64(1), i64([1])),
    ],
    SequenceEnumerate: [
        sample(i64(5, 1), i64(LENGTHS), win_size=2, pad_value=9).gives(
            lambda x, n: np.stack([x[:, 0], [x[1, 0], 9, x[3, 0], x[4, 0], 9]], 1)
        ),
        sample(i32(0), i64([0]), win_size=3).gives(lambda x, n: np.zeros((0, 3))),
    ],
    SequenceSlice: [
        sample(f32(5, 2), i64(LENGTHS), i64([1, 0, 0]), i64([1, 0, 2])).gives(
            lambda x, n, o, m: x[1:4]
        ),
    ],
    SequenceErase: [
        sample(i64([[1], [2], [3], [2], [2]]), i64(LENGTHS), tokens=(2, 7)).gives(
            lambda x, n: ([[1], [3]], [1, 0, 1])
        ),
    ],
    SequenceAlign: [
        sample(i64([[0], [2], [2], [2], [1]]), i64(LENGTHS)).gives(
            lambda x, n: ([[2], [2], [1]], [1, 0, 2])
        ),
        sample(i64([[2], [2], [3]]), i64([1, 2]), blank=3, merge_repeated=False).gives(
            lambda x, n: ([[2], [2]], [1, 1])
        ),
        sample(i32([4, 4]), i64([2]), blank=4).gives(lambda x, n: ([-1], [0])),
    ],
    SequenceEditDistance: [
        # ab -> b, nothing -> cc, abc -> xaby
        sample(
            i64([[1], [2], [1], [2], [3]]),
            i64([[2], [3], [3], [7], [1], [2], [8]]),
            i64(LENGTHS),
            i64([1, 2, 4]),
        ).gives(lambda h, r, m, n: ([[1], [2], [2]], [3])),
        sample(i64([4, 5]), i64([5, 5, 5, 4]), i64([2]), i64([4]), normalized=True).gives(
            lambda h, r, m, n: ([[0.75]], [1])
        ),
    ],
    SequenceReorder: [
        sample(f32(5, 2), i64(LENGTHS), i64([2, 0, 1])).gives(lambda x, n, o: x[[2, 3, 4, 0, 1]]),
        sample(f64(0, 2), i64([0]), i64([0])).gives(lambda x, n, o: x),
    ],
}
