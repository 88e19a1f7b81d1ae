"""Activations, and `activate` by which fused ops apply them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphopt.ir.dialect.definition import default_attrs
from graphopt.ir.dialect.families import BY_NAME
from graphopt.ir.dialect.op import call_rule
from graphopt.ir.dialect.ops import activation as ops
from graphopt.reference.derivatives import erfc, hold, smooth
from graphopt.reference.registry import RULES, Unsupported, rule, rule_each
from graphopt.reference.tape import Array, apply


def between(x: Array, low: float, high: float) -> Array:
    """Limit x to [low, high], flat at both ends."""
    return np.where(x <= low, low, np.where(x >= high, high, x))


def _logistic(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def logistic(x: Array) -> Array:
    """Compute 1 / (1 + exp(-x)) without intermediate overflow; it has its derivative at 0, too."""
    return smooth(_logistic, lambda x: logistic(x) * logistic(-x))(x)


rule_each(
    {
        ops.Relu6: lambda x: between(x, 0.0, 6.0),
        ops.Sigmoid: lambda x: logistic(x),
        ops.Silu: lambda x: x * logistic(x),
        ops.Tanh: lambda x: np.tanh(x),
        ops.Hardsigmoid: lambda x, slope, offset: between(slope * x + offset, 0.0, 1.0),
        ops.Hardswish: lambda x: x * between(x + 3.0, 0.0, 6.0) / 6.0,
        ops.LeakyRelu: lambda x, negative_slope, to: np.where(x < 0, to(negative_slope) * x, x),
        ops.Elu: lambda x, alpha: _elu(x, alpha),
        ops.Selu: lambda x, scale, alpha: scale * _elu(x, alpha),
        ops.Celu: lambda x, alpha: _elu(x, alpha, 1.0 / alpha),
        ops.Softsign: lambda x: x / (1.0 + np.abs(x)),
        ops.Hardshrink: lambda x, threshold: np.where(np.abs(x) <= threshold, 0.0, x),
        ops.Hardtanh: lambda x, t_min, t_max, to: between(x, to(t_min), to(t_max)),
        ops.Tanhshrink: lambda x: x - np.tanh(x),
        ops.LogSigmoid: lambda x: -np.logaddexp(-x, 0.0),
        ops.Mish: lambda x: x * np.tanh(softplus(x, 1.0, 20.0)),
        ops.Swish: lambda x, beta: x * logistic(beta * x),
    }
)


@rule(ops.Relu)
def relu(x: Array) -> Array:
    return np.where(x > 0, x, 0.0)


@rule(ops.Gelu)
def gelu(x: Array, approximate: bool) -> Array:
    if approximate:
        return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * erfc(-x / math.sqrt(2.0))


def _elu(x: Array, alpha: float, rate: float = 1.0) -> Array:
    positive = x > 0
    return np.where(positive, x, alpha * np.expm1(rate * np.where(positive, 0.0, x)))


def log_one_plus_exp(x: Array) -> Array:
    """Compute log(1 + exp(x)) without overflow."""
    return np.where(x > 0, x, 0.0) + np.log1p(np.exp(-np.abs(x)))


@rule(ops.Softplus)
def softplus(x: Array, beta: float, threshold: float) -> Array:
    return np.where(beta * x > threshold, x, np.logaddexp(beta * x, 0.0) / beta)


@rule(ops.Softshrink)
def softshrink(x: Array, threshold: float) -> Array:
    # Paddle adds two products with 0 or 1, so infinities give NaN
    above, below = (x > threshold) * 1.0, (x < -threshold) * 1.0
    return (x - threshold) * above + (x + threshold) * below


@rule(ops.ThresholdedRelu)
def thresholded_relu(x: Array, threshold: float, value: float) -> Array:
    # Paddle multiplies by 0 or 1
    return np.where(x > threshold, x, value) if value else x * (x > threshold)


@rule(ops.Prelu)
def prelu(x: Array, alpha: Array, mode: str, data_format: str) -> Array:
    shape = [1] * x.ndim
    if mode == "element":
        shape[1:] = x.shape[1:]
    elif mode == "channel":
        channel = x.ndim - 1 if data_format == "NHWC" else 1
        shape[channel] = x.shape[channel]
    return np.where(x > 0, x, np.reshape(alpha, shape) * x)


@rule(ops.Maxout)
def maxout(x: Array, groups: int, axis: int) -> Array:
    axis %= x.ndim
    shape = (*x.shape[:axis], x.shape[axis] // groups, groups, *x.shape[axis + 1 :])
    return np.max(np.reshape(x, shape), axis=axis + 1)


def _below_top(x: Array, axis: int) -> Array:
    if not x.size:
        return x
    return x - hold(np.max(hold(x), axis=axis if x.ndim else None, keepdims=True))


def _floor(below: Array) -> Array:
    """Limit x to at least -64; the derivative ignores this."""
    return apply(lambda v: np.maximum(v, -64.0), (lambda g, o, v: g,), below)


@rule(ops.Softmax)
def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(_floor(_below_top(x, axis)))
    return powers / np.sum(powers, axis=axis if x.ndim else None, keepdims=True)


@rule(ops.LogSoftmax)
def log_softmax(x: Array, axis: int) -> Array:
    below = _floor(_below_top(x, axis))
    return below - np.log(np.sum(np.exp(below), axis=axis if x.ndim else None, keepdims=True))


def activate(name: str, x: Array, to: Any, **attrs: Any) -> Array:
    """Apply the op `pd.<name>` to x and round; `none` returns x."""
    if name in ("none", ""):
        return x
    op_class = BY_NAME.get(f"pd.{name}")
    if op_class is None or op_class not in RULES:
        raise Unsupported(f"pd.{name}")
    known = default_attrs(op_class)
    given = {key: value for key, value in attrs.items() if key in known}
    return to(call_rule(RULES[op_class], {**known, **given, "x": x, "to": to}))
