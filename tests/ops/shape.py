"""Samples of the ops that move, join or cut elements."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import shape as ops
from graphopt_tests.ops.base import bf16, f32, f64, flags, i32, i64, sample

SAMPLES = {
    ops.StopGradient: [sample(f32([1.5, -2.0])).gives(lambda x: x).gradient_through()],
    ops.Assign: [sample(f32(2, 3)).gives(lambda x: x), sample(flags()).gives(lambda x: x)],
    ops.Reshape: [
        sample(f32(2, 6), shape=(0, 3, -1)).gives(lambda x: x.reshape(2, 3, 2)),
        sample(i64(2, 3), shape=(-1,)).gives(np.ravel),
        sample(f64(1), shape=()).gives(lambda x: x[0]),
        sample(bf16(0, 3), shape=(3, 0)).known_sizes(),
        sample(f32(0, 5, 6), shape=(0, 0, 3, 2)).gives(lambda x: x.reshape(0, 5, 3, 2)),
        sample(f32(2, 0, 6), shape=(0, -1, 3, 2)).gives(lambda x: x.reshape(2, 0, 3, 2)),
        sample(f32(0, 2, 7, 4), shape=(0, -1, 4)).gives(lambda x: x.reshape(0, 14, 4)),
        sample(f32(3, 0), shape=(-1, 0)).gives(lambda x: x),
    ],
    ops.ReshapeLike: [
        sample(f32(2, 3, 4), f32(2, 6), shape=(0, -1, 2)).gives(lambda x, _: x.reshape(2, 6, 2)),
        sample(i64(4, 3), f64(2, 6, 1), shape=(0, 0)).gives(lambda x, _: x.reshape(2, 6)),
        sample(bf16(0, 3), f32(3, 0), shape=(0, 0)).known_sizes(),
    ],
    ops.Transpose: [
        sample(f32(2, 3, 4), perm=(2, 0, 1)).gives(lambda x: x.transpose(2, 0, 1)),
        sample(i32(2, 3), perm=(-1, 0)).gives(np.transpose),
        sample(f64(), perm=()).gives(lambda x: x),
    ],
    ops.Flatten: [
        sample(f32(2, 3, 4), start_axis=1).gives(lambda x: x.reshape(2, 12)),
        sample(f64(2, 3, 4), stop_axis=-2).gives(lambda x: x.reshape(6, 4)),
        sample(f32()).gives(lambda x: x.reshape(1)),
        sample(i64(0, 3)).gives(np.ravel),
    ],
    ops.Squeeze: [
        sample(f32(1, 3, 1)).gives(np.squeeze).known_sizes(),
        sample(f32(1, 3, 1), axis=(-1,)).gives(lambda x: x[..., 0]),
        sample(i64(1, 3), axis=(0, 1)).gives(lambda x: x[0]).known_sizes(),
    ],
    ops.Unsqueeze: [
        sample(f32(2, 3), axis=(0, -1)).gives(lambda x: x[None, ..., None]),
        sample(f64(), axis=(0,)).gives(lambda x: x[None]),
    ],
    ops.Concat: [
        sample([f32(2, 3), f32(1, 3)]).gives(lambda xs: np.concatenate(xs)),
        sample([i64(2, 1), i64(2, 0), i64(2, 2)], axis=-1).gives(lambda xs: np.concatenate(xs, 1)),
        sample([f64(2)]).gives(lambda xs: xs[0]),
    ],
    ops.Stack: [
        sample([f32(2, 3), f32(2, 3)], axis=1).gives(lambda xs: np.stack(xs, 1)),
        sample([f64(), f64(), f64()]).gives(np.stack),
        sample([i32(2), i32(2)], axis=-1).gives(lambda xs: np.stack(xs, 1)),
    ],
    ops.Split: [
        sample(f32(4, 3), num=2).gives(lambda x: (x[:2], x[2:])),
        sample(f64(2, 6), axis=-1, sections=(1, -1, 2)).gives(
            lambda x: (x[:, :1], x[:, 1:4], x[:, 4:])
        ),
        sample(i64(3), num=1).gives(lambda x: (x,)),
        sample(f32(3, 2), sections=(3, 0)).gives(lambda x: (x, x[:0])),
    ],
    ops.Slice: [
        sample(f32(4, 5), axes=(0, 1), starts=(1, -3), ends=(3, 100)).gives(lambda x: x[1:3, -3:]),
        sample(i64(4, 5), axes=(-1,), starts=(2,), ends=(3,), decrease_axis=(1,)).gives(
            lambda x: x[:, 2]
        ),
        sample(f64(4), axes=(0,), starts=(1,), ends=(2,), decrease_axis=(0,)).gives(lambda x: x[1]),
        sample(f32(4), axes=(0,), starts=(3,), ends=(1,)).gives(lambda x: x[3:1]),
    ],
    ops.Expand: [
        sample(f32(1, 3), shape=(2, -1)).gives(lambda x: np.tile(x, (2, 1))),
        sample(i64(3), shape=(2, 3)).gives(lambda x: np.tile(x, (2, 1))),
        sample(f64(), shape=(2, 2)).gives(lambda x: np.full((2, 2), x)),
        sample(f32(1, 2), shape=(0, 2)),
    ],
    ops.ShapeOf: [
        sample(f32(2, 3)).gives(lambda x: [2, 3]),
        sample(f32()).gives(lambda x: np.zeros(0)),
        sample(i64(0, 4)).gives(lambda x: [0, 4]),
    ],
}
