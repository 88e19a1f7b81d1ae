"""Samples of the ops that read and write elements by number."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import index as ops
from graphopt_tests.ops.base import bf16, f32, f64, flags, i32, i64, sample, u8


def added(x: Any, index: Any, value: Any) -> Any:
    """Compute index_add along the last axis."""
    out = x.copy()
    for place, column in zip(index, value.T, strict=True):
        out[:, place] += column
    return out


def put(x: Any, indices: Any, value: Any) -> Any:
    """Compute index_put."""
    out = x.copy()
    out[tuple(indices)] = value
    return out


SAMPLES = {
    # the bits of 1.0 are the bytes 0, 0, 128, 63, those of nan 0, 0, 192, 127
    ops.DequantizeRows: [
        sample(f32([[0.0, 256.0, 1.0, np.nan], [-1.0, 1.0, 1.0, 1.0]]))
        .gives(
            lambda _: np.array(
                [[0, 0, 128, 63, 0, 0, 192, 127], [-1, -1, 0, -0.5078125] * 2], "float32"
            )
        )
        .kinked(),
    ],
    ops.Embedding: [
        sample(i64([[0, 2], [2, 1]]), f32(3, 4)).gives(lambda x, w: w[x]),
        sample(i32([1, 0]), f64(3, 2), padding_idx=1).gives(lambda x, w: [0 * w[0], w[0]]),
        sample(i64(0, 2), bf16(3, 2)),
        sample(i64([5, -1, 2**32 + 1, 1]), f32(3, 1))
        .gives(lambda x, w: [[np.nan], [np.nan], [np.nan], w[1]])
        .kinked(),
    ],
    ops.OneHot: [
        sample(i64([0, 2]), depth=3).gives(lambda x: np.eye(3)[x]),
        sample(u8([[1]]), depth=300, dtype="float64").gives(lambda x: np.eye(300)[x]),
        sample(i32([4, -1]), depth=3).gives(lambda x: np.zeros((2, 3))),
    ],
    ops.Gather: [
        sample(f32(3, 2), i64([2, 0, 2])).gives(lambda x, i: x[i]),
        sample(f64(2, 3), i32([1, 1]), axis=-1).gives(lambda x, i: x[:, i]),
        sample(i64(3, 2), i64([[1], [0]])).gives(lambda x, i: x[i[:, 0]]),
        sample(f32(3, 2), i64([2]).reshape(())).gives(lambda x, i: x[i]),
        sample(f32(3, 2), i64(0)).gives(lambda x, i: x[:0]),
        sample(f32(3, 1), i64([-1, 2**32, 3]))
        .gives(lambda x, i: [x[2], [np.nan], [np.nan]])
        .kinked(),
    ],
    ops.FillRows: [
        sample(f32([[1.0, 2.0], [3.5, 4.0], [5.0, 6.5]]), flags([[False], [True], [True]])).gives(
            lambda x, m: x[[1, 1, 2]]
        ),
        sample(f64([0.5, 2.5, 4.5]), flags([True, False, True]), keep=False).gives(
            lambda x, m: x[[1, 1, 1]]
        ),
        sample(i64([[1, 2], [3, 4]]), flags([[False], [False]])).gives(lambda x, m: x[[0, 0]]),
        sample(f32([]).reshape(0, 2), flags([]).reshape(0, 1)).gives(lambda x, m: x),
    ],
    ops.Multiplex: [
        sample([f32(3, 2), f32(3, 2)], i32([[1], [0], [1]])).gives(
            lambda xs, i: [xs[1][0], xs[0][1], xs[1][2]]
        ),
        sample([i64(2, 1), i64(2, 1)], i64([0, 1])).gives(lambda xs, i: [xs[0][0], xs[1][1]]),
    ],
    ops.IndexAdd: [
        sample(f32(2, 3), i64([0, 0, 2]), f32(2, 3), axis=-1).gives(added),
        sample(f64(3, 2), i32([2]), f64(1, 2)).gives(lambda x, i, v: x + np.eye(3)[:, 2:] * v),
    ],
    ops.IndexPut: [
        sample(f32(2, 3), [i64([0, 1]), i64([2, 0])], f32(2)).gives(put),
        sample(f64(2, 3), [i32([1])], f64(3)).gives(put),
        sample(f32([1.0, 2.0]), [i64([0, 0])], f32([5.0]), accumulate=True).gives(
            lambda x, i, v: [11, 2]
        ),
        sample(f64(3, 2, 2), [i64([[0], [2]]), i64([1, 0])], f64(2, 1, 2)).gives(put),
        sample(f32(2, 3), [i64(0)], f32(3)).gives(put),
    ],
    ops.WriteRows: [
        sample(f32(4, 2), f32(2, 2), i64([1])).gives(
            lambda x, rows, at: np.concatenate([x[:1], rows, x[3:]])
        ),
        sample(f64(2, 3), f64(2, 1), i32([2]).reshape(()), axis=-1).gives(
            lambda x, rows, at: np.concatenate([x[:, :2], rows], 1)
        ),
        sample(bf16(1, 2), bf16(1, 2), i64([0]), axis=1).gives(lambda x, rows, at: rows),
    ],
    ops.DiagEmbed: [
        sample(f32(3)).gives(np.diag),
        sample(f64(2, 2), offset=-1, dim1=0, dim2=2).gives(
            lambda x: np.stack([np.diag(row, -1) for row in x], 1)
        ),
        sample(i64(2, 1), offset=1, dim1=-1, dim2=-2).gives(
            lambda x: np.stack([np.diag(row, 1).T for row in x])
        ),
    ],
    ops.ShardIndex: [
        sample(i64([[1], [16], [6]]), index_num=20, nshards=2, shard_id=1).gives(
            lambda x: [[-1], [6], [-1]]
        ),
        sample(i32([5, 19]), index_num=20, nshards=3, shard_id=2, ignore_value=-7).gives(
            lambda x: [-7, 5]
        ),
    ],
}
