"""Transformer decoders, and the whole Transformer (Vaswani et al., 2017)."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.frontend import arguments
from graphopt.frontend.mode import get_default_dtype
from graphopt.ir.program import Variable
from graphopt.nn.layer.common import Linear
from graphopt.nn.layer.container import LayerList
from graphopt.nn.layer.layers import Layer
from graphopt.nn.layer.norm import LayerNorm
from graphopt.nn.layer.of_functions import Dropout
from graphopt.nn.layer.transformer import (
    Cache,
    MultiHeadAttention,
    StaticCache,
    TransformerEncoder,
    TransformerEncoderLayer,
    find_activation,
    spread_attribute,
)
from graphopt.tensor.creation import assign
from graphopt.tensor.math import add


class TransformerDecoderLayer(Layer):
    """Self-attention, attention to a memory, a feed-forward net (nn.TransformerDecoderLayer).

    Targets are [n, l, d_model], the memory [n, m, d_model]. `normalize_before` puts the layer norms
    first in each part instead of last. `weight_attr` and `bias_attr` may be triples: attention,
    attention to the memory, feed-forward. With a cache (see gen_cache) the result is followed by
    the extended cache.
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
        weights, biases = spread_attribute(weight_attr, 3), spread_attribute(bias_attr, 3)
        self.normalize_before = normalize_before
        attention = dropout if attn_dropout is None else attn_dropout
        self.self_attn, self.cross_attn = (
            MultiHeadAttention(
                d_model, nhead, attention, weight_attr=weights[at], bias_attr=biases[at]
            )
            for at in (0, 1)
        )
        self.linear1 = Linear(d_model, dim_feedforward, weights[2], biases[2])
        self.dropout = Dropout(dropout if act_dropout is None else act_dropout)
        self.linear2 = Linear(dim_feedforward, d_model, weights[2], biases[2])
        self.norm1 = LayerNorm(d_model, layer_norm_eps)
        self.norm2 = LayerNorm(d_model, layer_norm_eps)
        self.norm3 = LayerNorm(d_model, layer_norm_eps)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = find_activation(activation, "TransformerDecoderLayer")

    def forward(
        self,
        tgt: Variable,
        memory: Variable,
        tgt_mask: Variable | None = None,
        memory_mask: Variable | None = None,
        cache: Any = None,
    ) -> Any:
        own, static = (None, None) if cache is None else cache
        caches: list[Any] = []

        def attend(attention: Any, x: Variable, to: Variable | None, mask: Any, held: Any) -> Any:
            to = x if to is None else to
            if held is None:
                return attention(x, to, to, mask)
            out, new = attention(x, to, to, mask, held)
            caches.append(new)
            return out

        def feed_forward(x: Variable) -> Variable:
            return self.linear2(self.dropout(self.activation(self.linear1(x))))

        parts = (
            (self.norm1, self.dropout1, lambda x: attend(self.self_attn, x, None, tgt_mask, own)),
            (
                self.norm2,
                self.dropout2,
                lambda x: attend(self.cross_attn, x, memory, memory_mask, static),
            ),
            (self.norm3, self.dropout3, feed_forward),
        )
        for norm, drop, part in parts:
            out = add(tgt, drop(part(norm(tgt) if self.normalize_before else tgt)))
            tgt = out if self.normalize_before else norm(out)
        return tgt if cache is None else (tgt, tuple(caches))

    def gen_cache(self, memory: Variable) -> tuple[Cache, StaticCache]:
        """Create an empty self-attention cache, and the projected keys and values of the memory."""
        static = self.cross_attn.gen_cache(memory, memory, StaticCache)
        return self.self_attn.gen_cache(memory), static


class TransformerDecoder(Layer):
    """`num_layers` layers like `decoder_layer`, and a norm at the end (nn.TransformerDecoder).

    The first layer is `decoder_layer` itself; the others are created with its arguments.
    """

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Layer | None = None) -> None:
        super().__init__()
        config = decoder_layer._config
        others = [type(decoder_layer)(**config) for _ in range(num_layers - 1)]
        self.layers = LayerList([decoder_layer, *others])
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Variable,
        memory: Variable,
        tgt_mask: Variable | None = None,
        memory_mask: Variable | None = None,
        cache: Any = None,
    ) -> Any:
        new_caches: list[Any] = []
        for number, layer in enumerate(self.layers):
            if cache is None:
                tgt = layer(tgt, memory, tgt_mask, memory_mask)
            else:
                tgt, new = layer(tgt, memory, tgt_mask, memory_mask, cache[number])
                new_caches.append(new)
        tgt = tgt if self.norm is None else self.norm(tgt)
        return tgt if cache is None else (tgt, new_caches)

    def gen_cache(self, memory: Variable, do_zip: bool = False) -> list[Any]:
        """Create the caches of each layer; with `do_zip` grouped by kind."""
        caches = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*caches, strict=True)) if do_zip else caches


def _attrs(attr: Any, name: str) -> tuple[Any, Any]:
    """Split attributes for encoder layers (two) and decoder layers (three)."""
    if not isinstance(attr, (list, tuple)):
        return attr, attr
    if len(attr) not in (1, 2, 3):
        raise ValueError(f"Transformer(): {name} should be one attribute or up to three of them")
    first, middle, last = attr[0], attr[1 if len(attr) == 3 else 0], attr[-1]
    return [first, last], [first, middle, last]


class Transformer(Layer):
    """An encoder of sources and a decoder of targets, each with a norm (paddle.nn.Transformer).

    Sources are [n, m, d_model], targets [n, l, d_model], and so is the result. Masks are added to
    the scores (bool ones keep the true elements). `weight_attr` and `bias_attr` may be lists:
    attention, attention to the memory, feed-forward.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str = "relu",
        attn_dropout: float | None = None,
        act_dropout: float | None = None,
        normalize_before: bool = False,
        weight_attr: Any = None,
        bias_attr: Any = None,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
    ) -> None:
        super().__init__()
        weights, biases = _attrs(weight_attr, "weight_attr"), _attrs(bias_attr, "bias_attr")
        sizes = (d_model, nhead, dim_feedforward)
        options = (dropout, activation, attn_dropout, act_dropout, normalize_before)
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*sizes, *options, weights[0], biases[0])
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, LayerNorm(d_model))
        self.encoder = custom_encoder
        if custom_decoder is None:
            layer = TransformerDecoderLayer(*sizes, *options, weights[1], biases[1])
            custom_decoder = TransformerDecoder(layer, num_decoder_layers, LayerNorm(d_model))
        self.decoder = custom_decoder
        self.d_model, self.nhead = d_model, nhead

    def forward(
        self,
        src: Variable,
        tgt: Variable,
        src_mask: Variable | None = None,
        tgt_mask: Variable | None = None,
        memory_mask: Variable | None = None,
    ) -> Variable:
        memory = self.encoder(src, src_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask)

    def generate_square_subsequent_mask(self, length: int) -> Variable:
        """Create a mask [length, length], 0 on and below the diagonal, -inf above it."""
        length = arguments.integer(length, "length", "generate_square_subsequent_mask")
        above = np.triu(np.full((length, length), -np.inf), 1)
        return assign(above.astype(get_default_dtype().numpy))
