"""Updates from sparse gradients in JAX; half types are updated in float32.

Updates of rows write into the table itself: table and state are donated, so that a step touches no
other row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jax import numpy as jnp

from graphopt.ir.dialect.ops.update import sparse as ops
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.ops.update.adaptive import adagrad
from graphopt.lowering.ops.update.basic import adam, adamw, scalar
from graphopt.lowering.registry import lowers


def sparse_adam_step(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
    uncorrected_epsilon: bool,
) -> tuple[Array, ...]:
    """Update by Adam with the powers of the next step; return parameter, moments and powers."""
    powers = wide(beta1_pow) * beta1, wide(beta2_pow) * beta2
    state = learning_rate, moment1, moment2, *powers, None
    moved, m1, m2, *_ = adam(param, grad, *state, beta1, beta2, epsilon, uncorrected_epsilon)
    return moved, m1, m2, powers[0].astype(beta1_pow.dtype), powers[1].astype(beta2_pow.dtype)


def _choose_rows(
    looked_up: Array | None, new: tuple[Array, ...], old: tuple[Array, ...]
) -> tuple[Array, ...]:
    """Select new tables where a row was looked up, old ones elsewhere; powers are new."""
    if looked_up is None:
        return new
    kept = [jnp.where(looked_up > 0, n, o) for n, o in zip(new, old, strict=False)]
    return *kept, *new[len(old) :]


@lowers(ops.SparseAdam)
def sparse_adam(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    looked_up: Array | None,
    beta1: float,
    beta2: float,
    epsilon: float,
    uncorrected_epsilon: bool,
) -> tuple[Array, ...]:
    new = sparse_adam_step(
        *(param, grad, learning_rate, moment1, moment2, beta1_pow, beta2_pow),
        *(beta1, beta2, epsilon, uncorrected_epsilon),
    )
    return _choose_rows(looked_up, new, (param, moment1, moment2))


@lowers(ops.SparseAdamw)
def sparse_adamw(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    looked_up: Array | None,
    beta1: float,
    beta2: float,
    epsilon: float,
    uncorrected_epsilon: bool,
    coeff: float,
    lr_ratio: float,
    with_decay: bool,
) -> tuple[Array, ...]:
    new = adamw(
        *(param, grad, learning_rate, moment1, moment2, beta1_pow, beta2_pow, None),
        *(beta1, beta2, epsilon, uncorrected_epsilon, coeff, lr_ratio, with_decay),
    )
    return _choose_rows(looked_up, new, (param, moment1, moment2))


def rows_of(
    param: Array, ids: Sequence[Array], grads: Sequence[Array], padding: Sequence[int]
) -> tuple[Array, Array]:
    """Collect the numbers of all looked-up rows, [n], and their gradients, [n, width].

    Numbers of padding rows are past the end of the table, where nothing is written.
    """
    nowhere = param.shape[0]
    numbers = [
        jnp.where(x == pad, nowhere, x) if pad != -1 else x
        for x, pad in zip((x.astype(jnp.int64) for x in ids), padding, strict=True)
    ]
    width = param.shape[1]
    joined = jnp.concatenate([x.reshape(-1) for x in numbers])
    return joined, jnp.concatenate([g.reshape(-1, width) for g in grads])


def merge_rows(count: int, numbers: Array, rows: Array) -> tuple[Array, Array]:
    """Sum the rows [n, width] that have the same number in a table of `count` rows.

    One index of each number holds its sum; the others hold zeros, and a number past the end of the
    table. No sort: the last index written to a table of indices counts.
    """
    places = jnp.arange(numbers.shape[0], dtype=jnp.int32)
    last = jnp.zeros(count, jnp.int32).at[numbers].set(places, mode="drop")
    own = last.at[numbers].get(mode="fill", fill_value=len(places))
    sums = jnp.zeros_like(rows).at[own].add(rows, mode="drop")
    return jnp.where(own == places, numbers, count), sums


def updated_rows(
    tables: Sequence[Array],
    ids: Sequence[Array],
    grads: Sequence[Array],
    padding: Sequence[int],
    step: Callable[..., tuple[Array, ...]],
) -> tuple[Array, ...]:
    """Update rows of the tables by `step`; return the tables, and its other results.

    Tables are [rows, width]; `step` takes [n, width] of each, and their gradient.
    """
    tables = [jnp.asarray(table) for table in tables]
    numbers, rows = rows_of(tables[0], ids, grads, padding)
    numbers, rows = merge_rows(len(tables[0]), numbers, wide(rows))
    found = step(*(table.at[numbers].get(mode="clip") for table in tables), rows)
    kept = [
        table.at[numbers].set(new, mode="drop") for table, new in zip(tables, found, strict=False)
    ]
    return *kept, *found[len(tables) :]


@lowers(ops.SgdRows)
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


@lowers(ops.AdagradRows)
def adagrad_rows(
    param: Array,
    learning_rate: Array,
    moment: Array,
    ids: Sequence[Array],
    grads: Sequence[Array],
    padding: Sequence[int],
    epsilon: float,
) -> tuple[Array, ...]:
    def step(p: Array, m: Array, g: Array) -> tuple[Array, ...]:
        return adagrad(p, g, learning_rate, m, epsilon)

    return updated_rows((param, moment), ids, grads, padding, step)


@lowers(ops.AdamRows)
def adam_rows(
    param: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    ids: Sequence[Array],
    grads: Sequence[Array],
    padding: Sequence[int],
    beta1: float,
    beta2: float,
    epsilon: float,
    uncorrected_epsilon: bool,
) -> tuple[Array, ...]:
    def step(p: Array, m1: Array, m2: Array, g: Array) -> tuple[Array, ...]:
        state = m1, m2, beta1_pow, beta2_pow
        numbers = beta1, beta2, epsilon, uncorrected_epsilon
        return sparse_adam_step(p, g, learning_rate, *state, *numbers)

    return updated_rows((param, moment1, moment2), ids, grads, padding, step)


@lowers(ops.AdamwRows)
def adamw_rows(
    param: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    ids: Sequence[Array],
    grads: Sequence[Array],
    padding: Sequence[int],
    beta1: float,
    beta2: float,
    epsilon: float,
    uncorrected_epsilon: bool,
    coeff: float,
    lr_ratio: float,
    with_decay: bool,
) -> tuple[Array, ...]:
    def step(p: Array, m1: Array, m2: Array, g: Array) -> tuple[Array, ...]:
        state = m1, m2, beta1_pow, beta2_pow, None
        numbers = beta1, beta2, epsilon, uncorrected_epsilon, coeff, lr_ratio, with_decay
        return adamw(p, g, learning_rate, *state, *numbers)

    return updated_rows((param, moment1, moment2), ids, grads, padding, step)
