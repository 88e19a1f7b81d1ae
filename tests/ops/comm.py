"""Samples of communication, as it is without other replicas."""

from __future__ import annotations

from graphopt.ir.ops.comm import AllReduce
from graphopt_tests.ops.base import f32, i64, sample

SAMPLES = {
    AllReduce: [
        sample(f32(2, 3)).gives(lambda x: x),
        sample(f32(), reduction="mean").gives(lambda x: x),
        sample(i64(2), reduction="mean").gives(lambda x: x),
    ],
}
