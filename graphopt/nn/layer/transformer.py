"""Attention and Transformer encoders (Vaswani et al., 2017)."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, NamedTuple

from graphopt.frontend import arguments, lazy
from graphopt.frontend.parameters import as_param_attr
from graphopt.ir.program import Variable
from graphopt.nn import functional
from graphopt.nn.functional.activation import softmax
from graphopt.nn.functional.common import dropout
from graphopt.nn.layer.batch import batch_filled
from graphopt.nn.layer.common import Linear
from graphopt.nn.layer.container import LayerList
from graphopt.nn.layer.layers import Layer
from graphopt.nn.layer.norm import LayerNorm
from graphopt.nn.layer.of_functions import Dropout
from graphopt.tensor.linalg import matmul, transpose
from graphopt.tensor.manipulation import cast, concat, reshape
from graphopt.tensor.math import add, scale


def find_activation(name: str, function: str) -> Callable[[Variable], Variable]:
    """Look up a function of paddle.nn.functional by name; raise ValueError if there is none."""
    if not isinstance(name, str) or not callable(getattr(functional, name, None)):
        raise ValueError(f"{function}(): 'activation' names no activation function: {name!r}")
    return getattr(functional, name)


class Cache(NamedTuple):
    """Keys and values that later steps extend."""

    k: Variable
    v: Variable


class StaticCache(NamedTuple):
    """Keys and values of a memory, computed once."""

    k: Variable
    v: Variable


def additive_mask(mask: Variable | None, dtype: Any) -> Variable | None:
    """Convert a bool or integer mask to an additive one: 0 where true, -1e9 elsewhere."""
    if mask is None or mask.dtype.is_floating:
        return mask
    return scale(cast(mask, dtype), 1e9, -1e9)


class MultiHeadAttention(Layer):
    """Scaled dot-product attention in `num_heads` parts (paddle.nn.MultiHeadAttention).

    Queries are [n, l, embed_dim], keys and values [n, m, kdim or vdim]; the result is [n, l,
    embed_dim], followed with `need_weights` by the attention [n, heads, l, m]. `attn_mask` is added
    to the scores (bool masks keep the true elements). A `cache` is extended and returned.
    """

    Cache = Cache
    StaticCache = StaticCache

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        kdim: int | None = None,
        vdim: int | None = None,
        need_weights: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(
                f"MultiHeadAttention(): embed_dim {embed_dim} must be divisible by num_heads "
                f"{num_heads}, and both greater than 0"
            )
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout, self.need_weights = dropout, need_weights
        self.q_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)
        self.k_proj = Linear(kdim or embed_dim, embed_dim, weight_attr, bias_attr)
        self.v_proj = Linear(vdim or embed_dim, embed_dim, weight_attr, bias_attr)
        self.out_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)

    def _heads(self, x: Variable) -> Variable:
        """Reshape [n, l, embed_dim] to [n, heads, l, head_dim]."""
        return transpose(reshape(x, [0, 0, self.num_heads, self.head_dim]), [0, 2, 1, 3])

    def compute_kv(self, key: Variable, value: Variable) -> tuple[Variable, Variable]:
        """Project keys and values, and split them into heads."""
        return self._heads(self.k_proj(key)), self._heads(self.v_proj(value))

    def gen_cache(self, key: Variable, value: Variable | None = None, type: Any = Cache) -> Any:
        """Create a StaticCache of a memory, or a Cache of keys and values in heads.

        Without `value` the Cache is empty, for as many sequences as `key` has.
        """
        if type is StaticCache:
            return StaticCache(*self.compute_kv(key, key if value is None else value))
        if value is None:
            sizes = [self.num_heads, 0, self.head_dim]
            return Cache(*(batch_filled(key, 0, 0.0, sizes, key.dtype) for _ in range(2)))
        return Cache(key, value)

    def forward(
        self,
        query: Variable,
        key: Variable | None = None,
        value: Variable | None = None,
        attn_mask: Variable | None = None,
        cache: Any = None,
    ) -> Any:
        arguments.variable(query, "query", "MultiHeadAttention")
        key = query if key is None else key
        value = query if value is None else value
        q = self._heads(self.q_proj(query))
        k, v = cache if isinstance(cache, StaticCache) else self.compute_kv(key, value)
        if isinstance(cache, Cache):
            k, v = concat([cache.k, k], axis=2), concat([cache.v, v], axis=2)
            cache = Cache(k, v)
        scores = matmul(scale(q, self.head_dim**-0.5), k, transpose_y=True)
        mask = additive_mask(attn_mask, scores.dtype)
        weights = softmax(scores if mask is None else add(scores, mask))
        if self.dropout:
            weights = dropout(weights, self.dropout, training=self.training)
        joined = reshape(transpose(matmul(weights, v), [0, 2, 1, 3]), [0, 0, self.embed_dim])
        outs = [self.out_proj(joined)]
        outs += [weights] if self.need_weights else []
        outs += [] if cache is None else [cache]
        return outs[0] if len(outs) == 1 else tuple(outs)


def spread_attribute(attr: Any, count: int) -> list[Any]:
    """Return one attribute per part of a layer; number the names of a shared attribute."""
    if isinstance(attr, (list, tuple)):
        if len(attr) != count:
            raise ValueError(f"expected {count} attributes, found {len(attr)}")
        return list(attr)
    shared = as_param_attr(attr)
    if shared is None:
        return [False] * count
    copies = [copy(shared) for _ in range(count)]
    for number, each in enumerate(copies):
        each.name = each.name and f"{each.name}_{number}"
    return copies


class TransformerEncoderLayer(Layer):
    """Self-attention and a feed-forward net with residuals (paddle.nn.TransformerEncoderLayer).

    `normalize_before` puts the layer norms first in each half instead of last. `weight_attr` and
    `bias_attr` may be pairs: attention, feed-forward.
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
        layer_norm_eps: float = 1e-5,
    ) -> None:
        given = dict(locals())
        super().__init__()
        self._config = {k: v for k, v in given.items() if k not in ("self", "__class__")}
        weights, biases = spread_attribute(weight_attr, 2), spread_attribute(bias_attr, 2)
        self.normalize_before = normalize_before
        self.self_attn = MultiHeadAttention(
            d_model,
            nhead,
            dropout if attn_dropout is None else attn_dropout,
            weight_attr=weights[0],
            bias_attr=biases[0],
        )
        self.linear1 = Linear(d_model, dim_feedforward, weights[1], biases[1])
        self.dropout = Dropout(dropout if act_dropout is None else act_dropout)
        self.linear2 = Linear(dim_feedforward, d_model, weights[1], biases[1])
        self.norm1 = LayerNorm(d_model, layer_norm_eps)
        self.norm2 = LayerNorm(d_model, layer_norm_eps)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = find_activation(activation, "TransformerEncoderLayer")

    def forward(self, src: Variable, src_mask: Variable | None = None, cache: Any = None) -> Any:
        residual = src
        src = self.norm1(src) if self.normalize_before else src
        if cache is None:
            src = self.self_attn(src, src, src, src_mask)
        else:
            src, cache = self.self_attn(src, src, src, src_mask, cache)
        src = add(residual, self.dropout1(src))
        src = src if self.normalize_before else self.norm1(src)
        residual = src
        src = self.norm2(src) if self.normalize_before else src
        src = self.linear2(self.dropout(self.activation(self.linear1(src))))
        src = add(residual, self.dropout2(src))
        src = src if self.normalize_before else self.norm2(src)
        return src if cache is None else (src, cache)

    def gen_cache(self, src: Variable) -> Cache:
        """Create an empty cache for as many sequences as `src` has."""
        return self.self_attn.gen_cache(src)


class TransformerEncoder(Layer):
    """`num_layers` layers like `encoder_layer`, and a norm at the end (nn.TransformerEncoder).

    The first layer is `encoder_layer` itself; the others are created with its arguments.
    """

    def __init__(self, encoder_layer: Any, num_layers: int, norm: Layer | None = None) -> None:
        super().__init__()
        config = encoder_layer._config
        others = [type(encoder_layer)(**config) for _ in range(num_layers - 1)]
        self.layers = LayerList([encoder_layer, *others])
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, src: Variable, src_mask: Variable | None = None, cache: Any = None) -> Any:
        new_caches: list[Any] = []
        for number, layer in enumerate(self.layers):
            if cache is None:
                src = layer(src, src_mask)
            else:
                src, new = layer(src, src_mask, cache[number])
                new_caches.append(new)
        src = src if self.norm is None else self.norm(src)
        return src if cache is None else (src, new_caches)

    def gen_cache(self, src: Variable) -> list[Any]:
        """Create an empty cache for each layer."""
        return [layer.gen_cache(src) for layer in self.layers]


lazy.join_package(globals())
