"""Samples of communication, without other replicas."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import comm as ops
from graphopt_tests.ops.base import f32, i64, sample

SAMPLES = {
    ops.AllReduce: [
        sample(f32(2, 3)).gives(lambda x, rest=(): x),
        sample(f32(), reduction="mean").gives(lambda x, rest=(): x),
        sample(i64(2), reduction="mean").gives(lambda x, rest=(): x),
        sample(f32(2, 3), [f32(4), f32()]).gives(lambda x, rest: (x, *rest)),
    ],
    ops.CAllReduce: [
        sample(f32(2, 3)).gives(lambda x: x),
        sample(i64(2), reduction="max").gives(lambda x: x),
        sample(f32(2), reduction="prod").gives(lambda x: x).kinked(),
    ],
    ops.CAllGather: [sample(f32(2, 3), nranks=1).gives(lambda x: x)],
    ops.CBroadcast: [sample(f32(2)).gives(lambda x: x).kinked()],
    ops.ReduceScatter: [
        sample(f32(2, 3), parts=1, owner=0).gives(np.ravel).known_sizes(),
    ],
    ops.Part: [
        sample(f32(2, 3), parts=1).gives(np.ravel).known_sizes(),
        sample(f32(), parts=1).gives(np.ravel).known_sizes(),
    ],
    ops.AllGather: [
        sample(f32(6), parts=1, sizes=[2, 3], ranks=[2])
        .gives(lambda x, rest=(): x.reshape(2, 3))
        .known_sizes(),
        sample(f32(6), [f32(1)], parts=1, sizes=[3, 2], ranks=[2, 0])
        .gives(lambda x, rest: (x.reshape(3, 2), rest[0].reshape(())))
        .known_sizes(),
    ],
    ops.WithoutPadding: [
        sample(f32(4), count=4).gives(lambda x: x),
        sample(f32(4), count=3).gives(lambda x: x * [1, 1, 1, 0]),
    ],
    ops.OnOwner: [
        sample(f32(2), f32(2), owner=0).gives(lambda x, other: x),
        sample(f32(2), f32(2), owner=1).gives(lambda x, other: other),
    ],
    ops.CIdentity: [sample(f32(2, 3)).gives(lambda x: x)],
    ops.MpAllReduceSum: [sample(f32(2, 3)).gives(lambda x: x)],
    ops.CConcat: [sample(f32(2, 3), axis=1, degree=1).gives(lambda x: x)],
    ops.CSplit: [sample(f32(2, 3), axis=0, degree=1).gives(lambda x: x).known_sizes()],
    ops.CEmbedding: [
        sample(i64([4, 2, 0, 2]), f32(5, 3)).gives(lambda x, weight: weight[x]),
        sample(i64([4, 2, 0, 2]), f32(5, 3), padding_idx=2).gives(
            lambda x, weight: weight[x] * (x != 2)[..., None]
        ),
    ],
    ops.WeighByRows: [sample(f32(), f32(3, 2)).gives(lambda x, rows: x)],
}
