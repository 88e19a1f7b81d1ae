"""Samples of the Transformer ops; lowering/test_attention.py has more."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import transformer as ops
from graphopt_tests.ops.base import Array, bf16, f32, f64, flags, sample


def softmax(x: Array) -> Array:
    exponential = np.exp(x - x.max(-1, keepdims=True))
    return exponential / exponential.sum(-1, keepdims=True)


def core(q: Array, k: Array, v: Array, mask: Array | None = None, scale: float = 1.0) -> Array:
    scores = scale * q @ k.swapaxes(-1, -2)
    return softmax(scores if mask is None else scores + mask) @ v


def normal(x: Array, scale: Array, bias: Array) -> Array:
    deviation = np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    return (x - x.mean(-1, keepdims=True)) / deviation * scale + bias


def heads(x: Array, count: int) -> Array:
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


def joined(x: Array) -> Array:
    x = x.transpose(0, 2, 1, 3)
    return x.reshape(*x.shape[:2], -1)


def separate(
    x: Array,
    memory: list[Array],
    weights: list[Array],
    biases: list[Array],
    mask: Array | None,
    out: Array,
    out_bias: Array,
    scale: Array,
    bias: Array,
) -> Array:
    """Compute attention with separate weights: two heads, post-norm, with a residual."""
    sources = (x, *(memory or [x]) * 2)[:3]
    parts = zip(sources, weights, biases, strict=True)
    q, k, v = (heads(s @ w + b, 2) for s, w, b in parts)
    return normal(x + joined(core(q, k, v, mask, 0.5)) @ out + out_bias, scale, bias)


def joint(x: Array, _: Any, weights: list[Array], *rest: Any) -> Array:
    """Compute attention with joint weights by heads: two heads, plain pre-norm, no option."""
    out = rest[2]
    one = np.ones(1)
    parts = (normal(x, one, 0 * one) @ weights[0]).reshape(*x.shape[:2], 2, 3, -1)
    q, k, v = parts.transpose(3, 0, 2, 1, 4)
    return joined(core(q, k, v)) @ out


def turned(x: Array, cosine: Array, sine: Array) -> Array:
    """Apply rotary positions to [n, heads, t, d], pair by pair."""
    half, out = x.shape[-1] // 2, x * cosine
    for i in range(half):
        out[..., i] -= (x[..., half + i, None] * sine)[..., i]
        out[..., half + i] += (x[..., i, None] * sine)[..., half + i]
    return out


def decoding(
    x: Array,
    _: Any,
    weights: list[Array],
    biases: Any,
    mask: Any,
    out: Array,
    *rest: Any,
) -> tuple[Array, ...]:
    """Compute attention with a cache: four heads of queries for two of keys and values."""
    rotary, cache = rest[3], rest[4]
    q, k, v = (heads(x @ w, count) for w, count in zip(weights, (4, 2, 2), strict=True))
    keys = np.concatenate((cache[0], turned(k, *rotary).transpose(0, 2, 1, 3)), 1)
    values = np.concatenate((cache[1], v.transpose(0, 2, 1, 3)), 1)
    k, v = (np.repeat(part.transpose(0, 2, 1, 3), 2, 1) for part in (keys, values))
    return joined(core(turned(q, *rotary), k, v, None, 0.1)) @ out, keys, values


def feed_forward(
    x: Array, w1: Array, b1: Array, w2: Array, b2: Array, scale: Array, bias: Array
) -> Array:
    return x + np.tanh(normal(x, scale, bias) @ w1 + b1) @ w2 + b2


def square(make: Any, size: int = 4) -> list[Array]:
    return [make(size, size) for _ in range(3)]


def vectors(make: Any, size: int = 4) -> list[Array]:
    return [make(size) for _ in range(3)]


SAMPLES = {
    ops.FusedDotProductAttention: [
        sample(f32(2, 2, 3, 4), f32(2, 2, 5, 4), f32(2, 2, 5, 3)).gives(core),
        sample(f32(2, 3, 4), f32(2, 5, 4), f32(2, 5, 2), f32(3, 5), scaling_factor=0.5).gives(
            lambda *operands: core(*operands, scale=0.5)
        ),
        sample(bf16(2, 3, 4), bf16(2, 5, 4), bf16(2, 5, 2), f32(3, 5)),
        sample(f64(3, 4), f64(4, 5), f64(5, 2), transpose_k=True).gives(
            lambda q, k, v, mask=None: core(q, k.T, v)
        ),
        sample(f64(3, 4), f64(5, 4), f64(5, 4), flags(3, 5), fill=-2.0, dropout_probability=0.5),
        sample(bf16(1, 3, 4), bf16(1, 3, 4), bf16(1, 3, 4), flags([True, True, False])),
        sample(
            f64(1, 2, 3, 4),
            f64(1, 2, 3, 4),
            f64(1, 2, 3, 4),
            dropout_probability=0.25,
            dropout_implementation="downgrade_in_infer",
            is_test=True,
        ).gives(lambda q, k, v, mask=None: 0.75 * core(q, k, v)),
    ],
    ops.FusedAttention: [
        sample(
            *(f32(2, 3, 4), [], square(f32), vectors(f32), f32(2, 1, 3, 3)),
            *(f32(4, 4), f32(4), f32(4), f32(4)),
            num_heads=2,
            scaling_factor=0.5,
            norm="post",
        ).gives(separate),
        sample(
            *(f64(2, 3, 4), [f64(2, 5, 4)], square(f64), vectors(f64), f64(3, 5)),
            *(f64(4, 4), f64(4), f64(4), f64(4)),
            num_heads=2,
            scaling_factor=0.5,
            norm="post",
        ).gives(separate),
        sample(
            *(f64(2, 3, 4), [], [f64(4, 12)], [], None, f64(4, 6)),
            num_heads=2,
            layout="heads",
            norm="pre",
            add_residual=False,
        ).gives(joint),
        sample(
            *(f64(1, 3, 4), [f64(1, 2, 3), f64(1, 2, 5)], [f64(4, 6), f64(3, 6), f64(5, 4)], []),
            *(flags([[True, False]]), f64(4, 4), f64(4)),
            num_heads=2,
            attn_dropout_rate=0.3,
            dropout_rate=0.2,
            rng_id=1,
            other_rng_id=2,
        ),
        sample(
            *(f32(2, 3, 8), [], [f32(8, 16), f32(8, 8), f32(8, 8)], [], None, f32(16, 5)),
            *(None, None, None, [f32(3, 4), f32(2, 1, 3, 4)]),
            [f32(2, 5, 2, 4), f32(2, 5, 2, 4)],
            num_heads=4,
            num_kv_heads=2,
            scaling_factor=0.1,  # no probability underflows in float32
            add_residual=False,
            cache_by_time=True,
        ).gives(decoding),
        sample(
            *(f64(2, 3, 4), [], [f64(4, 12)], [], f64(2, 1, 1, 8), f64(4, 4), None, None, None, []),
            *([f64(2, 2, 5, 2), f64(2, 2, 5, 2)], f64(2, 7)),
            num_heads=2,
            like_axes=1,
        ),
        sample(
            *(bf16(2, 3, 4), [], [bf16(4, 12)], [], None, bf16(4, 4), None, None, None),
            *([bf16(3, 2), bf16(3, 2)], [bf16(2, 2, 1, 2), bf16(2, 2, 1, 2)], f32(2, 3)),
            num_heads=2,
        ),
        sample(
            *(bf16(1, 2, 4), [], [bf16(4, 12)], [bf16(12)], None, bf16(4, 4)),
            num_heads=1,
            dropout_rate=0.5,
            dropout_implementation="downgrade_in_infer",
            is_test=True,
        ),
    ],
    ops.FusedFeedforward: [
        sample(
            *(f32(2, 3, 4), f32(4, 5), f32(5), f32(5, 4), f32(4), f32(4), f32(4)),
            norm="pre",
            act_method="tanh",
        ).gives(feed_forward),
        sample(*(f64(3, 4), f64(4, 5), None, f64(5, 2)), act_method="gelu", add_residual=False),
        sample(
            *(f64(3, 4), f64(4, 5), f64(5), f64(5, 4), f64(4)),
            norm="post",
            act_method="sigmoid",
            dropout1_rate=0.5,
            dropout2_rate=0.5,
            seed=3,
            other_rng_id=1,
        ),
        sample(bf16(3, 4), bf16(4, 5), bf16(5), bf16(5, 4), bf16(4)),
    ],
}
