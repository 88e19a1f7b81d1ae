"""Repeating, reversing, shifting, padding and overwriting elements in JAX."""

from __future__ import annotations

from typing import Any

from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import rearrange as ops
from graphopt.ir.dialect.types import normalize_axes, normalize_axis
from graphopt.lowering.ops.base import Array, constant
from graphopt.lowering.registry import lower_each, lowers

Ints = tuple[int, ...]


lower_each(
    {
        ops.Tile: lambda x, repeat_times: jnp.tile(x, repeat_times),
        ops.RepeatInterleave: lambda x, repeats, axis: jnp.repeat(x, repeats, axis),
        ops.Flip: lambda x, axis: lax.rev(x, normalize_axes(axis, x.ndim)),
        ops.ExpandAs: lambda x, y: jnp.broadcast_to(x, y.shape),
        ops.TriangleOf: lambda x, diagonal, lower: (jnp.tril if lower else jnp.triu)(x, diagonal),
    }
)


@lowers(ops.Roll)
def roll(x: Array, shifts: Ints, axis: Ints) -> Array:
    return jnp.roll(x, shifts, axis) if axis else jnp.roll(x, shifts[0])


@lowers(ops.Unbind)
def unbind(x: Array, axis: int) -> tuple[Array, ...]:
    axis = normalize_axis(axis, x.ndim)
    # a split's gradient is one concatenation; the gradient of slices would pad each to full size
    parts = lax.split(x, (1,) * x.shape[axis], axis)
    return tuple(lax.squeeze(part, (axis,)) for part in parts)


def _place(rank: int, axes: Ints, starts: Ints, ends: Ints, steps: Ints) -> tuple[slice, ...]:
    place = [slice(None)] * rank
    for axis, *bounds in zip(axes, starts, ends, steps, strict=True):
        place[normalize_axis(axis, rank)] = slice(*bounds)
    return tuple(place)


@lowers(ops.StridedSlice)
def strided_slice(
    input: Array, axes: Ints, starts: Ints, ends: Ints, strides: Ints, decrease_axis: Ints
) -> Array:
    part = input[_place(input.ndim, axes, starts, ends, strides)]
    return lax.squeeze(part, normalize_axes(decrease_axis, input.ndim))


@lowers(ops.SetValue)
def set_value(
    input: Array,
    value: Array,
    axes: Ints,
    starts: Ints,
    ends: Ints,
    steps: Ints,
    decrease_axes: Ints,
) -> Array:
    place: list[Any] = list(_place(input.ndim, axes, starts, ends, steps))
    rank = input.ndim - len(normalize_axes(decrease_axes, input.ndim))
    value = value.reshape(value.shape[max(value.ndim - rank, 0) :])
    value = jnp.expand_dims(
        jnp.broadcast_to(value, (1,) * (rank - value.ndim) + value.shape),
        normalize_axes(decrease_axes, input.ndim),
    )
    return jnp.asarray(input).at[tuple(place)].set(value)


@lowers(ops.Meshgrid)
def meshgrid(inputs: tuple[Array, ...]) -> tuple[Array, ...]:
    return tuple(jnp.meshgrid(*(x.reshape(-1) for x in inputs), indexing="ij"))


@lowers(ops.Pad)
def pad(x: Array, paddings: Ints, mode: str, value: float) -> Array:
    pairs = ops.pad_pairs(paddings)
    if mode == "constant":
        return lax.pad(x, constant(value, x.dtype), [(*pair, 0) for pair in pairs])
    # in each mode, negative padding crops
    cut = lax.pad(x, constant(0, x.dtype), [(min(a, 0), min(b, 0), 0) for a, b in pairs])
    numpy_mode = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    return jnp.pad(cut, [(max(a, 0), max(b, 0)) for a, b in pairs], numpy_mode)
