"""Samples of putting elements at given places."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.index_put import DiagEmbed, IndexAdd, IndexPut, ShardIndex
from graphopt_tests.ops.base import f32, f64, i32, i64, sample


def added(x: Any, index: Any, value: Any) -> Any:
    """index_add along the last axis."""
    out = x.copy()
    for place, column in zip(index, value.T, strict=True):
        out[:, place] += column
    return out


def put(x: Any, indices: Any, value: Any) -> Any:
    """index_put."""
    out = x.copy()
    out[tuple(indices)] = value
    return out


SAMPLES = {
    IndexAdd: [
        sample(f32(2, 3), i64([0, 0, 2]), f32(2, 3), axis=-1).gives(added),
        sample(f64(3, 2), i32([2]), f64(1, 2)).gives(lambda x, i, v: x + np.eye(3)[:, 2:] * v),
    ],
    IndexPut: [
        sample(f32(2, 3), [i64([0, 1]), i64([2, 0])], f32(2)).gives(put),
        sample(f64(2, 3), [i32([1])], f64(3)).gives(put),
        sample(f32([1.0, 2.0]), [i64([0, 0])], f32([5.0]), accumulate=True).gives(
            lambda x, i, v: [11, 2]
        ),
    ],
    DiagEmbed: [
        sample(f32(3)).gives(np.diag),
        sample(f64(2, 2), offset=-1, dim1=0, dim2=2).gives(
            lambda x: np.stack([np.diag(row, -1) for row in x], 1)
        ),
        sample(i64(2, 1), offset=1, dim1=-1, dim2=-2).gives(
            lambda x: np.stack([np.diag(row, 1).T for row in x])
        ),
    ],
    ShardIndex: [
        sample(i64([[1], [16], [6]]), index_num=20, nshards=2, shard_id=1).gives(
            lambda x: [[-1], [6], [-1]]
        ),
        sample(i32([5, 19]), index_num=20, nshards=3, shard_id=2, ignore_value=-7).gives(
            lambda x: [-7, 5]
        ),
    ],
}
