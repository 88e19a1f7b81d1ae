"""Matrix products, and other maps with a weight, in JAX."""

from __future__ import annotations

from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.linear import Bilinear, Kron, Matmul, RowConv
from graphopt.lowering.kernels import onednn
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers


@lowers(Matmul)
def matmul(x: Array, y: Array, transpose_x: bool, transpose_y: bool, kernel: str = "") -> Array:
    if kernel == onednn.ONEDNN:
        return onednn.matmul(x, y, transpose_x, transpose_y)
    x = x.mT if transpose_x and x.ndim > 1 else x
    y = y.mT if transpose_y and y.ndim > 1 else y
    return jnp.matmul(x, y)


@lowers(Bilinear)
def bilinear(x: Array, y: Array, weight: Array, bias: Array | None) -> Array:
    out = jnp.einsum("ni,kij,nj->nk", wide(x), wide(weight), wide(y))
    out = out if bias is None else out + wide(bias)
    return out.astype(x.dtype)


@lowers(RowConv)
def row_conv(x: Array, filter: Array) -> Array:
    steps, after = x.shape[1], filter.shape[0] - 1
    longer = lax.pad(wide(x), jnp.zeros((), wide(x).dtype), [(0, 0, 0), (0, after, 0), (0, 0, 0)])
    parts = [longer[:, i : i + steps] * wide(filter)[i] for i in range(filter.shape[0])]
    return sum(parts[1:], parts[0]).astype(x.dtype)


@lowers(Kron)
def kron(x: Array, y: Array) -> Array:
    return jnp.kron(x, y)
