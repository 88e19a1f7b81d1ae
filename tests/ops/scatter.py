"""Samples of reading and writing at given positions."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import scatter as ops
from graphopt_tests.ops.base import Array, f32, f64, i32, i64, sample


def changed(x: Array, at: object, value: object) -> Array:
    x = x.copy()
    x[at] = value
    return x


SAMPLES = {
    ops.GatherNd: [
        sample(f32(3, 2), i64([[2], [0], [2]])).gives(lambda x, i: x[i[:, 0]]).known_sizes(),
        sample(f64(2, 3), i32([[[1, 2]], [[0, 0]]]))
        .gives(lambda x, i: [[x[1, 2]], [x[0, 0]]])
        .known_sizes(),
        sample(f32(2, 3), i64(2, 0)).gives(lambda x, i: [x, x]).known_sizes(),
    ],
    ops.ScatterNdAdd: [
        sample(f32(3, 2), i64([[1], [1]]), f32(2, 2))
        .gives(lambda x, i, u: changed(x, 1, x[1] + u[0] + u[1]))
        .known_sizes(),
        sample(i64(2, 3), i32([[1, 2]]), i64(1))
        .gives(lambda x, i, u: changed(x, (1, 2), x[1, 2] + u[0]))
        .known_sizes(),
        sample(f64(2), i64(3, 0), f64(3, 2)).gives(lambda x, i, u: x + u.sum(0)).known_sizes(),
    ],
    ops.Scatter: [
        sample(f32(4, 2), i64([2, 0]), f32(2, 2)).gives(lambda x, i, u: changed(x, i, u)),
        sample(f64(3, 2), i32([[1], [1]]), f64(2, 2), overwrite=False).gives(
            lambda x, i, u: changed(x, 1, u[0] + u[1])
        ),
        sample(i64(4), i64([3, 0]), i64(2)).gives(lambda x, i, u: changed(x, i, u)),
    ],
    ops.TakeAlongAxis: [
        sample(f32(3, 2), i64([[2, 0]]), axis=0).gives(lambda x, i: [[x[2, 0], x[0, 1]]]),
        sample(f64(3, 2), i32([[1, 1, 0]]), axis=-1).gives(lambda x, i: x[:, [1, 1, 0]]),
    ],
    ops.PutAlongAxis: [
        sample(f32(3, 2), i64([[2, 0]]), f32(1, 2)).gives(
            lambda x, i, v: changed(x, ([2, 0], [0, 1]), v[0])
        ),
        sample(f64(3, 2), i64([[1]]), f64(), axis=1, reduce="add").gives(
            lambda x, i, v: changed(x, (slice(None), 1), x[:, 1] + v)
        ),
        sample(i64(2, 2), i32([[0, 1]]), i64(1, 2), reduce="multiply").gives(
            lambda x, i, v: changed(x, ([0, 1], [0, 1]), [x[0, 0] * v[0, 0], x[1, 1] * v[0, 1]])
        ),
        sample(
            f64(2, 3),
            i64([[0, 0, 2], [1, 2, 2]]),
            f64(2, 3),
            axis=1,
            reduce="mean",
            include_self=False,
        ).gives(
            lambda x, i, v: [
                [(v[0, 0] + v[0, 1]) / 2, x[0, 1], v[0, 2]],
                [x[1, 0], v[1, 0], (v[1, 1] + v[1, 2]) / 2],
            ]
        ),
        sample(f64(3), i64([0, 0]), f64(2), reduce="amax").gives(
            lambda x, i, v: [max(x[0], *v), x[1], x[2]]
        ),
        sample(f64(3), i64([1, 1]), f64(2), reduce="amin", include_self=False).gives(
            lambda x, i, v: [x[0], min(v), x[2]]
        ),
        sample(f64(3), i64([1, 1]), f64(2), reduce="mul").gives(
            lambda x, i, v: [x[0], x[1] * v[0] * v[1], x[2]]
        ),
        # whole rows
        *(
            sample(
                f64(3, 2), i64([[2], [0], [2]]), f64(3, 2), reduce=kind, include_self=False
            ).gives(lambda x, i, v, joined=joined: [v[1], x[1], joined(v[[0, 2]], axis=0)])
            for kind, joined in {"add": np.sum, "mean": np.mean, "amax": np.max}.items()
        ),
    ],
    ops.IndexSample: [
        sample(f32(2, 3), i64([[2, 2], [0, 1]])).gives(lambda x, i: np.take_along_axis(x, i, 1)),
    ],
}
