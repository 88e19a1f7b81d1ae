"""Ops that move, join or slice elements without computing on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import shape as ops
from graphopt.ir.dialect.types import resolve_shape
from graphopt.reference.derivatives import hold
from graphopt.reference.registry import rule, rule_each
from graphopt.reference.tape import Array

rule_each(
    {
        ops.Assign: lambda x: x,
        ops.StopGradient: lambda x: hold(x),
        ops.Transpose: lambda x, perm: np.transpose(x, tuple(perm)),
        ops.Concat: lambda inputs, axis: np.concatenate(inputs, axis),
        ops.Stack: lambda inputs, axis: np.stack(inputs, axis),
        ops.ShapeOf: lambda input: np.array(input.shape, np.int32),
    }
)


@rule(ops.Reshape)
def reshape(x: Array, shape: Sequence[int]) -> Array:
    return np.reshape(x, resolve_shape(x.shape, shape))


@rule(ops.ReshapeLike)
def reshape_like(x: Array, like: Array, shape: Sequence[int]) -> Array:
    return np.reshape(x, [like.shape[i] if dim == 0 else dim for i, dim in enumerate(shape)])


@rule(ops.Flatten)
def flatten(x: Array, start_axis: int, stop_axis: int) -> Array:
    if not x.ndim:
        return np.reshape(x, (1,))
    start, stop = start_axis % x.ndim, stop_axis % x.ndim
    joined = math.prod(x.shape[start : stop + 1])
    return np.reshape(x, (*x.shape[:start], joined, *x.shape[stop + 1 :]))


@rule(ops.Squeeze)
def squeeze(x: Array, axis: Sequence[int]) -> Array:
    axes = {a % x.ndim for a in axis} if axis else range(x.ndim)
    shape = [dim for i, dim in enumerate(x.shape) if not (i in axes and dim == 1)]
    return np.reshape(x, shape)


@rule(ops.Unsqueeze)
def unsqueeze(x: Array, axis: Sequence[int]) -> Array:
    for position in axis:
        x = np.expand_dims(x, position)
    return x


@rule(ops.Split)
def split(x: Array, axis: int, num: int, sections: Sequence[int]) -> tuple[Array, ...]:
    axis %= x.ndim
    size = x.shape[axis]
    sizes = list(sections) or [size // num] * num
    if -1 in sizes:
        sizes[sizes.index(-1)] = size - sum(s for s in sizes if s != -1)
    ends = np.cumsum(sizes).tolist()
    lead = (slice(None),) * axis
    return tuple(x[(*lead, slice(end - own, end))] for own, end in zip(sizes, ends, strict=True))


@rule(ops.Slice)
def slice_(
    input: Array,
    axes: Sequence[int],
    starts: Sequence[int],
    ends: Sequence[int],
    decrease_axis: Sequence[int],
) -> Array:
    key: list[Any] = [slice(None)] * input.ndim
    for axis, start, end in zip(axes, starts, ends, strict=True):
        key[axis] = slice(start, end)
    out = input[tuple(key)]
    dropped = {a % input.ndim for a in decrease_axis}
    return np.reshape(out, [dim for i, dim in enumerate(out.shape) if i not in dropped])


@rule(ops.Expand)
def expand(x: Array, shape: Sequence[int]) -> Array:
    extra = len(shape) - x.ndim
    wanted = [x.shape[i - extra] if dim == -1 else dim for i, dim in enumerate(shape)]
    return np.broadcast_to(x, wanted)
