"""Activations in JAX. Gradients at kinks are Paddle's: one-sided, zero where the op is flat."""

from __future__ import annotations

import math
from typing import Any

from jax import lax
from jax import numpy as jnp

from graphopt.errors import UnsupportedError
from graphopt.ir.op import call_rule, default_attrs
from graphopt.ir.ops import BY_NAME
from graphopt.ir.ops.activation import (
    Gelu,
    Hardsigmoid,
    Hardswish,
    LeakyRelu,
    LogSoftmax,
    Relu,
    Relu6,
    Sigmoid,
    Silu,
    Softmax,
    Tanh,
)
from graphopt.lowering.ops.base import Array, limit, widened
from graphopt.lowering.registry import RULES, lowers


@lowers(Relu)
def relu(x: Array) -> Array:
    # not lax.max, whose gradient at 0 is one half; nan passes through
    return jnp.where(x <= 0, jnp.zeros((), x.dtype), x)


@lowers(Relu6)
def relu6(x: Array) -> Array:
    return limit(x, 0, 6)


@lowers(Gelu)
@widened
def gelu(x: Array, approximate: bool) -> Array:
    if approximate:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * lax.integer_pow(x, 3))
        return 0.5 * x * (1 + lax.tanh(inner))
    return 0.5 * x * lax.erfc(-math.sqrt(0.5) * x)


@lowers(Sigmoid)
def sigmoid(x: Array) -> Array:
    return lax.logistic(x)


@lowers(Silu)
@widened
def silu(x: Array) -> Array:
    return x * lax.logistic(x)


@lowers(Tanh)
def tanh(x: Array) -> Array:
    return lax.tanh(x)


@lowers(Hardsigmoid)
@widened
def hardsigmoid(x: Array, slope: float, offset: float) -> Array:
    return limit(slope * x + offset, 0, 1)


@lowers(Hardswish)
@widened
def hardswish(x: Array) -> Array:
    return x * limit(x + 3, 0, 6) / 6


@lowers(LeakyRelu)
def leaky_relu(x: Array, negative_slope: float) -> Array:
    return jnp.where(x > 0, x, negative_slope * x)


@lowers(Softmax)
@widened
def softmax(x: Array, axis: int) -> Array:
    exponential = lax.exp(below_max(x, axis))
    return exponential / jnp.sum(exponential, _axes(x, axis), keepdims=True)


@lowers(LogSoftmax)
@widened
def log_softmax(x: Array, axis: int) -> Array:
    shifted = below_max(x, axis)
    return shifted - lax.log(jnp.sum(lax.exp(shifted), _axes(x, axis), keepdims=True))


def below_max(x: Array, axis: int) -> Array:
    """x less its maximum along an axis, so that exponentials do not overflow."""
    top = jnp.max(lax.stop_gradient(x), _axes(x, axis), keepdims=True, initial=-jnp.inf)
    return x - top


def _axes(x: Array, axis: int) -> tuple[int, ...]:
    return (axis,) if x.ndim else ()


def activate(name: str, x: Array, **attrs: Any) -> Array:
    """The op `pd.<name>` on one tensor, or x itself for `none`; what fused ops apply.

    `attrs` are properties; those that the op does not have are ignored, the others have defaults.
    """
    if name == "none":
        return x
    op_class = BY_NAME.get(f"pd.{name}")
    if op_class is None or op_class not in RULES:
        raise UnsupportedError(f"'{name}' is not an activation that a fused op can apply")
    return call_rule(RULES[op_class], {**default_attrs(op_class), **attrs, "x": x})
