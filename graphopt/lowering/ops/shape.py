"""Moving, joining and slicing elements in JAX."""

from __future__ import annotations

import math

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import shape as ops
from graphopt.ir.dialect.types import (
    normalize_axes,
    normalize_axis,
    resolve_shape,
    resolve_shape_like,
    slice_bounds,
    split_sizes,
)
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lower_each, lowers

Ints = tuple[int, ...]


lower_each(
    {
        ops.Assign: lambda x: x,
        ops.StopGradient: lambda x: lax.stop_gradient(x),
        ops.Reshape: lambda x, shape: x.reshape(resolve_shape(x.shape, shape)),
        ops.Stack: lambda inputs, axis: jnp.stack(inputs, axis),
        ops.ShapeOf: lambda input: jnp.asarray(np.asarray(input.shape, np.int32)),
    }
)


@lowers(ops.Concat)
def concat(inputs: tuple[Array, ...], axis: int) -> Array:
    return lax.concatenate(inputs, normalize_axis(axis, inputs[0].ndim))


@lowers(ops.ReshapeLike)
def reshape_like(x: Array, like: Array, shape: Ints) -> Array:
    return x.reshape(resolve_shape_like(x.shape, like.shape, shape))


@lowers(ops.Transpose)
def transpose(x: Array, perm: Ints) -> Array:
    return lax.transpose(x, [normalize_axis(axis, x.ndim) for axis in perm])


@lowers(ops.Flatten)
def flatten(x: Array, start_axis: int, stop_axis: int) -> Array:
    if x.ndim == 0:
        return x.reshape(1)
    start, stop = normalize_axis(start_axis, x.ndim), normalize_axis(stop_axis, x.ndim) + 1
    return x.reshape(*x.shape[:start], math.prod(x.shape[start:stop]), *x.shape[stop:])


@lowers(ops.Squeeze)
def squeeze(x: Array, axis: Ints) -> Array:
    candidates = normalize_axes(axis, x.ndim) if axis else range(x.ndim)
    return lax.squeeze(x, [i for i in candidates if x.shape[i] == 1])


@lowers(ops.Unsqueeze)
def unsqueeze(x: Array, axis: Ints) -> Array:
    for position in axis:
        x = jnp.expand_dims(x, position)
    return x


@lowers(ops.Split)
def split(x: Array, axis: int, num: int, sections: Ints) -> tuple[Array, ...]:
    axis = normalize_axis(axis, x.ndim)
    return tuple(lax.split(x, split_sizes(x.shape[axis], num, sections), axis))


@lowers(ops.Slice)
def slice_(input: Array, axes: Ints, starts: Ints, ends: Ints, decrease_axis: Ints) -> Array:
    for axis, start, end in zip(axes, starts, ends, strict=True):
        axis = normalize_axis(axis, input.ndim)
        low, high = slice_bounds(input.shape[axis], start, end)
        input = lax.slice_in_dim(input, low, high, axis=axis)
    return lax.squeeze(input, normalize_axes(decrease_axis, input.ndim))


@lowers(ops.Expand)
def expand(x: Array, shape: Ints) -> Array:
    own = (1,) * (len(shape) - x.ndim) + x.shape
    kept = zip(shape, own, strict=True)
    return jnp.broadcast_to(x, [dim if wanted == -1 else wanted for wanted, dim in kept])
