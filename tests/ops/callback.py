"""Samples of callbacks to the host."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect import callables
from graphopt.ir.dialect.ops.callback import Assert, Print, PrintGradient, PyFunc, PyFuncBackward
from graphopt_tests.ops.base import Array, f32, flags, i64, sample


def swapped(x: Array, y: Array) -> list[Array]:
    """Return the arguments in reverse order."""
    return [y, x]


def to_sine(x: Array, out: Array, grad: Array) -> Array:
    """Return a gradient that is no derivative here: the script's function counts."""
    return np.cos(x) * grad


SWAPPED = callables.register(swapped)
TO_SINE = callables.register(to_sine)


SAMPLES = {
    PyFunc: [
        sample(
            [i64(2, 3), i64(3)],
            function=SWAPPED,
            sizes=(3, 2, -1),
            ranks=(1, 2),
            dtypes=("int64", "int64"),
        ).known_sizes(),
    ],
    PyFuncBackward: [
        sample([f32(2, 3)], [f32(2, 3)], function=TO_SINE).gives(lambda xs, outs: outs[0]).kinked()
    ],
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
