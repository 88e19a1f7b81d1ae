"""Parameter updates by rows, through the gradient of the whole table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.update.rows import AdagradRows, AdamRows, AdamwRows, SgdRows
from graphopt.reference.ops.update.basic import adagrad, sgd
from graphopt.reference.ops.update.sparse import sparse_adam, sparse_adamw
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array

Arrays = Sequence[Array]


def whole(param: Array, ids: Arrays, grads: Arrays, padding: Sequence[int]) -> Array:
    """The gradient of the table: for each row the sum over its lookups."""
    return of_lookups(param, ids, grads, padding)[0]


def of_lookups(
    param: Array, ids: Arrays, grads: Arrays, padding: Sequence[int]
) -> tuple[Array, Array]:
    """The gradient of the table, and how often each row was looked up, in its shape."""
    found, times = np.zeros(param.shape), np.zeros(param.shape)
    count = param.shape[0]
    for numbers, grad, pad in zip(ids, grads, padding, strict=True):
        rows = np.reshape(grad, (-1, param.shape[1]))
        for at, number in enumerate(np.reshape(numbers, -1)):
            if -count <= number < count and (pad == -1 or number != pad):
                found[number] += rows[at]
                times[number] += 1
    return found, times


@rule(SgdRows)
def sgd_rows(
    param: Array, learning_rate: Array, ids: Arrays, grads: Arrays, padding: tuple[int, ...]
) -> Array:
    return sgd(param, whole(param, ids, grads, padding), learning_rate)


@rule(AdagradRows)
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


@rule(AdamRows)
def adam_rows(
    param: Array, ids: Arrays, grads: Arrays, padding: tuple[int, ...], **rest: Any
) -> tuple[Array, ...]:
    grad, times = of_lookups(param, ids, grads, padding)
    kept = {name: rest[name] for name in _ADAM}
    return sparse_adam(param=param, grad=grad, looked_up=times, **kept)


@rule(AdamwRows)
def adamw_rows(
    param: Array, ids: Arrays, grads: Arrays, padding: tuple[int, ...], **rest: Any
) -> tuple[Array, ...]:
    grad, times = of_lookups(param, ids, grads, padding)
    return sparse_adamw(param=param, grad=grad, looked_up=times, **rest)
