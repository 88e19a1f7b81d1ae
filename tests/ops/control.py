"""Samples of fences, which change no value."""

from __future__ import annotations

from graphopt.ir.dialect.ops.control import Fence
from graphopt_tests.ops.base import f32, i64, sample

SAMPLES = {
    Fence: [
        sample([f32(2, 3)], [f32(3)]).gives(lambda values, after: values[0]),
        sample([f32(2), f32(3, 1)], []).gives(lambda values, after: tuple(values)),
        sample([i64(2)], [f32()]).gives(lambda values, after: values[0]),
    ],
}
