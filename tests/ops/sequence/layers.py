"""Samples of the layers over sequences."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.sequence import layers as ops
from graphopt_tests.ops.base import Array, bf16, f32, f64, i32, i64, sample

LENGTHS = [2, 0, 3]


def parts(x: Array) -> list[Array]:
    """Split rows into the sequences."""
    return [x[:2], x[2:2], x[2:]]


SAMPLES = {
    ops.SequencePool: [
        sample(f32(5, 2), i64(LENGTHS), pooltype="SUM", pad_value=0.5).gives(
            lambda x, n: [x[:2].sum(0), [0.5, 0.5], x[2:].sum(0)]
        ),
        sample(f64(5, 2), i32(LENGTHS)).gives(lambda x, n: [x[:2].mean(0), [0, 0], x[2:].mean(0)]),
        sample(f64(5, 2), i64(LENGTHS), pooltype="SQRT").gives(
            lambda x, n: [x[:2].sum(0) / 2**0.5, [0, 0], x[2:].sum(0) / 3**0.5]
        ),
        sample(f32(5, 2), i64(LENGTHS), pooltype="MAX").gives(
            lambda x, n: [x[:2].max(0), [0, 0], x[2:].max(0)]
        ),
        sample(bf16(5, 2), i64(LENGTHS), pooltype="LAST").gives(lambda x, n: [x[1], [0, 0], x[4]]),
        sample(f32(5, 2), i64(LENGTHS), pooltype="FIRST").gives(lambda x, n: [x[0], [0, 0], x[2]]),
        sample(f32(0, 2), i64([0, 0]), pooltype="MAX", pad_value=0.5).gives(
            lambda x, n: np.full((2, 2), 0.5)
        ),
        sample(f64(3), i64([1, 2]), pooltype="LAST").gives(lambda x, n: [x[0], x[2]]),
    ],
    ops.SequenceConv: [
        sample(f32(5, 2), i64(LENGTHS), f32(6, 3), context_length=3, context_start=-1).gives(
            lambda x, n, w: np.concatenate(
                [
                    np.concatenate(
                        [np.pad(p, ((1, 1), (0, 0)))[i : i + len(p)] for i in range(3)], 1
                    )
                    @ w
                    for p in parts(x)
                ]
            )
        ),
        sample(f64(5, 2), i64(LENGTHS), f64(4, 3), context_length=2, context_start=1),
        sample(
            *(f32(5, 2), i64(LENGTHS), f32(6, 3), f32(2, 2)), context_length=3, context_start=-1
        ).gives(
            lambda x, n, w, around: np.concatenate(
                [
                    np.concatenate(
                        [np.vstack([around[:1], p, around[1:]])[i : i + len(p)] for i in range(3)],
                        1,
                    )
                    @ w
                    for p in parts(x)
                ]
            )
        ),
        sample(f64(5, 2), i64(LENGTHS), f64(4, 3), f64(2, 2), context_length=2, context_start=1),
        # a context longer than the sequences
        sample(
            f64(5, 1), i64([1, 3, 1]), f64(6, 2), f64(5, 1), context_length=6, context_start=-3
        ).gives(
            lambda x, n, w, around: np.concatenate(
                [
                    np.stack(
                        [np.vstack([around[:3], p, around[3:]])[i : i + 6, 0] for i in range(k)]
                    )
                    @ w
                    for k, p in ((1, x[:1]), (3, x[1:4]), (1, x[4:]))
                ]
            )
        ),
        sample(f32(0, 2), i64(0), f32(6, 3), f32(2, 2), context_length=3, context_start=-1),
    ],
    ops.SequenceRowConv: [
        sample(f32(5, 2), i64(LENGTHS), f32(2, 2)).gives(
            lambda x, n, w: np.concatenate(
                [p * w[0] + np.pad(p, ((0, 1), (0, 0)))[1:] * w[1] for p in parts(x)]
            )
        ),
        sample(bf16(2, 1), i32([2]), bf16(4, 1)),
        sample(f32(0, 2), i64(0), f32(3, 2)),
    ],
    ops.SequenceSoftmax: [
        sample(f32(5, 1), i64(LENGTHS)).gives(
            lambda x, n: np.concatenate([np.exp(p) / np.exp(p).sum() for p in parts(x) if len(p)])
        ),
        sample(f64(5), i64(LENGTHS)),
        sample(f32(0), i64([0, 0])),
    ],
    ops.SequenceReverse: [
        sample(f32(5, 2), i64(LENGTHS)).gives(lambda x, n: x[[1, 0, 4, 3, 2]]),
    ],
    ops.SequenceExpand: [
        sample(f32(3, 2), f32(5, 1), i64(LENGTHS)).gives(lambda x, y, n: x[[0, 0, 2, 2, 2]]),
    ],
    ops.SequencePad: [
        sample(f32(5, 2), i64(LENGTHS), f32([0.5])).gives(
            lambda x, n, v: [
                [*x[:2], [0.5, 0.5]],
                [[0.5, 0.5]] * 3,
                x[2:],
            ]
        ),
        sample(f64(2), i64([2]), f64([9.0]), padded_length=3).gives(lambda x, n, v: [[*x, 9]]),
        sample(f64(3), i64([1, 2]), f64([9.0]), i64([0, 0, 0])).gives(
            lambda x, n, v, s: [[x[0], 9, 9], [x[1], x[2], 9]]
        ),
        sample(f64(3), i64([1, 2]), f64([9.0]), i64([0])).gives(
            lambda x, n, v, s: [[x[0]], [x[1]]]
        ),
    ],
    ops.SequenceUnpad: [
        sample(f32(3, 3, 2), i64(LENGTHS)).gives(lambda x, n: np.concatenate([x[0, :2], x[2]])),
        sample(f32(2, 2, 2), i64([1, 3]), i64([0, 0, 0, 0])).gives(
            lambda x, n, r: [x[0, 0], x[1, 0], x[1, 1], x[1, 1]]
        ),
    ],
}
