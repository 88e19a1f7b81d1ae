"""Order between ops in JAX: a barrier of XLA."""

from __future__ import annotations

from jax import lax

from graphopt.ir.dialect.ops.fence import Fence
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lowers


@lowers(Fence)
def fence(values: tuple[Array, ...], after: tuple[Array, ...]) -> tuple[Array, ...]:
    held, _ = lax.optimization_barrier((tuple(values), tuple(after)))
    return held
