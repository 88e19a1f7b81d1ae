"""Samples of calls back to the host."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect import callables
from graphopt.ir.dialect.ops.callback import PyFunc, PyFuncBackward
from graphopt_tests.ops.base import Array, f32, i64, sample


def swapped(x: Array, y: Array) -> list[Array]:
    """The arguments the other way round."""
    return [y, x]


def to_sine(x: Array, out: Array, grad: Array) -> Array:
    """Not the derivative of anything here: what a script says counts."""
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
}
