"""The parts of a Transformer in JAX. Half types are computed in float32 and round at the end."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from jax import numpy as jnp
from xdsl.dialects.builtin import DictionaryAttr

from graphopt.ir.dialect.op import class_of
from graphopt.ir.dialect.ops import transformer as ops
from graphopt.ir.dialect.ops.dynamic import decode_properties
from graphopt.ir.dialect.types import resolve_shape_like
from graphopt.lowering.kernels.attention import AttentionOperands, ScoreWeighing
from graphopt.lowering.kernels.attention_heads import attention
from graphopt.lowering.kernels.attention_kernels import by_kernel
from graphopt.lowering.ops.activation import activate
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.ops.linear import matmul
from graphopt.lowering.ops.norm import layer_norm
from graphopt.lowering.ops.random import draw_mask, dropout
from graphopt.lowering.registry import lowers


@lowers(ops.FusedDotProductAttention)
def fused_dot_product_attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    scaling_factor: float,
    fill: float,
    dropout_probability: float,
    dropout_implementation: str,
    is_test: bool,
    key: Any,
    transpose_k: bool = False,
    algorithm: str = "",
) -> Array:
    k = k.mT if transpose_k else k
    rate, kept, keep = dropout_probability, 1.0, None
    if is_test:
        kept = 1.0 if dropout_implementation == "upscale_in_train" else 1 - rate
    elif rate == 1:
        kept = 0.0
    elif rate:
        kept = 1 / (1 - rate) if dropout_implementation == "upscale_in_train" else 1.0
        batch = jnp.broadcast_shapes(q.shape[:-2], k.shape[:-2])
        if mask is not None:
            batch = jnp.broadcast_shapes(batch, mask.shape[:-2])
        # the same draw as pd.dropout's on the scores
        shape = (*batch, q.shape[-2], k.shape[-2])
        keep = draw_mask(key, 1 - rate, shape)
    how = ScoreWeighing(scaling_factor, fill, kept)

    def by_tiles(operands: AttentionOperands) -> Array:
        q, k, v, mask, keep = operands
        own = AttentionOperands(wide(q), wide(k), wide(v), _wide_mask(mask), keep)
        return attention(own, how).astype(q.dtype)

    operands = AttentionOperands(q, k, v, mask, keep)
    return by_kernel(algorithm, operands, how, by_tiles) if algorithm else by_tiles(operands)


def _wide_mask(mask: Array | None) -> Array | None:
    return mask if mask is None or mask.dtype == np.bool_ else wide(mask)


@lowers(ops.FusedAttention)
def fused_attention(
    x: Array,
    memory: tuple[Array, ...],
    qkv_weight: tuple[Array, ...],
    qkv_bias: tuple[Array, ...],
    mask: Array | None,
    linear_weight: Array,
    linear_bias: Array | None,
    ln_scale: Array | None,
    ln_bias: Array | None,
    rotary: tuple[Array, ...],
    cache: tuple[Array, ...],
    like: Array | None,
    num_heads: int,
    num_kv_heads: int,
    layout: str,
    scaling_factor: float,
    fill: float,
    norm: str,
    epsilon: float,
    add_residual: bool,
    attn_dropout_rate: float,
    attn_dropout_implementation: str,
    dropout_rate: float,
    dropout_implementation: str,
    cache_by_time: bool,
    like_axes: int,
    kernel: str,
    is_test: bool,
    key: Any,
) -> tuple[Array, ...]:
    source, first_key, second_key = wide(x), *(key or (None, None))
    query = _normal(source, ln_scale, ln_bias, epsilon) if norm == "pre" else source
    others = [wide(m) for m in memory] or [query]
    biases = qkv_bias or (None,) * len(qkv_weight)
    if len(qkv_weight) == 1:
        joint = _linear(query, qkv_weight[0], biases[0], kernel)
        heads = _part_heads(joint, num_heads, layout)
    else:
        sources = (query, others[0], others[-1])
        counts = (num_heads, *(num_kv_heads or num_heads,) * 2)
        linear = map(partial(_linear, kernel=kernel), sources, qkv_weight, biases)
        heads = [jnp.moveaxis(_cut(*part), 2, 1) for part in zip(linear, counts, strict=True)]
    q, k, v = _rotate(heads[0], rotary), _rotate(heads[1], rotary), heads[2]
    kept = _append_to_cache((k.astype(x.dtype), v.astype(x.dtype)), cache, cache_by_time)
    if kept:
        k, v = (_by_time(wide(part)) if cache_by_time else wide(part) for part in kept)
    core = fused_dot_product_attention(
        q,
        _repeat_heads(k, q.shape[1]),
        _repeat_heads(v, q.shape[1]),
        _wide_mask(mask),
        scaling_factor,
        fill,
        attn_dropout_rate,
        attn_dropout_implementation,
        is_test,
        first_key,
    )
    joined = jnp.moveaxis(core, 1, 2)
    columns = joined.shape[2] * joined.shape[3]
    rows, axes = (joined, 2) if like is None else (like, like_axes)
    shape = (0, 0 if axes == 2 else -1, columns)
    joined = joined.reshape(resolve_shape_like(joined.shape, rows.shape, shape))
    out = _linear(joined, linear_weight, linear_bias, kernel)
    out = dropout(out, dropout_rate, is_test, dropout_implementation, second_key)
    out = source + out if add_residual else out
    out = _normal(out, ln_scale, ln_bias, epsilon) if norm == "post" else out
    return out.astype(x.dtype), *kept


def _rotate(x: Array, rotary: tuple[Array, ...]) -> Array:
    """Rotate each pair of an element of a head's first half and one of the second."""
    if not rotary:
        return x
    cosine, sine = map(wide, rotary)
    first, second = jnp.split(x, 2, -1)
    return x * cosine + jnp.concatenate((-second, first), -1) * sine


