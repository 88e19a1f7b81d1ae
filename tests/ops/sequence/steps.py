"""Samples of the ops on the steps of sequences."""

from __future__ import annotations

from graphopt.ir.dialect.ops.sequence import steps as ops
from graphopt_tests.ops.base import f32, f64, i32, i64, sample

SAMPLES = {
    ops.SequenceSteps: [
        sample(i64([2, 0, 3]), i64([2, 0, 1])).gives(lambda n, o: ([2, 0, 3, 1, 4], [2, 2, 1])),
        sample(i32([1, 1]), i64([0, 1])).gives(lambda n, o: ([0, 1], [2])),
    ],
    ops.ArrayOfRows: [
        sample(f32(4, 3), i64([2, 2])).gives(lambda x, n: x.reshape(2, 2, 3)),
        sample(f64(2), i32([1, 1])).gives(lambda x, n: x[:, None]),
    ],
}
