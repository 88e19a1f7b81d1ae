"""The parts of a Transformer as one op each, by the formulas of Paddle's documentation.

In the declared precision each step rounds, half types to float32 as Paddle's kernels do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr

from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.families import BY_NAME
from graphopt.ir.dialect.ops import transformer as ops
from graphopt.reference.derivatives import hold
from graphopt.reference.ops.activation import activate
from graphopt.reference.ops.linear import product
from graphopt.reference.ops.norm import layer_norm
from graphopt.reference.ops.random import drop_elements
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


def _weigh_values(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    scale: float,
    fill: float,
    drop: Any,
    to: Any,
) -> Array:
    """Compute softmax(scale * q k^T + mask) v, for q [..., t, d], k [..., s, d], v [..., s, e]."""
    scores = to(np.matmul(to(q * to(scale)), np.swapaxes(k, -1, -2)))
    if mask is not None and mask.dtype == np.bool_:
        scores = np.where(mask, scores, to(fill))
    elif mask is not None:
        scores = to(scores + mask)
    if scores.size:
        scores = scores - hold(np.max(hold(scores), axis=-1, keepdims=True))
    powers = np.exp(scores)
    weights = to(powers / np.sum(powers, axis=-1, keepdims=True))
    return to(np.matmul(to(drop(weights)), v))


@rule(ops.FusedDotProductAttention)
def fused_dot_product_attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None,
    scaling_factor: float,
    fill: float,
    transpose_k: bool,
    dropout_probability: float,
    dropout_implementation: str,
    is_test: bool,
    draw: Any,
    wide: Any,
) -> Array:
    k = np.swapaxes(k, -1, -2) if transpose_k else k
    rate, way = dropout_probability, dropout_implementation

    def drop(weights: Array) -> Array:
        return drop_elements(weights, rate, is_test, way, draw() if rate and not is_test else None)

    return _weigh_values(q, k, v, mask, scaling_factor, fill, drop, wide)


@rule(ops.FusedAttention)
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
    is_test: bool,
    draw: Any,
    wide: Any,
) -> tuple[Array, ...]:
    random = not is_test and bool(attn_dropout_rate or dropout_rate)

    def drop_weights(weights: Array) -> Array:
        generator = draw(0) if random else None
        return drop_elements(
            weights, attn_dropout_rate, is_test, attn_dropout_implementation, generator
        )

    inner = _normal(x, ln_scale, ln_bias, epsilon, wide) if norm == "pre" else x
    heads = _joint(inner, qkv_weight, qkv_bias, num_heads, layout, wide)
    if heads is None:
        sources = (inner, memory[0] if memory else inner, memory[-1] if memory else inner)
        biases = qkv_bias or (None, None, None)
        counts = (num_heads, num_kv_heads or num_heads, num_kv_heads or num_heads)
        heads = tuple(
            _in_heads(_linear(source, weight, bias, wide), count)
            for source, weight, bias, count in zip(sources, qkv_weight, biases, counts, strict=True)
        )
    q, k, v = heads
    if rotary:
        q, k = (_rotate_pairs(part, rotary[0], rotary[1], wide) for part in (q, k))
    kept: tuple[Array, ...] = ()
    if cache:
        order = (0, 2, 1, 3) if cache_by_time else (0, 1, 2, 3)
        old = (np.transpose(part, order) for part in cache)
        k, v = (np.concatenate(pair, 2) for pair in zip(old, (k, v), strict=True))
        kept = (np.transpose(k, order), np.transpose(v, order))
    k, v = (np.repeat(part, num_heads // part.shape[1], 1) for part in (k, v))
    core = _weigh_values(q, k, v, mask, scaling_factor, fill, drop_weights, wide)
    rows = np.transpose(core, (0, 2, 1, 3))
    sizes = rows.shape[:2] if like is None else (*like.shape[:like_axes], -1)[:2]
    joined = np.reshape(rows, (*sizes, rows.shape[2] * rows.shape[3]))
    out = _linear(joined, linear_weight, linear_bias, wide)
    generator = draw(1) if random else None
    out = wide(drop_elements(out, dropout_rate, is_test, dropout_implementation, generator))
    out = _finish(out, x, add_residual, norm, ln_scale, ln_bias, epsilon, wide)
    return out, *kept


def _rotate_pairs(x: Array, cosine: Array, sine: Array, to: Any) -> Array:
    half = x.shape[-1] // 2
    other = np.concatenate((-x[..., half:], x[..., :half]), -1)
    return to(to(x * cosine) + to(other * sine))


def _joint(
    x: Array, weights: Any, biases: Any, heads: int, layout: str, to: Any
) -> tuple[Array, ...] | None:
    """Compute q, k and v [n, heads, t, d] by one projection; None when there are three."""
    if len(weights) != 1:
        return None
    all_ = _linear(x, weights[0], biases[0] if biases else None, to)
    rows, length, columns = all_.shape
    size = columns // (3 * heads)
    if layout == "split":
        apart = np.transpose(np.reshape(all_, (rows, length, 3, heads, size)), (2, 0, 3, 1, 4))
    else:
        apart = np.transpose(np.reshape(all_, (rows, length, heads, 3, size)), (3, 0, 2, 1, 4))
    return apart[0], apart[1], apart[2]


def _in_heads(x: Array, heads: int) -> Array:
    rows, length, columns = x.shape
    return np.transpose(np.reshape(x, (rows, length, heads, columns // heads)), (0, 2, 1, 3))


def _linear(x: Array, weight: Array, bias: Array | None, to: Any) -> Array:
    out = to(product(x, weight))
    return out if bias is None else to(out + bias)


def _normal(x: Array, scale: Array | None, bias: Array | None, epsilon: float, to: Any) -> Array:
    return to(layer_norm(x, scale, bias, epsilon, x.ndim - 1)[0])


def _finish(
    out: Array,
    x: Array,
    add_residual: bool,
    norm: str,
    scale: Array | None,
    bias: Array | None,
    epsilon: float,
    to: Any,
) -> Array:
    """Add the residual, and apply the norm if it comes last."""
    out = to(x + out) if add_residual else out
    return _normal(out, scale, bias, epsilon, to) if norm == "post" else out


@rule(ops.FusedFeedforward)
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
    is_test: bool,
    draw: Any,
    wide: Any,
) -> Array:
    random = not is_test and bool(dropout1_rate or dropout2_rate)
    first, second = (draw(0), draw(1)) if random else (None, None)
    inner = _normal(x, ln_scale, ln_bias, epsilon, wide) if norm == "pre" else x
    hidden = _linear(inner, linear1_weight, linear1_bias, wide)
    hidden = activate(act_method, hidden, wide, **_decode_attributes(act_method, act_attrs))
    hidden = wide(drop_elements(hidden, dropout1_rate, is_test, dropout1_implementation, first))
    out = _linear(hidden, linear2_weight, linear2_bias, wide)
    out = wide(drop_elements(out, dropout2_rate, is_test, dropout2_implementation, second))
    return _finish(out, x, add_residual, norm, ln_scale, ln_bias, epsilon, wide)


def _decode_attributes(name: str, attrs: DictionaryAttr) -> dict[str, Any]:
    """Decode the properties of an activation to Python values."""
    op_class = BY_NAME.get(f"pd.{name}")
    kinds = attr_kinds(op_class) if op_class is not None else {}
    return {key: kinds[key].decode(value) for key, value in attrs.data.items() if key in kinds}
