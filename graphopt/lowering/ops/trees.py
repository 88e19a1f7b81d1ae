"""Convolutions on trees in JAX: powers of a matrix give the nodes below each node."""

from __future__ import annotations

import numpy as np
from jax import numpy as jnp

from graphopt.ir.dialect.ops.trees import TreeConv
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers


@lowers(TreeConv)
def tree_conv(nodes: Array, edges: Array, filter: Array, max_depth: int) -> Array:
    values, weights = wide(nodes), wide(filter)
    shares = _shares(edges, nodes.shape[1], max_depth, values)
    found = jnp.einsum("kbuv,bvd,dkof->buof", shares, values, weights)
    return found.astype(nodes.dtype)


def _shares(edges: Array, count: int, depth: int, like: Array) -> Array:
    """Compute the shares [3, b, u, v] of the filter's parts for node v in the window of node u."""
    there = jnp.cumprod((edges != 0).all(2), 1, dtype=edges.dtype) > 0
    # a missing node has number -1, which matches no index
    parents, children = (
        (jnp.where(there, edges[..., side] - 1, -1)[..., None] == np.arange(count)).astype(
            like.dtype
        )
        for side in (0, 1)
    )
    parents, children = parents.astype(like.dtype), children.astype(like.dtype)
    step = jnp.einsum("bmu,bmv->buv", parents, children)
    before = jnp.cumsum(parents, 1) - parents
    place = jnp.einsum("bmu,bmu,bmv->bv", before, parents, children)
    others = jnp.einsum("bu,buv->bv", step.sum(2), step) - 1
    right = jnp.where(others > 0, place / jnp.maximum(others, 1), 0.5)[:, None]
    below = jnp.broadcast_to(jnp.eye(count, dtype=like.dtype), step.shape)
    total = jnp.zeros((3, *step.shape), like.dtype)
    for level in range(depth):
        low = np.asarray(level / depth, like.dtype)
        side = jnp.stack([low * right, low * (1 - low * right), jnp.full_like(right, 1 - low)])
        total = total + side * below
        below = below @ step
    # only nodes that edges connect have a window
    inside = np.arange(count) < there.sum(1, keepdims=True) + 1
    return total * inside[None, :, :, None]