def _append_to_cache(
    parts: tuple[Array, Array], cache: tuple[Array, ...], by_time: bool
) -> tuple[Array, ...]:
    """Append keys and values to the cache, in its order of axes; () without one."""
    new = map(_by_time, parts) if by_time else parts
    pairs = zip(cache, new, strict=False)
    return tuple(jnp.concatenate(pair, 1 if by_time else 2) for pair in pairs)


def _by_time(x: Array) -> Array:
    return jnp.swapaxes(x, 1, 2)


def _repeat_heads(x: Array, heads: int) -> Array:
    return x if x.shape[1] == heads else jnp.repeat(x, heads // x.shape[1], 1)


def _cut(x: Array, parts: int) -> Array:
    """Split the last axis, [..., parts * n], into [..., parts, n]."""
    return x.reshape(*x.shape[:-1], parts, x.shape[-1] // parts)


def _part_heads(joint: Array, heads: int, layout: str) -> list[Array]:
    """Split a projection [n, length, 3 * heads * size] into q, k, v [n, heads, length, size]."""
    if layout == "split":
        apart = _cut(_cut(joint, 3), heads)
        return [jnp.moveaxis(apart[:, :, part], 2, 1) for part in range(3)]
    apart = _cut(_cut(joint, heads), 3)
    return [jnp.moveaxis(apart[:, :, :, part], 2, 1) for part in range(3)]


def _linear(x: Array, weight: Array, bias: Array | None, kernel: str) -> Array:
    out = matmul(x, wide(weight), False, False, kernel)
    return out if bias is None else out + wide(bias)


def _normal(x: Array, scale: Array | None, bias: Array | None, epsilon: float) -> Array:
    return layer_norm(x, scale, bias, epsilon, x.ndim - 1)[0]


@lowers(ops.FusedFeedforward)
def fused_feedforward(
    x: Array,
    linear1_weight: Array,
    linear1_bias: Array | None,
    linear2_weight: Array,
    linear2_bias: Array | None,
    ln_scale: Array | None,
    ln_bias: Array | None,
    norm: str,
    epsilon: float,
    act_method: str,
    act_attrs: DictionaryAttr,
    add_residual: bool,
    dropout1_rate: float,
    dropout1_implementation: str,
    dropout2_rate: float,
    dropout2_implementation: str,
    kernel: str,
    is_test: bool,
    key: Any,
) -> Array:
    source, first_key, second_key = wide(x), *(key or (None, None))
    inner = _normal(source, ln_scale, ln_bias, epsilon) if norm == "pre" else source
    hidden = _linear(inner, linear1_weight, linear1_bias, kernel)
    attrs = decode_properties(class_of(f"pd.{act_method}"), act_attrs)
    hidden = activate(act_method, hidden, **attrs)
    hidden = dropout(hidden, dropout1_rate, is_test, dropout1_implementation, first_key)
    out = _linear(hidden, linear2_weight, linear2_bias, kernel)
    out = dropout(out, dropout2_rate, is_test, dropout2_implementation, second_key)
    out = source + out if add_residual else out
    out = _normal(out, ln_scale, ln_bias, epsilon) if norm == "post" else out
    return out.astype(x.dtype)
