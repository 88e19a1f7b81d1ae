"""Sequences as arrays of their steps, in NumPy."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.sequence import steps as ops
from graphopt.reference.ops.dynamic import Ragged
from graphopt.reference.ops.sequence.rows import rows_of
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


@rule(ops.SequenceSteps)
def sequence_steps(lengths: Array, order: Array) -> tuple[Array, Array]:
    parts = [rows_of(lengths)[number] for number in order.tolist()]
    steps = [
        [part[step] for part in parts if len(part) > step]
        for step in range(max(lengths, default=0))
    ]
    rows = np.array([row for step in steps for row in step], order.dtype)
    return rows, np.array([len(step) for step in steps], lengths.dtype)


@rule(ops.ArrayOfRows)
def array_of_rows(x: Array, sizes: Array) -> Array | Ragged:
    if not sizes.size:
        return np.zeros((0, 0, *x.shape[1:]), x.dtype)
    elements = np.split(x, np.cumsum(sizes)[:-1])
    return np.stack(elements) if len(set(sizes.tolist())) == 1 else Ragged(elements)
