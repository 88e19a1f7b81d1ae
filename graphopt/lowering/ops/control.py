"""Fences in JAX: a barrier of XLA. Ops with regions are lowered in `lowering/regions.py`."""

from __future__ import annotations

from jax import lax

from graphopt.ir.dialect.ops.control import Fence
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lowers


@lowers(Fence)
def fence(values: tuple[Array, ...], after: tuple[Array, ...]) -> tuple[Array, ...]:
    held, _ = lax.optimization_barrier((tuple(values), tuple(after)))
    return held
