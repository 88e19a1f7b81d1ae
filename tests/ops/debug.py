"""Samples of the ops that show or check values."""

from __future__ import annotations

from graphopt.ir.dialect.ops.debug import Assert, Print, PrintGradient
from graphopt_tests.ops.base import f32, flags, i64, sample

SAMPLES = {
    Print: [
        sample(f32([1.5, -2.0]), variable="x").gives(lambda x: ()),
        sample(i64([4, 2]), variable="n", message="here", first_n=1, summarize=-1, parts=("name",)),
    ],
    PrintGradient: [sample(f32([0.5, 3.0]), variable="x@GRAD").gives(lambda x: x).kinked()],
    Assert: [
        sample(flags([True]), [f32([1.0, 2.0]), i64([7])], variables=("c", "x", "n")).gives(
            lambda c, d: ()
        ),
        sample(flags([True]).reshape(()), [], variables=("c",), summarize=3),
    ],
}
