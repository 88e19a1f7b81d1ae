"""Linear layers fused with bias, activation and dropout."""

from __future__ import annotations

from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.ir.program import Variable
from graphopt.nn.functional import activation as activations
from graphopt.nn.functional.activation import swiglu
from graphopt.nn.functional.common import dropout
from graphopt.tensor.linalg import matmul
from graphopt.tensor.manipulation import split
from graphopt.tensor.math import add, multiply

MODES = ("upscale_in_train", "downscale_in_infer")


def kept_mode(mode: str, function: str) -> str:
    """Map a mode of dropout to its name in operators."""
    arguments.choice(mode, "mode", function, MODES)
    return "downgrade_in_infer" if mode == "downscale_in_infer" else mode


def fused_matmul_bias(
    x: Variable,
    y: Variable,
    bias: Variable | None = None,
    transpose_x: bool = False,
    transpose_y: bool = False,
    name: str | None = None,
) -> Variable:
    """Compute x @ y + bias (paddle.incubate.nn.functional.fused_matmul_bias)."""
    if bias is None:
        return matmul(x, y, transpose_x, transpose_y, name)
    return add(matmul(x, y, transpose_x, transpose_y), bias, name)


def fused_linear(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    transpose_weight: bool = False,
    name: str | None = None,
) -> Variable:
    """Compute x @ weight + bias (paddle.incubate.nn.functional.fused_linear)."""
    return fused_matmul_bias(x, weight, bias, False, transpose_weight, name)


def fused_linear_activation(
    x: Variable,
    y: Variable,
    bias: Variable,
    trans_x: bool = False,
    trans_y: bool = False,
    activation: str | None = None,
) -> Variable:
    """Apply an activation, "none", "gelu" or "relu", to x @ y + bias.

    Paddle page: paddle.incubate.nn.functional.fused_linear_activation.
    """
    function = "fused_linear_activation"
    kind = activation or "none"
    arguments.choice(kind, "activation", function, ("none", "gelu", "relu"))
    out = fused_matmul_bias(x, y, bias, trans_x, trans_y)
    return out if kind == "none" else getattr(activations, kind)(out)


def fused_bias_act(
    x: Variable,
    bias: Variable | None = None,
    dequant_scales: Variable | None = None,
    shift: Variable | None = None,
    smooth: Variable | None = None,
    act_method: str = "gelu",
    compute_dtype: str = "default",
    quant_scale: float = -1,
    quant_round_type: int = 0,
    quant_max_bound: float = 0,
    quant_min_bound: float = 0,
) -> Variable:
    """Compute (act(x + bias) + shift) * smooth (paddle.incubate.nn.functional.fused_bias_act).

    The activations are gelu, relu, geglu and swiglu. Raises UnsupportedError for quantized tensors.
    """
    function = "fused_bias_act"
    check_unquantised(function, quant_scale)
    if dequant_scales is not None:
        raise UnsupportedError(f"{function}() takes no quantised tensor: cast it before the call")
    arguments.choice(act_method, "act_method", function, ("gelu", "relu", "geglu", "swiglu"))
    out = x if bias is None else add(x, bias)
    if act_method == "geglu":
        gate, rest = split(out, 2, -1)
        out = multiply(activations.gelu(gate), rest)
    else:
        out = swiglu(out) if act_method == "swiglu" else getattr(activations, act_method)(out)
    out = out if shift is None else add(out, shift)
    return out if smooth is None else multiply(out, smooth)


def check_unquantised(function: str, quant_scale: float) -> None:
    """Raise UnsupportedError for a quantized result."""
    if arguments.number(quant_scale, "quant_scale", function) > 0:
        raise UnsupportedError(
            f"{function}() makes no quantised result: leave quant_scale out, and scale, round and "
            "cast the result"
        )


def fused_dropout_add(
    x: Variable,
    y: Variable,
    p: float = 0.5,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Variable:
    """Compute dropout(x) + y (paddle.incubate.nn.functional.fused_dropout_add)."""
    arguments.choice(mode, "mode", "fused_dropout_add", MODES)
    return add(dropout(x, p, training=training, mode=mode), y, name)


def fused_feedforward(
    x: Variable,
    linear1_weight: Variable,
    linear2_weight: Variable,
    linear1_bias: Variable | None = None,
    linear2_bias: Variable | None = None,
    ln1_scale: Variable | None = None,
    ln1_bias: Variable | None = None,
    ln2_scale: Variable | None = None,
    ln2_bias: Variable | None = None,
    dropout1_rate: float = 0.5,
    dropout2_rate: float = 0.5,
    activation: str = "relu",
    ln1_epsilon: float = 1e-5,
    ln2_epsilon: float = 1e-5,
    pre_layer_norm: bool = False,
    training: bool = True,
    mode: str = "upscale_in_train",
    ring_id: int = -1,
    add_residual: bool = True,
    name: str | None = None,
) -> Variable:
    """Add to x two linear layers with dropouts, with a layer norm before or after.

    Paddle page: paddle.incubate.nn.functional.fused_feedforward.
    """
    function = "fused_feedforward"
    given = {
        "X": x,
        "Linear1Weight": linear1_weight,
        "Linear1Bias": linear1_bias,
        "Linear2Weight": linear2_weight,
        "Linear2Bias": linear2_bias,
        "Ln1Scale": ln1_scale,
        "Ln1Bias": ln1_bias,
        "Ln2Scale": ln2_scale,
        "Ln2Bias": ln2_bias,
    }
    if arguments.integer(ring_id, "ring_id", function) >= 0:
        raise UnsupportedError(f"{function}() has no tensor parallelism: leave ring_id out")
    kept = kept_mode(mode, function)
    attrs: dict[str, Any] = {
        "dropout1_rate": arguments.number(dropout1_rate, "dropout1_rate", function),
        "dropout2_rate": arguments.number(dropout2_rate, "dropout2_rate", function),
        "dropout1_implementation": kept,
        "dropout2_implementation": kept,
        "act_method": activation,
        "ln1_epsilon": arguments.number(ln1_epsilon, "ln1_epsilon", function),
        "ln2_epsilon": arguments.number(ln2_epsilon, "ln2_epsilon", function),
        "pre_layer_norm": arguments.flag(pre_layer_norm, "pre_layer_norm", function),
        "is_test": not arguments.flag(training, "training", function),
        "add_residual": arguments.flag(add_residual, "add_residual", function),
    }
    slots = {slot: value for slot, value in given.items() if value is not None}
    return emit("fused_feedforward", slots, attrs, name=name)
