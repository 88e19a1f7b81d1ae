"""Updates from sparse gradients, by the formulas of the papers with Paddle's differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.update import sparse as ops
from graphopt.reference.ops.update.basic import adagrad, adam, adamw, sgd
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


def choose_rows(looked_up: Array | None, new: tuple[Array, ...], **old: Array) -> tuple[Array, ...]:
    """Select new rows where they were looked up, old ones elsewhere."""
    if looked_up is None:
        return new
    before = old["param"], old["moment1"], old["moment2"]
    kept = [np.where(looked_up > 0, n, o) for n, o in zip(new, before, strict=False)]
    return *kept, *new[3:]


@rule(ops.SparseAdam)
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
    powers = beta1_pow * beta1, beta2_pow * beta2
    given = (param, grad, learning_rate, moment1, moment2, *powers, None)
    new = (*adam(*given, beta1, beta2, epsilon, uncorrected_epsilon)[:3], *powers)
    return choose_rows(looked_up, new, param=param, moment1=moment1, moment2=moment2)


@rule(ops.SparseAdamw)
def sparse_adamw(looked_up: Array | None, **rest: Any) -> tuple[Array, ...]:
    old = {name: rest[name] for name in ("param", "moment1", "moment2")}
    return choose_rows(looked_up, adamw(**rest, moment2_max=None), **old)


Arrays = Sequence[Array]


def whole(param: Array, ids: Arrays, grads: Arrays, padding: Sequence[int]) -> Array:
    """Compute the gradient of the table: for each row the sum over its lookups."""
    return of_lookups(param, ids, grads, padding)[0]


def of_lookups(
    param: Array, ids: Arrays, grads: Arrays, padding: Sequence[int]
) -> tuple[Array, Array]:
    """Compute the gradient of the table, and each row's number of lookups, in its shape."""
    found, times = np.zeros(param.shape), np.zeros(param.shape)
    count = param.shape[0]
    for numbers, grad, pad in zip(ids, grads, padding, strict=True):
        rows = np.reshape(grad, (-1, param.shape[1]))
        for at, number in enumerate(np.reshape(numbers, -1)):
            if -count <= number < count and (pad == -1 or number != pad):
                found[number] += rows[at]
                times[number] += 1
    return found, times


@rule(ops.SgdRows)
def sgd_rows(
    param: Array, learning_rate: Array, ids: Arrays, grads: Arrays, padding: tuple[int, ...]
) -> Array:
    return sgd(param, whole(param, ids, grads, padding), learning_rate)


@rule(ops.AdagradRows)
def adagrad_rows(
    param: Array,
    learning_rate: Array,
    moment: Array,
    ids: Arrays,
    grads: Arrays,
    padding: tuple[int, ...],
    epsilon: float,
) -> tuple[Array, ...]:
    return adagrad(param, whole(param, ids, grads, padding), learning_rate, moment, epsilon)


_ADAM = ("learning_rate", "moment1", "moment2", "beta1_pow", "beta2_pow")


_ADAM += ("beta1", "beta2", "epsilon", "uncorrected_epsilon")


@rule(ops.AdamRows)
def adam_rows(
    param: Array, ids: Arrays, grads: Arrays, padding: tuple[int, ...], **rest: Any
) -> tuple[Array, ...]:
    grad, times = of_lookups(param, ids, grads, padding)
    kept = {name: rest[name] for name in _ADAM}
    return sparse_adam(param=param, grad=grad, looked_up=times, **kept)


@rule(ops.AdamwRows)
def adamw_rows(
    param: Array, ids: Arrays, grads: Arrays, padding: tuple[int, ...], **rest: Any
) -> tuple[Array, ...]:
    grad, times = of_lookups(param, ids, grads, padding)
    return sparse_adamw(param=param, grad=grad, looked_up=times, **rest)
