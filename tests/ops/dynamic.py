"""Samples of dynamic attributes, of data-sized ops and of tensor arrays."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.definition import encode_attrs
from graphopt.ir.dialect.ops import dynamic as ops
from graphopt.ir.dialect.ops.shape import Slice, Split
from graphopt_tests.ops.base import bf16, f32, f64, flags, i32, i64, sample

SAMPLES = {
    ops.Dynamic: [
        sample(
            [f32(2, 3)],
            [i64([3, 2])],
            op="pd.reshape",
            groups=[1],
            dynamic=["shape"],
            attrs={},
        ).known_sizes(),
        sample(
            [f32(2, 3)],
            [i64([1]), i64([2])],
            op="pd.slice",
            groups=[1],
            dynamic=["starts", "ends"],
            attrs=encode_attrs(Slice, {"axes": [1], "decrease_axis": [1]}),
        ),
        sample(
            [f32(4, 2)],
            [i64([0]).reshape(())],
            op="pd.split",
            groups=[1],
            dynamic=["axis"],
            attrs=encode_attrs(Split, {"num": 2, "sections": []}),
        ),
    ],
    ops.Nonzero: [
        sample(f32([[0.0, 2.0], [3.0, 0.0]])).gives(np.argwhere),
        sample(flags([False, False])).gives(np.argwhere),
        sample(i64(0, 2)).gives(np.argwhere),
    ],
    ops.MaskedSelect: [
        sample(f32(2, 3), flags([[True, False, True]] * 2)).gives(lambda x, m: x[m]),
        sample(f64(3), flags([[True, False, True], [False, True, False]])).gives(
            lambda x, m: x[[0, 2, 1]]
        ),
        sample(bf16(2), flags([False, False])).gives(lambda x, m: x[m]),
    ],
    ops.Unique: [
        sample(i64([3, 1, 3, 2])).gives(lambda x: ([1, 2, 3], [1, 3, 0], [2, 0, 2, 1], [1, 1, 2])),
        sample(i32([[-7, 5], [-7, 2**31 - 1]])).gives(
            lambda x: ([-7, 5, 2**31 - 1], [0, 1, 3], [0, 1, 0, 2], [2, 1, 1])
        ),
        # whose differences are no int64
        sample(i64([2**63 - 1, -(2**63), 2**63 - 1])).gives(
            lambda x: (x[1::-1], [1, 0], [1, 0, 1], [1, 2])
        ),
        sample(i64(0)).gives(lambda x: (x, x, x, x)),
        sample(f32([[2.0, 1.0], [0.0, 3.0], [2.0, 1.0]]), axis=(0,), dtype="int32").gives(
            lambda x: (x[:2][::-1], [1, 0], [1, 0, 1], [1, 2])
        ),
    ],
    ops.UniqueConsecutive: [
        sample(i32([1, 1, 2, 1])).gives(lambda x: ([1, 2, 1], [0, 0, 1, 2], [2, 1, 1])),
        sample(f64([[1.0, 1.0, 2.0], [3.0, 3.0, 4.0]]), axis=(1,)).gives(
            lambda x: (x[:, 1:], [0, 0, 1], [2, 1])
        ),
        sample(i64(0)).gives(lambda x: (x, x, x)),
        sample(f32(0, 2), axis=(0,)).gives(lambda x: (x, [], [])),
    ],
    ops.Bincount: [
        sample(i64([1, 3, 1])).gives(lambda x: [0, 2, 0, 1]),
        sample(i32([0, 1, 1]), f32([0.5, 1.0, 2.0]), minlength=4).gives(
            lambda x, w: [0.5, 3, 0, 0]
        ),
        sample(i32(0)).gives(lambda x: np.zeros(0)),
    ],
    ops.RepeatInterleave: [
        sample(f32(3, 2), i64([0, 2, 1])).gives(lambda x, r: x[[1, 1, 2]]),
        sample(f64(2, 3), i32([2, 0, 1]), axis=1).gives(lambda x, r: x[:, [0, 0, 2]]),
    ],
    ops.ArrayWrite: [
        sample(f32(2, 3), i64([2]), f32(3)).gives(lambda a, i, x: np.concatenate([a, x[None]])),
        sample(f64(2, 3), i64([0]), f64(3)).gives(lambda a, i, x: np.stack([x, a[1]])),
        sample(i32(0, 1), i64([0]), i32(1)).gives(lambda a, i, x: x[None]),
    ],
    ops.ArrayRead: [
        sample(f32(2, 3), i64([1])).gives(lambda a, i: a[1]),
        sample(i64(3), i32([0])).gives(lambda a, i: a[0]),
    ],
    ops.ArrayToTensor: [
        sample(f32(2, 3, 4), axis=1, use_stack=True).gives(
            lambda a: (np.moveaxis(a, 0, 1), [1, 1])
        ),
        sample(f64(2, 3, 4), axis=-1).gives(lambda a: (np.concatenate(list(a), -1), [4, 4])),
        sample(i64(2, 3)).gives(lambda a: (np.concatenate(list(a)), [3, 3])),
    ],
}
