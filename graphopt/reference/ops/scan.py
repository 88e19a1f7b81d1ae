"""Running extremes along an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import scan as ops
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array, value_of


def _running(x: Array, axis: int, wins: Any) -> tuple[Array, Array]:
    if not x.ndim:
        return x, np.zeros((), np.int64)
    rows = np.moveaxis(value_of(x), axis, 0)
    places = np.zeros(rows.shape, np.int64)
    best = rows[:1].copy()
    for number in range(1, rows.shape[0]):
        new = rows[number]
        better = np.isnan(new) | (wins(new, best[0]) & ~np.isnan(best[0]))
        best[0] = np.where(better, new, best[0])
        places[number] = np.where(better, number, places[number - 1])
    where = np.moveaxis(places, 0, axis)
    return np.take_along_axis(x, where, axis), where


@rule(ops.Cummax)
def cummax(x: Array, axis: int) -> tuple[Array, Array]:
    return _running(x, axis, np.greater_equal)


@rule(ops.Cummin)
def cummin(x: Array, axis: int) -> tuple[Array, Array]:
    return _running(x, axis, np.less_equal)


@rule(ops.Logcumsumexp)
def logcumsumexp(x: Array, axis: int, flatten: bool, exclusive: bool, reverse: bool) -> Array:
    x = np.reshape(x, (-1,)) if flatten or not x.ndim else x
    rows = np.moveaxis(x, 0 if flatten else axis, 0)
    order = range(rows.shape[0])
    total: Array = np.full(rows.shape[1:], -np.inf)
    parts: list[Array] = []
    for number in reversed(order) if reverse else order:
        more = np.logaddexp(total, rows[number])
        parts.append(total if exclusive else more)
        total = more
    parts = parts[::-1] if reverse else parts
    return np.moveaxis(np.stack(parts), 0, 0 if flatten else axis) if parts else x
