"""Samples of the ops that repeat, reverse, shift, pad or overwrite elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import rearrange as ops
from graphopt_tests.ops.base import Array, bf16, f32, f64, flags, i32, i64, sample


def written(place: Any) -> Any:
    """Build a function that overwrites this place of the first operand with the second."""

    def compute(x: Array, value: Array) -> Array:
        x = x.copy()
        x[place] = value
        return x

    return compute


SAMPLES = {
    ops.Tile: [
        sample(f32(2, 3), repeat_times=(2, 1)).gives(lambda x: np.tile(x, (2, 1))),
        sample(i64(2), repeat_times=(2, 3)).gives(lambda x: np.tile(x, (2, 3))),
        sample(f64(2, 1), repeat_times=(2,)).gives(lambda x: np.tile(x, 2)),
    ],
    ops.RepeatInterleave: [
        sample(f32(2, 3), repeats=2, axis=1).gives(lambda x: np.repeat(x, 2, 1)),
        sample(i64(2, 1, 2), repeats=3, axis=-3).gives(lambda x: np.repeat(x, 3, 0)),
        sample(f64(2), repeats=0).gives(lambda x: x[:0]),
    ],
    ops.Flip: [
        sample(f32(2, 3), axis=(0, -1)).gives(lambda x: x[::-1, ::-1]),
        sample(i32(4), axis=(0,)).gives(lambda x: x[::-1]),
    ],
    ops.Roll: [
        sample(f32(2, 3), shifts=(1,)).gives(lambda x: np.roll(x, 1)),
        sample(i64(3, 4), shifts=(1, -2), axis=(0, 1)).gives(lambda x: np.roll(x, (1, -2), (0, 1))),
    ],
    ops.Unbind: [
        sample(f32(2, 3)).gives(lambda x: (x[0], x[1])).known_sizes(),
        sample(i64(2, 2), axis=-1).gives(lambda x: (x[:, 0], x[:, 1])).known_sizes(),
    ],
    ops.StridedSlice: [
        sample(f32(4, 5), axes=(0, 1), starts=(3, 0), ends=(0, 5), strides=(-1, 2)).gives(
            lambda x: x[3:0:-1, ::2]
        ),
        sample(i64(3, 4), axes=(1,), starts=(-1,), ends=(-10,), strides=(-2,)).gives(
            lambda x: x[:, ::-2]
        ),
        sample(*(f64(3, 4),), axes=(0,), starts=(1,), ends=(2,), strides=(1,), decrease_axis=(0,))
        .gives(lambda x: x[1])
        .known_sizes(),
    ],
    ops.SetValue: [
        sample(f32(3, 4), f32(1), axes=(0, 1), starts=(0, 1), ends=(1, 3), steps=(1, 1)).gives(
            written((slice(0, 1), slice(1, 3)))
        ),
        sample(i64(5), i64(3), axes=(0,), starts=(4,), ends=(-6,), steps=(-2,)).gives(
            written(slice(None, None, -2))
        ),
        sample(
            *(f64(3, 4), f64(1, 4)),
            axes=(0,),
            starts=(1,),
            ends=(2,),
            steps=(1,),
            decrease_axes=(0,),
        )
        .gives(lambda x, v: written(1)(x, v[0]))
        .known_sizes(),
    ],
    ops.ExpandAs: [
        sample(f32(1, 3), f32(2, 3)).gives(lambda x, y: np.tile(x, (2, 1))).gradient_through(0),
        sample(i64(), i64(2)).gives(lambda x, y: np.full(2, x)),
    ],
    ops.Meshgrid: [
        sample([f32(2), f32(3)]).gives(lambda xs: tuple(np.meshgrid(*xs, indexing="ij"))),
        sample([i64(2), i64()]).gives(lambda xs: tuple(np.meshgrid(*xs, indexing="ij"))),
    ],
    ops.Pad: [
        sample(f32(2, 3), paddings=(1, 0, 0, 2), value=2.5).gives(
            lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=2.5)
        ),
        sample(f64(3, 3), paddings=(-1, 0, 0, -1)).gives(lambda x: x[1:, :-1]),
        sample(f32(1, 4), paddings=(0, 0, 2, 3), mode="reflect").gives(
            lambda x: np.pad(x, ((0, 0), (2, 3)), "reflect")
        ),
        sample(i64(3), paddings=(2, 1), mode="replicate").gives(
            lambda x: np.pad(x, ((2, 1),), "edge")
        ),
        sample(bf16(3), paddings=(2, 3), mode="circular").gives(
            lambda x: np.pad(x, ((2, 3),), "wrap")
        ),
        sample(f32(3), paddings=(4, 7), mode="circular").gives(
            lambda x: np.pad(x, ((4, 7),), "wrap")
        ),
    ],
    ops.TriangleOf: [
        sample(f32(3, 4), diagonal=1).gives(lambda x: np.tril(x, 1)),
        sample(flags(2, 3, 3), lower=False).gives(np.triu),
    ],
}
