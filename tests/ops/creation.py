"""Samples of the ops that create constant tensors."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import creation as ops
from graphopt_tests.ops.base import bf16, f32, i64, sample

SAMPLES = {
    ops.Full: [
        sample(shape=(2, 3), value=0.5).gives(lambda: np.full((2, 3), 0.5)),
        sample(shape=(), value=-3.0, dtype="int64").gives(lambda: -3),
        sample(shape=(2,), value=1.0, dtype="bool").gives(lambda: [True, True]),
        sample(shape=(0, 2), value=1e300, dtype="bfloat16"),
        sample(shape=(1,), value=300.0, dtype="uint8").gives(lambda: [44]),
        sample(shape=(1,), value=1e20, dtype="int32").gives(lambda: [-(2**31)]),
        sample(shape=(1,), value=-np.inf).gives(lambda: [-np.inf]),
        sample(shape=(1,), value=np.nan, dtype="float64").gives(lambda: [np.nan]),
        sample(shape=(1,), value=1e300, dtype="float16").gives(lambda: [np.inf]),
    ],
    ops.FullLike: [
        sample(f32(2, 3), value=2.0).gives(lambda x: np.full((2, 3), 2.0)),
        sample(i64(2), value=1.5).gives(lambda x: [1, 1]),
        sample(i64(2), value=-300.5, dtype="int8").gives(lambda x: [-44, -44]),
        sample(bf16(2), value=7.0, dtype="int32").gives(lambda x: [7, 7]),
    ],
    ops.AssignValue: [
        sample(shape=(2, 2), values=(1.0, -2.5, 0.0, 4.0)).gives(lambda: [[1, -2.5], [0, 4]]),
        sample(shape=(2,), values=(1.0, 2.0**40), dtype="int64").gives(lambda: [1, 2**40]),
        sample(shape=(3,), values=(2**63 - 1, -(2**53) - 1, 2), dtype="int64").gives(
            lambda: np.array([2**63 - 1, -(2**53) - 1, 2])
        ),
        sample(shape=(1,), values=(0.5,), dtype="bfloat16").gives(lambda: [0.5]),
        sample(shape=(0,), values=(), dtype="int32").gives(list),
    ],
    ops.Arange: [
        sample(end=5.0).gives(lambda: np.arange(5)),
        sample(start=5.0, end=0.0, step=-2.0, dtype="int32").gives(lambda: [5, 3, 1]),
        sample(start=0.0, end=1.0, step=0.25, dtype="float32").gives(lambda: [0, 0.25, 0.5, 0.75]),
        sample(start=2.0, end=2.0).gives(lambda: np.zeros(0)),
    ],
    ops.Linspace: [
        sample(start=0.0, stop=1.0, num=5).gives(lambda: np.linspace(0, 1, 5)),
        sample(start=1.0, stop=4.0, num=1, dtype="int64").gives(lambda: [1]),
    ],
    ops.Eye: [
        sample(num_rows=2).gives(lambda: np.eye(2)),
        sample(num_rows=2, num_columns=3, dtype="int64").gives(lambda: np.eye(2, 3)),
    ],
    ops.Logspace: [
        sample(start=0.0, stop=2.0, num=3).gives(lambda: [1, 10, 100]),
        sample(start=0.0, stop=4.0, num=5, base=2.0, dtype="int64").gives(lambda: [1, 2, 4, 8, 16]),
    ],
}
