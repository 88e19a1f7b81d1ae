"""Sorting, searching and counting elements."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import sort as ops
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array, value_of


@rule(ops.Argsort)
def argsort(x: Array, axis: int, descending: bool) -> tuple[Array, Array]:
    if not x.ndim:
        return x, np.zeros((), np.int64)
    order = in_order(value_of(x), axis, descending)
    return np.take_along_axis(x, order, axis), order


@rule(ops.Kthvalue)
def kthvalue(x: Array, k: int, axis: int, keepdim: bool) -> tuple[Array, Array]:
    values, order = argsort(x, axis, False)
    place = np.asarray([k - 1] if keepdim else k - 1)
    return np.take(values, place, axis), np.take(order, place, axis)


@rule(ops.Mode)
def mode(x: Array, axis: int, keepdim: bool) -> tuple[Array, Array]:
    if not x.ndim:
        return x, np.zeros((), np.int64)
    rows = np.moveaxis(value_of(x), axis, -1)
    where = np.empty(rows.shape[:-1], np.int64)
    for place in np.ndindex(*rows.shape[:-1]):
        order = np.argsort(rows[place], kind="stable")
        _, counts = np.unique(rows[place], return_counts=True, equal_nan=False)
        where[place] = order[: np.sum(counts[: np.argmax(counts) + 1])][-1]
    at = np.expand_dims(where, axis)
    out = np.take_along_axis(x, at, axis)
    return (out, at) if keepdim else (np.squeeze(out, axis), where)


@rule(ops.Searchsorted)
def searchsorted(sequence: Array, values: Array, right: bool) -> Array:
    side = "right" if right else "left"
    if sequence.ndim == 1:
        return np.asarray(np.searchsorted(sequence, values, side))
    batch = np.broadcast_shapes(sequence.shape[:-1], values.shape[:-1])
    rows = np.broadcast_to(sequence, (*batch, sequence.shape[-1]))
    wanted = np.broadcast_to(values, (*batch, values.shape[-1]))
    out = np.empty(wanted.shape, np.int64)
    for place in np.ndindex(*batch):
        out[place] = np.searchsorted(rows[place], wanted[place], side)
    return out


@rule(ops.Histogram)
def histogram(
    x: Array, weight: Array | None, bins: int, min: float, max: float, density: bool
) -> Array:
    flat = np.reshape(x, -1)
    if min == max and flat.size:
        min, max = float(np.min(flat)), float(np.max(flat))
    if min == max:
        min, max = min - 1.0, max + 1.0
    inside = (flat >= min) & (flat <= max)
    kept = flat[inside].astype(flat.dtype if flat.dtype.kind == "f" else np.float64)
    places = np.floor((kept - min) * bins / (max - min))
    weights = None if weight is None else np.reshape(weight, -1)[inside]
    at = np.minimum(places, bins - 1).astype(np.int64)
    counts = np.bincount(at, weights, bins)
    if not density or not flat.size:
        return counts
    return counts / np.sum(counts) * (bins / (max - min))


@rule(ops.Topk)
def topk(x: Array, k: int, axis: int, largest: bool) -> tuple[Array, Array]:
    order = in_order(value_of(x), axis, descending=largest)
    places = np.take(order, np.arange(k), axis)
    return np.take_along_axis(x, places, axis), places


def in_order(x: Array, axis: int, descending: bool) -> Array:
    """Sort stably; return the indices of the elements in order. nan is larger than any number."""
    if descending:
        back = np.argsort(np.flip(x, axis), axis, kind="stable")
        return x.shape[axis] - 1 - np.flip(back, axis)
    return np.argsort(x, axis, kind="stable")
