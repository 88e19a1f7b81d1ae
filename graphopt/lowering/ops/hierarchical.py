"""Losses over a tree of classes in JAX."""

from __future__ import annotations

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.hierarchical import HsigmoidLoss
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers

# decisions are cut off here, as in Paddle; the gradient ignores it
CLIP = 40.0


@lowers(HsigmoidLoss)
def hsigmoid_loss(
    x: Array,
    w: Array,
    label: Array,
    path: Array | None,
    code: Array | None,
    bias: Array | None,
    num_classes: int,
) -> tuple[Array, Array]:
    label = label.reshape(-1)
    if path is None or code is None:
        # the bits of label + num_classes, from the last one, choose the branch at each node
        step = np.arange((num_classes - 1).bit_length(), dtype=np.int64)
        number = label.astype(np.int64)[:, None] + num_classes
        node, decision = (number >> (step + 1)) - 1, (number >> step) & 1
        known = (label >= 0) & (label < num_classes)
        # a label that is no class reads nan
        node = jnp.where(known[:, None], node, w.shape[0])
    else:
        node, decision = path.astype(np.int64), code
    on_path = jnp.cumprod(node >= 0, axis=1, dtype=np.int32) > 0
    node = jnp.where(on_path, node, 0)
    rows = jnp.take(wide(w), node, 0, mode="fill")
    score = jnp.sum(rows * wide(x)[:, None, :], -1)
    if bias is not None:
        score = score + jnp.take(wide(bias).reshape(-1), node, 0, mode="fill")
    score = jnp.where(on_path, score, 0)
    score = score + lax.stop_gradient(jnp.clip(score, -CLIP, CLIP) - score)
    soft = jnp.logaddexp(score, 0)
    taken = jnp.where(on_path & (decision != 0), score, 0)
    out = jnp.sum(soft, 1, keepdims=True) - jnp.sum(taken, 1, keepdims=True)
    return out.astype(x.dtype), lax.stop_gradient(soft.astype(x.dtype))
