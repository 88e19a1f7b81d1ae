"""Reading and writing elements at given positions in JAX.

A position that is out of range reads nan and writes nothing, where Paddle raises.
"""

from __future__ import annotations

from typing import Any

from jax import numpy as jnp

from graphopt.ir.ops.scatter import (
    GatherNd,
    IndexSample,
    PutAlongAxis,
    Scatter,
    ScatterNdAdd,
    TakeAlongAxis,
)
from graphopt.ir.types import normalize_axis
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers


def _coordinates(index: Array) -> tuple[Any, ...]:
    """The last axis of an index tensor as one array per axis of the indexed tensor."""
    return tuple(index[..., i] for i in range(index.shape[-1]))


@lowers(GatherNd)
def gather_nd(x: Array, index: Array) -> Array:
    if index.shape[-1] == 0:
        return jnp.broadcast_to(x, (*index.shape[:-1], *x.shape))
    return jnp.asarray(x).at[_coordinates(index)].get(mode="fill")


@lowers(ScatterNdAdd)
def scatter_nd_add(x: Array, index: Array, updates: Array) -> Array:
    if index.shape[-1] == 0:
        return (wide(x) + wide(updates).reshape(-1, *x.shape).sum(0)).astype(x.dtype)
    # a place may be added to many times, and half types should round once
    return wide(jnp.asarray(x)).at[_coordinates(index)].add(wide(updates)).astype(x.dtype)


@lowers(Scatter)
def scatter(x: Array, index: Array, updates: Array, overwrite: bool) -> Array:
    rows = index.reshape(index.shape[:1])
    if overwrite:
        return jnp.asarray(x).at[rows].set(updates)
    return jnp.asarray(x).at[rows].set(jnp.zeros((), x.dtype)).at[rows].add(updates)


def _along_axis(x: Array, index: Array, axis: int) -> tuple[Any, ...]:
    """Coordinates that broadcast to one element of x for each element of the index."""
    axis = normalize_axis(axis, x.ndim)
    grid: list[Any] = list(jnp.ogrid[tuple(slice(size) for size in x.shape)])
    grid[axis] = index
    return tuple(grid)


@lowers(TakeAlongAxis)
def take_along_axis(x: Array, index: Array, axis: int) -> Array:
    return jnp.asarray(x).at[_along_axis(x, index, axis)].get(mode="fill")


@lowers(PutAlongAxis)
def put_along_axis(x: Array, index: Array, value: Array, axis: int, reduce: str) -> Array:
    target = jnp.asarray(x).at[_along_axis(x, index, axis)]
    if reduce == "add":
        return target.add(value)
    return target.set(value) if reduce == "assign" else target.multiply(value)


@lowers(IndexSample)
def index_sample(x: Array, index: Array) -> Array:
    return take_along_axis(x, index, 1)
