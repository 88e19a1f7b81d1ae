"""Repeating, reversing, shifting, padding and overwriting elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import rearrange as ops
from graphopt.ir.dtypes import DType, convert_as_x86
from graphopt.reference.registry import rule, rule_each
from graphopt.reference.tape import Array

Ints = Sequence[int]


@rule(ops.Tile)
def tile(x: Array, repeat_times: Ints) -> Array:
    rank = max(x.ndim, len(repeat_times))
    x = np.reshape(x, (1,) * (rank - x.ndim) + x.shape)
    for axis, times in enumerate((1,) * (rank - len(repeat_times)) + tuple(repeat_times)):
        size = x.shape[axis]
        x = np.take(x, np.arange(size * times) % max(size, 1), axis)
    return x


rule_each(
    {
        ops.RepeatInterleave: lambda x, repeats, axis: np.repeat(x, repeats, axis % x.ndim),
        ops.Flip: lambda x, axis: np.flip(x, tuple({a % x.ndim for a in axis})),
        ops.ExpandAs: lambda x, y: np.broadcast_to(x, y.shape),
    }
)


@rule(ops.Roll)
def roll(x: Array, shifts: Ints, axis: Ints) -> Array:
    if axis:
        return np.roll(x, tuple(shifts), tuple(axis))
    return np.reshape(np.roll(np.reshape(x, (-1,)), shifts[0], 0), x.shape)


@rule(ops.Unbind)
def unbind(x: Array, axis: int) -> tuple[Array, ...]:
    return tuple(np.take(x, np.asarray(i), axis % x.ndim) for i in range(x.shape[axis]))


def _key(rank: int, axes: Ints, starts: Ints, ends: Ints, steps: Ints) -> tuple[Any, ...]:
    key: list[Any] = [slice(None)] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        key[axis] = slice(start, end, step)
    return tuple(key)


@rule(ops.StridedSlice)
def strided_slice(
    input: Array, axes: Ints, starts: Ints, ends: Ints, strides: Ints, decrease_axis: Ints
) -> Array:
    part = input[_key(input.ndim, axes, starts, ends, strides)]
    dropped = {a % input.ndim for a in decrease_axis}
    return np.reshape(part, [dim for i, dim in enumerate(part.shape) if i not in dropped])


@rule(ops.SetValue)
def set_value(
    input: Array,
    value: Array,
    axes: Ints,
    starts: Ints,
    ends: Ints,
    steps: Ints,
    decrease_axes: Ints,
) -> Array:
    key = _key(input.ndim, axes, starts, ends, steps)
    # the index in the slice of each input element, -1 for none
    numbers = np.full(input.shape, -1)
    place = numbers[key]
    place[...] = np.arange(place.size).reshape(place.shape)
    dropped = {a % input.ndim for a in decrease_axes}
    inner = [dim for i, dim in enumerate(place.shape) if i not in dropped]
    value = np.reshape(value, value.shape[max(value.ndim - len(inner), 0) :])
    flat = np.reshape(np.broadcast_to(value, inner), (-1,))
    if not place.size:
        return input
    return np.where(numbers >= 0, np.take(flat, np.maximum(numbers, 0), 0), input)


@rule(ops.Meshgrid)
def meshgrid(inputs: tuple[Array, ...]) -> tuple[Array, ...]:
    sizes = [x.size for x in inputs]
    return tuple(
        np.broadcast_to(np.reshape(x, [-1 if i == at else 1 for i in range(len(sizes))]), sizes)
        for at, x in enumerate(inputs)
    )


@rule(ops.Pad)
def pad(x: Array, paddings: Ints, mode: str, value: float, to: Any) -> Array:
    pairs = [(paddings[2 * i], paddings[2 * i + 1]) for i in range(x.ndim)]
    cut = tuple(
        slice(max(-before, 0), dim - max(-after, 0))
        for dim, (before, after) in zip(x.shape, pairs, strict=True)
    )
    widths = [(max(before, 0), max(after, 0)) for before, after in pairs]
    if mode == "constant":
        filling = to(value) if x.dtype.kind in "fc" else convert_as_x86(value, DType(x.dtype.name))
        return np.pad(x[cut], widths, "constant", constant_values=filling)
    way = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    return np.pad(x[cut], widths, way)  # pyright: ignore


@rule(ops.TriangleOf)
def tril_triu(x: Array, diagonal: int, lower: bool) -> Array:
    rows, columns = np.ogrid[: x.shape[-2], : x.shape[-1]]
    kept = columns - rows <= diagonal if lower else columns - rows >= diagonal
    return np.where(kept, x, np.zeros((), x.dtype))
