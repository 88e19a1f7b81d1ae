"""Activation functions: one floating-point tensor in, one of the same shape out."""

from __future__ import annotations

from typing import Any

from graphopt import arguments
from graphopt.ir.program import Variable
from graphopt.tensor.manipulation import cast, split
from graphopt.tensor.math import multiply, unary
from graphopt.tensor.math import tanh as tanh


def relu(x: Variable, name: str | None = None) -> Variable:
    """max(x, 0) (paddle.nn.functional.relu)."""
    return unary("relu", x, name)


def relu6(x: Variable, name: str | None = None) -> Variable:
    """min(max(x, 0), 6) (paddle.nn.functional.relu6)."""
    return unary("relu6", x, name)


def gelu(x: Variable, approximate: bool = False, name: str | None = None) -> Variable:
    """x * Phi(x), exactly or by the tanh formula (paddle.nn.functional.gelu)."""
    return unary("gelu", x, name, approximate=arguments.flag(approximate, "approximate", "gelu"))


def sigmoid(x: Variable, name: str | None = None) -> Variable:
    """1 / (1 + exp(-x)) (paddle.nn.functional.sigmoid)."""
    return unary("sigmoid", x, name)


def silu(x: Variable, name: str | None = None) -> Variable:
    """x * sigmoid(x) (paddle.nn.functional.silu)."""
    return unary("silu", x, name)


def swish(x: Variable, name: str | None = None) -> Variable:
    """x * sigmoid(x) (paddle.nn.functional.swish)."""
    return unary("swish", x, name, beta=1.0)


def hardsigmoid(
    x: Variable, slope: float = 0.1666667, offset: float = 0.5, name: str | None = None
) -> Variable:
    """min(max(slope * x + offset, 0), 1) (paddle.nn.functional.hardsigmoid)."""
    slope = arguments.number(slope, "slope", "hardsigmoid")
    offset = arguments.number(offset, "offset", "hardsigmoid")
    return unary("hard_sigmoid", x, name, slope=slope, offset=offset)


def hardswish(x: Variable, name: str | None = None) -> Variable:
    """x * relu6(x + 3) / 6 (paddle.nn.functional.hardswish)."""
    return unary("hard_swish", x, name)


def leaky_relu(x: Variable, negative_slope: float = 0.01, name: str | None = None) -> Variable:
    """x where positive, negative_slope * x elsewhere (paddle.nn.functional.leaky_relu)."""
    alpha = arguments.number(negative_slope, "negative_slope", "leaky_relu")
    return unary("leaky_relu", x, name, alpha=alpha)


def softmax(x: Variable, axis: int = -1, dtype: Any = None, name: str | None = None) -> Variable:
    """exp(x) over its sum along `axis`, after a cast to `dtype` (paddle.nn.functional.softmax)."""
    x = x if dtype is None else cast(x, dtype)
    return unary("softmax", x, name, axis=arguments.integer(axis, "axis", "softmax"))


def log_softmax(
    x: Variable, axis: int = -1, dtype: Any = None, name: str | None = None
) -> Variable:
    """log(softmax(x)) along `axis`, after a cast to `dtype` (paddle.nn.functional.log_softmax)."""
    x = x if dtype is None else cast(x, dtype)
    return unary("log_softmax", x, name, axis=arguments.integer(axis, "axis", "log_softmax"))


def glu(x: Variable, axis: int = -1, name: str | None = None) -> Variable:
    """One half of x times the sigmoid of the other, halved along `axis` (nn.functional.glu)."""
    value, gate = split(x, 2, axis)
    return multiply(value, sigmoid(gate), name)


# In a static program the in-place forms make new variables, as in Paddle.
relu_ = relu
softmax_ = softmax
tanh_ = tanh
