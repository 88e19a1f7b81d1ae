"""Sequences as arrays of their steps, in JAX."""

from __future__ import annotations

import numpy as np
from jax import numpy as jnp

from graphopt.ir.dialect.ops.sequence import steps as ops
from graphopt.lowering.dynamic import concrete
from graphopt.lowering.ops.base import Array
from graphopt.lowering.ops.dynamic import RaggedElements
from graphopt.lowering.registry import lowers


@lowers(ops.SequenceSteps)
def sequence_steps(lengths: Array, order: Array) -> tuple[Array, Array]:
    sizes = concrete(lengths, "the number of steps of sequences").astype(np.int64)
    ranks = concrete(order, "the order of sequences")
    starts = (np.cumsum(sizes) - sizes)[ranks]
    # step t has the sequences with more than t rows
    goes_on = np.arange(sizes.max(initial=0))[:, None] < sizes[ranks]
    step, sequence = np.nonzero(goes_on)
    rows = starts[sequence] + step
    return jnp.asarray(rows, order.dtype), jnp.asarray(goes_on.sum(1), lengths.dtype)


@lowers(ops.ArrayOfRows)
def array_of_rows(x: Array, sizes: Array) -> Array | RaggedElements:
    counts = concrete(sizes, "the sizes of the elements of a tensor array")
    ends = np.cumsum(counts)
    if len(counts) and (counts == counts[0]).all():
        return x[: ends[-1]].reshape(len(counts), int(counts[0]), *x.shape[1:])
    if not len(counts):
        return jnp.zeros((0, 0, *x.shape[1:]), x.dtype)
    return RaggedElements(
        tuple(x[end - size : end] for end, size in zip(ends, counts, strict=True))
    )
