"""Attention as a function."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.nn.functional.activation import softmax
from graphopt.nn.functional.common import dropout
from graphopt.tensor.attribute import shape
from graphopt.tensor.creation import assign, full
from graphopt.tensor.linalg import matmul, transpose
from graphopt.tensor.math import add
from graphopt.tensor.math import scale as multiply_by
from graphopt.tensor.ranges import tril
from graphopt.tensor.rearrange import repeat_interleave
from graphopt.tensor.search import where


def scaled_dot_product_attention(
    query: Variable,
    key: Variable,
    value: Variable,
    attn_mask: Variable | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    name: str | None = None,
    *,
    backend: str | None = None,
    scale: float | None = None,
    enable_gqa: bool = True,
) -> Variable:
    """Compute softmax(query @ key / sqrt(size)) @ value over [batch, length, heads, size].

    `scale` replaces 1 / sqrt(size). With `enable_gqa` a head of the key and of the value may serve
    several consecutive heads of the query. `backend` names a kernel of Paddle's and has no effect.
    `attn_mask` broadcasts to [batch, heads, length of query, length of key]: False elements of a
    bool mask are excluded, a floating-point mask is added. `is_causal` excludes later positions.
    Paddle page: paddle.nn.functional.scaled_dot_product_attention.
    """
    function = "scaled_dot_product_attention"
    heads: list[Variable] = []
    for what, tensor in (("query", query), ("key", key), ("value", value)):
        if len(arguments.variable(tensor, what, function).shape) != 4:
            raise ValueError(
                f"{function}(): '{what}' should be [batch, length, heads, size], found "
                f"{list(tensor.shape)}"
            )
        heads.append(transpose(tensor, [0, 2, 1, 3]))
    q, k, v = heads
    if enable_gqa:
        q, k, v = _repeat_heads(q, k, v, function)
    if not q.shape[1] == k.shape[1] == v.shape[1]:
        raise ValueError(
            f"{function}(): query, key and value should have as many heads, found {q.shape[1]}, "
            f"{k.shape[1]} and {v.shape[1]}"
        )
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    weights = matmul(multiply_by(q, factor), k, transpose_y=True)
    if arguments.flag(is_causal, "is_causal", function):
        if attn_mask is not None:
            raise ValueError(
                f"{function}(): is_causal=True is a mask of its own; leave out 'attn_mask', or add "
                "the causal mask to it and leave out 'is_causal'"
            )
        rows, columns = query.shape[1], key.shape[1]
        if min(rows, columns) < 0:
            seen = tril(full([shape(query)[1], shape(key)[1]], True, "bool"))
        else:
            seen = assign(np.tril(np.ones((rows, columns), bool)))
        weights = where(seen, weights, full([], -math.inf, weights.dtype))
    elif attn_mask is not None and attn_mask.dtype == "bool":
        weights = where(attn_mask, weights, full([], -math.inf, weights.dtype))
    elif attn_mask is not None:
        weights = add(weights, attn_mask)
    shares = softmax(weights)
    if dropout_p:
        shares = dropout(shares, dropout_p, training=training)
    return transpose(matmul(shares, v), [0, 2, 1, 3], name)


def _repeat_heads(
    q: Variable, k: Variable, v: Variable, function: str
) -> tuple[Variable, Variable, Variable]:
    """Repeat the heads of k and v so that each head of q has its own."""
    wanted, found = q.shape[1], k.shape[1]
    if found == wanted or found <= 0 or k.shape[1] != v.shape[1]:
        return q, k, v
    if wanted % found:
        raise ValueError(
            f"{function}(): the {wanted} heads of the query should be a multiple of the {found} "
            "heads of the key"
        )
    times = wanted // found
    return q, repeat_interleave(k, times, 1), repeat_interleave(v, times, 1)


def sparse_attention(*args: Any, **kwargs: Any) -> NoReturn:
    """Raise UnsupportedError: a kernel of CUDA 11.3 and later (nn.functional.sparse_attention)."""
    raise UnsupportedError(
        "sparse_attention() is a CUDA kernel; use scaled_dot_product_attention with a bool mask"
    )
