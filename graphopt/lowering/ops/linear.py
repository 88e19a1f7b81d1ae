"""Matrix products in JAX."""

from __future__ import annotations

from jax import numpy as jnp

from graphopt.ir.ops.linear import Matmul
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lowers


@lowers(Matmul)
def matmul(x: Array, y: Array, transpose_x: bool, transpose_y: bool) -> Array:
    x = x.mT if transpose_x and x.ndim > 1 else x
    y = y.mT if transpose_y and y.ndim > 1 else y
    return jnp.matmul(x, y)
