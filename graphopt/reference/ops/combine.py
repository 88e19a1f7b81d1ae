"""Elements of several tensors combined."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import combine as ops
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


@rule(ops.Atan2)
def atan2(x: Array, y: Array) -> Array:
    return np.arctan2(x, y)


@rule(ops.Lerp)
def lerp(x: Array, y: Array, weight: Array) -> Array:
    return x + weight * (y - x)


@rule(ops.Multiplex)
def multiplex(inputs: tuple[Array, ...], index: Array) -> Array:
    numbers = np.reshape(index, (-1,))
    all_ = np.stack(inputs)
    inside = (numbers >= -len(inputs)) & (numbers < len(inputs))
    found = all_[np.where(inside, numbers, 0), np.arange(len(numbers))]
    if np.all(inside):
        return found
    return np.where(np.reshape(inside, (-1,) + (1,) * (found.ndim - 1)), found, np.nan)


@rule(ops.Kron)
def kron(x: Array, y: Array) -> Array:
    rank = max(x.ndim, y.ndim)
    a, b = (np.reshape(v, (1,) * (rank - v.ndim) + v.shape) for v in (x, y))
    shape = [m * n for m, n in zip(a.shape, b.shape, strict=True)]
    apart_a = np.reshape(a, [d for dim in a.shape for d in (dim, 1)])
    apart_b = np.reshape(b, [d for dim in b.shape for d in (1, dim)])
    return np.reshape(apart_a * apart_b, shape)
