"""The parts of a Transformer, with opset 23's Attention where it computes the same result."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as ir
from xdsl.dialects.builtin import DictionaryAttr

from graphopt.ir.dialect.ops import transformer as ops
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.ops.fused import apply_activation
from graphopt.models.export.onnx.ops.linear import transpose_last
from graphopt.models.export.onnx.ops.norm import layer_norm
from graphopt.models.export.onnx.ops.random import dropout
from graphopt.models.export.onnx.registry import exports


@exports(ops.FusedDotProductAttention, wide=True)
def fused_dot_product_attention(
    emit: Nodes,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None,
    scaling_factor: float,
    fill: float,
    dropout_probability: float,
    dropout_implementation: str,
    is_test: bool,
    transpose_k: bool,
) -> Value:
    if dropout_probability and not is_test:
        raise NotInOnnx("the operator is in training mode, with dropout")
    ranks = {len(sizes_of(value)) for value in (q, k, v)}
    kept = 1 - dropout_probability if dropout_implementation != "upscale_in_train" else 1.0
    if emit.shared.opset >= ATTENTION and ranks == {4} and _is_plain(mask, fill):
        k = transpose_last(emit, k) if transpose_k else k
        mask = None if mask is None else _whole_mask(emit, q, k, mask)
        out = emit("Attention", q, k, v, mask, scale=scaling_factor)
        return emit("Mul", out, emit.number(kept, out)) if kept != 1 else out
    columns = k if transpose_k else transpose_last(emit, k)
    return _attention(emit, q, columns, v, mask, scaling_factor, fill, kept)


ATTENTION = 23
"""The first opset that has attention as one operator."""


def _whole_mask(emit: Nodes, q: Value, k: Value, mask: Value) -> Value:
    """Expand a mask to all query-key pairs: ONNX Runtime does not broadcast its rows."""
    wanted, own = (sizes_of(q)[-2], sizes_of(k)[-2]), sizes_of(mask)[-2:]
    if UNKNOWN in wanted or wanted != own:
        mask = emit("Expand", mask, emit.join_sizes([emit.size(q, 2), emit.size(k, 2)]))
    return mask if dtype_of(mask) == "bool" else emit.cast(mask, dtype_of(q))


def _is_plain(mask: Value | None, fill: float) -> bool:
    """True if the Attention operator supports the mask."""
    return mask is None or dtype_of(mask) != "bool" or fill == -math.inf


def _attention(
    emit: Nodes,
    q: Value,
    columns: Value,
    v: Value,
    mask: Value | None,
    scaling_factor: float,
    fill: float,
    kept: float,
) -> Value:
    """Compute attention by matrix products; the keys are in columns."""
    scaled = emit("Mul", q, emit.number(scaling_factor, q)) if scaling_factor != 1 else q
    scores = emit("MatMul", scaled, columns)
    if mask is not None and dtype_of(mask) == "bool":
        scores = emit("Where", mask, scores, emit.number(fill, q))
    elif mask is not None:
        scores = emit("Add", scores, emit.cast(mask, dtype_of(scores)))
    shares = emit("Softmax", scores, axis=-1)
    shares = emit("Mul", shares, emit.number(kept, q)) if kept != 1 else shares
    return emit("MatMul", shares, v)


@exports(ops.FusedAttention, wide=True)
def fused_attention(
    emit: Nodes,
    x: Value,
    memory: Sequence[Value],
    qkv_weight: Sequence[Value],
    qkv_bias: Sequence[Value],
    mask: Value | None,
    linear_weight: Value,
    linear_bias: Value | None,
    ln_scale: Value | None,
    ln_bias: Value | None,
    rotary: Sequence[Value],
    cache: Sequence[Value],
    like: Value | None,
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
) -> tuple[Value, ...]:
    query = _normal(emit, x, ln_scale, ln_bias, epsilon) if norm == "pre" else x
    others = list(memory) or [query]
    biases = list(qkv_bias) or [None] * len(qkv_weight)
    if len(qkv_weight) == 1:
        heads = _part_heads(emit, _linear(emit, query, qkv_weight[0], biases[0]), num_heads, layout)
    else:
        sources = (query, others[0], others[-1])
        counts = (num_heads, *(num_kv_heads or num_heads,) * 2)
        heads = [
            _by_head(emit, emit.reshape(_linear(emit, source, weight, bias), [0, 0, count, -1]))
            for source, weight, bias, count in zip(sources, qkv_weight, biases, counts, strict=True)
        ]
    q, k = (_rotate(emit, part, rotary) for part in heads[:2])
    kept = _append_to_cache(emit, (k, heads[2]), cache, cache_by_time)
    k, v = (_by_head(emit, part) if cache_by_time else part for part in kept or (k, heads[2]))
    if num_kv_heads and num_kv_heads != num_heads:
        k, v = (_repeat_heads(emit, part, num_kv_heads, num_heads) for part in (k, v))
    for value in (q, k, v):
        value.shape = _FOUR
    core = fused_dot_product_attention(
        *(emit, q, k, v, mask, scaling_factor, fill, attn_dropout_rate),
        *(attn_dropout_implementation, is_test, False),
    )
    rows = x if like is None else like
    front = [emit.size(rows, at) for at in range(like_axes if like is not None else 2)]
    sizes = [*front, -1] if len(front) == 2 else [*front, -1, emit.size(linear_weight, 0)]
    joined = emit.reshape(_by_head(emit, core), sizes)
    out = _linear(emit, joined, linear_weight, linear_bias)
    out = dropout(emit, out, dropout_rate, is_test, dropout_implementation)
    out = emit("Add", x, out) if add_residual else out
    out = _normal(emit, out, ln_scale, ln_bias, epsilon, x) if norm == "post" else out
    return out, *kept


_FOUR = ir.Shape([None] * 4)


def _normal(
    emit: Nodes,
    x: Value,
    scale: Value | None,
    bias: Value | None,
    epsilon: float,
    like: Value | None = None,
) -> Value:
    x.shape = x.shape if like is None else like.shape
    found = layer_norm(emit, x, scale, bias, epsilon, len(sizes_of(x)) - 1)[0]
    assert found is not None
    return found


def _linear(emit: Nodes, x: Value, weight: Value, bias: Value | None) -> Value:
    out = emit("MatMul", x, weight)
    return out if bias is None else emit("Add", out, bias)


def _by_head(emit: Nodes, x: Value) -> Value:
    """Swap the second and the third of four axes."""
    return emit.transpose(x, (0, 2, 1, 3))


def _part_heads(emit: Nodes, joint: Value, heads: int, layout: str) -> list[Value]:
    """Split a projection [n, length, 3 * heads * size] into q, k, v [n, heads, length, size]."""
    split = layout == "split"
    apart = emit.reshape(joint, [0, 0, 3, heads, -1] if split else [0, 0, heads, 3, -1])
    axis = 2 if split else 3
    parts = emit.all("Split", apart, dtypes=[None] * 3, axis=axis, num_outputs=3)
    return [_by_head(emit, emit.squeeze(part, axis)) for part in parts]


def _rotate(emit: Nodes, x: Value, rotary: Sequence[Value]) -> Value:
    """Rotate each pair of an element of a head's first half and one of its second half."""
    if not rotary:
        return x
    cosine, sine = rotary
    first, second = emit.all("Split", x, dtypes=[None] * 2, axis=-1, num_outputs=2)
    turned = emit("Concat", emit("Neg", second), first, axis=-1)
    return emit("Add", emit("Mul", x, cosine), emit("Mul", turned, sine))


