"""Normalizations fused with the sum before them."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.incubate.nn.functional.linear import check_unquantised, kept_mode
from graphopt.ir.program import Variable
from graphopt.tensor.manipulation import reshape
from graphopt.tensor.math import add, scale


def _add_residual(
    x: Variable, bias: Variable | None, residual: Variable | None, alpha: float
) -> Variable:
    """Compute x + bias + alpha * residual, without the terms that are None."""
    x = x if bias is None else add(x, bias)
    return x if residual is None else add(x, scale(residual, alpha))


def fused_rms_norm(
    x: Variable,
    norm_weight: Variable,
    norm_bias: Variable | None,
    epsilon: float,
    begin_norm_axis: int = 1,
    bias: Variable | None = None,
    residual: Variable | None = None,
    quant_scale: float = -1,
    quant_round_type: int = 0,
    quant_max_bound: float = 0,
    quant_min_bound: float = 0,
) -> Any:
    """Divide x + bias + residual by its root mean square, times a weight, plus a bias.

    With a residual, the sum is a second result. Raises UnsupportedError for a quantized result.
    Paddle page: paddle.incubate.nn.functional.fused_rms_norm.
    """
    function = "fused_rms_norm"
    check_unquantised(function, quant_scale)
    given = {
        "x": x,
        "norm_weight": norm_weight,
        "norm_bias": norm_bias,
        "bias": bias,
        "residual": residual,
    }
    attrs = {
        "epsilon": arguments.number(epsilon, "epsilon", function),
        "begin_norm_axis": arguments.integer(begin_norm_axis, "begin_norm_axis", function),
        "quant_scale": -1.0,
        "quant_round_type": 0,
        "quant_max_bound": 0.0,
        "quant_min_bound": 0.0,
    }
    slots = {slot: value for slot, value in given.items() if value is not None}
    helper = LayerHelper("rms_norm")
    out, total = helper.emit_all("rms_norm", slots, attrs, ("out", "residual_out"))
    return out if residual is None else (out, total)


def fused_layer_norm(
    x: Variable,
    norm_weight: Variable | None,
    norm_bias: Variable | None,
    epsilon: float,
    residual_alpha: float = 1.0,
    begin_norm_axis: int = 1,
    bias: Variable | None = None,
    residual: Variable | None = None,
    quant_scale: float = -1,
    quant_round_type: int = 0,
    quant_max_bound: float = 0,
    quant_min_bound: float = 0,
) -> Any:
    """Compute the layer norm of x + bias + residual_alpha * residual.

    Without weight and bias of the norm the result is that sum. Otherwise, with a residual, the sum
    is a second result. Raises UnsupportedError for a quantized result. Paddle page:
    paddle.incubate.nn.functional.fused_layer_norm.
    """
    function = "fused_layer_norm"
    check_unquantised(function, quant_scale)
    alpha = arguments.number(residual_alpha, "residual_alpha", function)
    total = _add_residual(arguments.variable(x, "x", function), bias, residual, alpha)
    if norm_weight is None and norm_bias is None:
        return total
    attrs = {
        "epsilon": arguments.number(epsilon, "epsilon", function),
        "begin_norm_axis": arguments.integer(begin_norm_axis, "begin_norm_axis", function),
    }
    given = {"X": total, "Scale": norm_weight, "Bias": norm_bias}
    slots = {
        slot: value if slot == "X" else reshape(value, [-1])
        for slot, value in given.items()
        if value is not None
    }
    outs = ("Y", "Mean", "Variance")
    out = LayerHelper("layer_norm").emit_all("layer_norm", slots, attrs, outs)[0]
    return out if residual is None else (out, total)


def fused_bias_dropout_residual_layer_norm(
    x: Variable,
    residual: Variable,
    bias: Variable | None = None,
    ln_scale: Variable | None = None,
    ln_bias: Variable | None = None,
    dropout_rate: float = 0.5,
    ln_epsilon: float = 1e-5,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Variable:
    """Compute the layer norm of residual + dropout(x + bias), over the last axis.

    Paddle page: paddle.incubate.nn.functional.fused_bias_dropout_residual_layer_norm.
    """
    function = "fused_bias_dropout_residual_layer_norm"
    given = {"X": x, "Residual": residual, "Bias": bias, "LnScale": ln_scale, "LnBias": ln_bias}
    attrs = {
        "dropout_rate": arguments.number(dropout_rate, "dropout_rate", function),
        "dropout_implementation": kept_mode(mode, function),
        "ln_epsilon": arguments.number(ln_epsilon, "ln_epsilon", function),
        "is_test": not arguments.flag(training, "training", function),
    }
    slots = {slot: value for slot, value in given.items() if value is not None}
    outs = ("Y", "BiasDropoutResidualOut", "LnMean", "LnVariance")
    return LayerHelper(function, name).emit_all(function, slots, attrs, outs)[0]
