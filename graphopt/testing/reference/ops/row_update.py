"""Parameter updates by rows, through the gradient of the whole table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphopt.ir.ops.row_update import SgdRows
from graphopt.testing.reference.ops.optimizer import sgd
from graphopt.testing.reference.registry import rule
from graphopt.testing.reference.tape import Array

Arrays = Sequence[Array]


def whole(param: Array, ids: Arrays, grads: Arrays, padding: Sequence[int]) -> Array:
    """The gradient of the table: for each row the sum over its lookups."""
    found = np.zeros(param.shape)
    count = param.shape[0]
    for numbers, grad, pad in zip(ids, grads, padding, strict=True):
        rows = np.reshape(grad, (-1, param.shape[1]))
        for at, number in enumerate(np.reshape(numbers, -1)):
            if -count <= number < count and (pad == -1 or number != pad):
                found[number] += rows[at]
    return found


@rule(SgdRows)
def sgd_rows(
    param: Array, learning_rate: Array, ids: Arrays, grads: Arrays, padding: tuple[int, ...]
) -> Array:
    return sgd(param, whole(param, ids, grads, padding), learning_rate)