def _append_to_cache(
    emit: Nodes, parts: Sequence[Value], cache: Sequence[Value], by_time: bool
) -> tuple[Value, ...]:
    """Append keys and values to the cache, in its order of axes; () without a cache."""
    new = [_by_head(emit, part) for part in parts] if by_time and cache else parts
    pairs = zip(cache, new, strict=False)
    return tuple(emit("Concat", *pair, axis=1 if by_time else 2) for pair in pairs)


def _repeat_heads(emit: Nodes, x: Value, own: int, heads: int) -> Value:
    """Repeat each key or value head for its query heads."""
    places = [at for at in range(own) for _ in range(heads // own)]
    return emit("Gather", x, emit.ints(places), axis=1)


@exports(ops.FusedFeedforward, wide=True)
def fused_feedforward(
    emit: Nodes,
    x: Value,
    linear1_weight: Value,
    linear1_bias: Value | None,
    linear2_weight: Value,
    linear2_bias: Value | None,
    ln_scale: Value | None,
    ln_bias: Value | None,
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
) -> Value:
    inner = _normal(emit, x, ln_scale, ln_bias, epsilon) if norm == "pre" else x
    hidden = apply_activation(
        emit, act_method, _linear(emit, inner, linear1_weight, linear1_bias), act_attrs
    )
    hidden = dropout(emit, hidden, dropout1_rate, is_test, dropout1_implementation)
    out = _linear(emit, hidden, linear2_weight, linear2_bias)
    out = dropout(emit, out, dropout2_rate, is_test, dropout2_implementation)
    out = emit("Add", x, out) if add_residual else out
    return _normal(emit, out, ln_scale, ln_bias, epsilon, x) if norm == "post" else out
