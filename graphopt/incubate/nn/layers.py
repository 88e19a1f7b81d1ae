"""Layers over the functions of paddle.incubate.nn.functional."""

from __future__ import annotations

from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.incubate.nn.functional.linear import (
    MODES,
    fused_dropout_add,
    fused_feedforward,
    fused_linear,
)
from graphopt.incubate.nn.functional.norm import fused_bias_dropout_residual_layer_norm
from graphopt.nn import initializer
from graphopt.nn.layer.layers import Layer


class FusedLinear(Layer):
    """x @ weight + bias (paddle.incubate.nn.FusedLinear).

    The weight is [in_features, out_features], or transposed with `transpose_weight`.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        transpose_weight: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        sizes = [
            arguments.integer(in_features, "in_features", "FusedLinear"),
            arguments.integer(out_features, "out_features", "FusedLinear"),
        ]
        self.transpose_weight = transpose_weight
        self.name = name
        rows = sizes[::-1] if transpose_weight else sizes
        self.weight: Any = self.create_parameter(rows, weight_attr)
        self.bias: Any = self.create_parameter(sizes[1:], bias_attr, is_bias=True)

    def forward(self, input: Any) -> Any:
        return fused_linear(input, self.weight, self.bias, self.transpose_weight, self.name)


class FusedDropoutAdd(Layer):
    """dropout(x) + y (paddle.incubate.nn.FusedDropoutAdd)."""

    def __init__(
        self, p: float = 0.5, mode: str = "upscale_in_train", name: str | None = None
    ) -> None:
        super().__init__()
        self.p = arguments.number(p, "p", "FusedDropoutAdd")
        self.mode = arguments.choice(mode, "mode", "FusedDropoutAdd", MODES)
        self.name = name

    def forward(self, x: Any, y: Any) -> Any:
        return fused_dropout_add(x, y, self.p, self.training, self.mode, self.name)


class FusedBiasDropoutResidualLayerNorm(Layer):
    """The layer norm of residual + dropout(x + bias).

    Paddle page: paddle.incubate.nn.FusedBiasDropoutResidualLayerNorm.
    """

    def __init__(
        self,
        embed_dim: int,
        dropout_rate: float = 0.5,
        weight_attr: Any = None,
        bias_attr: Any = None,
        epsilon: float = 1e-5,
        name: str | None = None,
    ) -> None:
        super().__init__()
        size = arguments.integer(embed_dim, "embed_dim", "FusedBiasDropoutResidualLayerNorm")
        self.dropout_rate = dropout_rate
        self.epsilon = epsilon
        self.name = name
        ones = initializer.Constant(1.0)
        self.linear_bias: Any = self.create_parameter([size], bias_attr, is_bias=True)
        self.ln_scale: Any = self.create_parameter([size], default_initializer=ones)
        self.ln_bias: Any = self.create_parameter([size], bias_attr, is_bias=True)

    def forward(self, x: Any, residual: Any) -> Any:
        return fused_bias_dropout_residual_layer_norm(
            *(x, residual, self.linear_bias, self.ln_scale, self.ln_bias),
            dropout_rate=self.dropout_rate,
            ln_epsilon=self.epsilon,
            training=self.training,
            name=self.name,
        )


class FusedFeedForward(Layer):
    """x plus two linear layers with dropouts, with a layer norm before or after.

    Paddle page: paddle.incubate.nn.FusedFeedForward. Raises UnsupportedError for `nranks` above 1.
    """

    def __init__(
        self,
        d_model: int,
        dim_feedforward: int,
        dropout_rate: float = 0.1,
        epsilon: float = 1e-5,
        activation: str = "relu",
        act_dropout_rate: float | None = None,
        normalize_before: bool = False,
        linear1_weight_attr: Any = None,
        linear1_bias_attr: Any = None,
        linear2_weight_attr: Any = None,
        linear2_bias_attr: Any = None,
        ln1_scale_attr: Any = None,
        ln1_bias_attr: Any = None,
        ln2_scale_attr: Any = None,
        ln2_bias_attr: Any = None,
        nranks: int = 1,
        ring_id: int = -1,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if nranks > 1 or ring_id >= 0:
            raise UnsupportedError("FusedFeedForward has no tensor parallelism: leave nranks out")
        size = arguments.integer(d_model, "d_model", "FusedFeedForward")
        inner = arguments.integer(dim_feedforward, "dim_feedforward", "FusedFeedForward")
        self._given: dict[str, Any] = {
            "dropout1_rate": dropout_rate if act_dropout_rate is None else act_dropout_rate,
            "dropout2_rate": dropout_rate,
            "activation": activation,
            "ln1_epsilon": epsilon,
            "ln2_epsilon": epsilon,
            "pre_layer_norm": normalize_before,
            "name": name,
        }
        ones = initializer.Constant(1.0)
        made = self.create_parameter
        self._linear1_weight: Any = made([size, inner], linear1_weight_attr)
        self._linear1_bias: Any = made([inner], linear1_bias_attr, is_bias=True)
        self._linear2_weight: Any = made([inner, size], linear2_weight_attr)
        self._linear2_bias: Any = made([size], linear2_bias_attr, is_bias=True)
        self._ln1_scale: Any = None
        self._ln1_bias: Any = None
        self._ln2_scale: Any = None
        self._ln2_bias: Any = None
        if normalize_before:
            self._ln1_scale = made([size], ln1_scale_attr, default_initializer=ones)
            self._ln1_bias = made([size], ln1_bias_attr, is_bias=True)
        else:
            self._ln2_scale = made([size], ln2_scale_attr, default_initializer=ones)
            self._ln2_bias = made([size], ln2_bias_attr, is_bias=True)

    def forward(self, src: Any, cache: Any = None) -> Any:
        return fused_feedforward(
            *(src, self._linear1_weight, self._linear2_weight),
            *(self._linear1_bias, self._linear2_bias),
            *(self._ln1_scale, self._ln1_bias, self._ln2_scale, self._ln2_bias),
            training=self.training,
            **self._given,
        )
