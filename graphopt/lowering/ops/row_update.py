"""Updates of the rows that were looked up, in JAX: what is written goes into the table itself.

The table is donated, so that a step touches no other row.
"""

from __future__ import annotations

from collections.abc import Sequence

from jax import numpy as jnp

from graphopt.ir.ops.row_update import SgdRows
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.ops.optimizer import scalar
from graphopt.lowering.registry import lowers


def rows_of(
    param: Array, ids: Sequence[Array], grads: Sequence[Array], padding: Sequence[int]
) -> tuple[Array, Array]:
    """The numbers of all rows that were looked up, [n], and their gradients, [n, width].

    Numbers of rows that get nothing are past the end of the table, where nothing is written.
    """
    nowhere = param.shape[0]
    numbers = [
        jnp.where(x == pad, nowhere, x) if pad != -1 else x
        for x, pad in zip((x.astype(jnp.int64) for x in ids), padding, strict=True)
    ]
    width = param.shape[1]
    joined = jnp.concatenate([x.reshape(-1) for x in numbers])
    return joined, jnp.concatenate([g.reshape(-1, width) for g in grads])


@lowers(SgdRows)
def sgd_rows(
    param: Array,
    learning_rate: Array,
    ids: Sequence[Array],
    grads: Sequence[Array],
    padding: Sequence[int],
) -> Array:
    table = jnp.asarray(wide(param))
    numbers, rows = rows_of(param, ids, grads, padding)
    moves = -scalar(learning_rate, table) * wide(rows)
    return table.at[numbers].add(moves, mode="drop").astype(param.dtype)
