"""Activations in JAX. Gradients at kinks are Paddle's: one-sided, zero where the op is flat."""

from __future__ import annotations

import math
from typing import Any

import jax
from jax import lax
from jax import numpy as jnp

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.definition import default_attrs
from graphopt.ir.dialect.families import BY_NAME
from graphopt.ir.dialect.op import call_rule
from graphopt.ir.dialect.ops import activation as ops
from graphopt.ir.dialect.ops.base import Unary
from graphopt.ir.dialect.types import normalize_axis
from graphopt.lowering.ops.base import Array, compute_wide, constant, limit
from graphopt.lowering.registry import RULES, lower_each, lowers

# The lower bound of a softmax's shifted logits, before exponentials are divided by their sum.
SOFTMAX_FLOOR = -64.0


lower_each(
    {
        ops.Relu6: lambda x: limit(x, 0, 6),
        ops.Tanh: lambda x: lax.tanh(x),
        ops.Hardtanh: lambda x, t_min, t_max: limit(x, t_min, t_max),
        ops.Silu: compute_wide(lambda x: x * lax.logistic(x)),
        ops.Hardsigmoid: compute_wide(lambda x, slope, offset: limit(slope * x + offset, 0, 1)),
        ops.Hardswish: compute_wide(lambda x: x * limit(x + 3, 0, 6) / 6),
        ops.Elu: compute_wide(lambda x, alpha: _elu(x, alpha)),
        ops.Selu: compute_wide(lambda x, scale, alpha: scale * _elu(x, alpha)),
        ops.Celu: compute_wide(lambda x, alpha: _elu(x, alpha, 1 / alpha)),
        ops.Softsign: compute_wide(lambda x: x / (1 + lax.abs(x))),
        ops.Hardshrink: compute_wide(lambda x, threshold: jnp.where(lax.abs(x) <= threshold, 0, x)),
        ops.Tanhshrink: compute_wide(lambda x: x - lax.tanh(x)),
        ops.LogSigmoid: compute_wide(lambda x: -jnp.logaddexp(-x, 0)),
        ops.Mish: compute_wide(lambda x: x * lax.tanh(softplus(x, beta=1.0, threshold=20.0))),
        ops.Swish: compute_wide(lambda x, beta: x * lax.logistic(beta * x)),
    }
)


@lowers(ops.Relu)
def relu(x: Array) -> Array:
    # not lax.max, whose gradient at 0 is 1/2; as in Paddle, NaN gives 0
    return jnp.where(x > 0, x, jnp.zeros((), x.dtype))


@lowers(ops.Gelu)
@compute_wide
def gelu(x: Array, approximate: bool) -> Array:
    if approximate:
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * lax.integer_pow(x, 3))
        return 0.5 * x * (1 + lax.tanh(inner))
    if x.dtype == jnp.float32:
        # erf, as in Paddle's formula: with its derivative, it takes 0.7 of erfc's time on CPUs. For
        # negative x, the sum cancels to an absolute error of 7e-7.
        return 0.5 * x * (1 + lax.erf(math.sqrt(0.5) * x))
    # float64 programs need accuracy: erfc keeps the digits for negative x
    return 0.5 * x * lax.erfc(-math.sqrt(0.5) * x)


@lowers(ops.Sigmoid)
def sigmoid(x: Array) -> Array:
    return lax.logistic(x)


@lowers(ops.LeakyRelu)
def leaky_relu(x: Array, negative_slope: float) -> Array:
    # at 0, the derivative is the positive side's
    return jnp.where(x < 0, negative_slope * x, x)


def _elu(x: Array, alpha: float, rate: float = 1.0) -> Array:
    """Compute alpha * (exp(rate * x) - 1) where x is not positive, x elsewhere."""
    # clip the exponent where it is unused: an overflow would make the gradient NaN
    return jnp.where(x > 0, x, alpha * lax.expm1(rate * jnp.where(x > 0, 0, x)))


@lowers(ops.Softplus)
@compute_wide
def softplus(x: Array, beta: float, threshold: float) -> Array:
    scaled = beta * x
    return jnp.where(scaled > threshold, x, jnp.logaddexp(scaled, 0) / beta)


@lowers(ops.Softshrink)
@compute_wide
def softshrink(x: Array, threshold: float) -> Array:
    moved = jnp.where(x > threshold, x - threshold, jnp.where(x < -threshold, x + threshold, 0))
    # Paddle multiplies by 0 and 1: infinities give NaN, with derivative 1
    return moved + lax.stop_gradient(jnp.where(lax.is_finite(x), 0, jnp.nan))


@lowers(ops.ThresholdedRelu)
@compute_wide
def thresholded_relu(x: Array, threshold: float, value: float) -> Array:
    above = x > threshold
    if value:
        return jnp.where(above, x, constant(value, x.dtype))
    return jnp.where(above, x, x * 0)  # as in Paddle, a product with 0, so that -inf gives NaN


@lowers(ops.Prelu)
def prelu(x: Array, alpha: Array, mode: str, data_format: str) -> Array:
    slope = alpha.reshape(ops.prelu_alpha_shape(x.shape, mode, data_format))
    return jnp.where(x > 0, x, slope * x)


@lowers(ops.Maxout)
def maxout(x: Array, groups: int, axis: int) -> Array:
    axis = normalize_axis(axis, x.ndim)
    split = (*x.shape[:axis], x.shape[axis] // groups, groups, *x.shape[axis + 1 :])
    return jnp.max(x.reshape(split), axis + 1)


@lowers(ops.Softmax)
@compute_wide
def softmax(x: Array, axis: int) -> Array:
    return _softmax(x, axis)


def _probabilities(x: Array, axis: int) -> Array:
    exponential = lax.exp(floor_shifted(below_max(x, axis)))
    return exponential / jnp.sum(exponential, _axes(x, axis), keepdims=True)


def _probabilities_forward(x: Array, axis: int) -> tuple[Array, Array]:
    found = _probabilities(x, axis)
    return found, found


def _probabilities_backward(axis: int, found: Array, grad: Array) -> tuple[Array]:
    return (found * (grad - jnp.sum(grad * found, _axes(found, axis), keepdims=True)),)


# One sum over the result: JAX's derivative would differentiate both parts of the quotient.
_softmax: Any = jax.custom_vjp(_probabilities, nondiff_argnums=(1,))
_softmax.defvjp(_probabilities_forward, _probabilities_backward)


@lowers(ops.LogSoftmax)
@compute_wide
def log_softmax(x: Array, axis: int) -> Array:
    shifted = below_max(x, axis)
    return floor_shifted(shifted) - log_sum(shifted, axis)


def below_max(x: Array, axis: int) -> Array:
    """Subtract the maximum along an axis from x, so that exponentials do not overflow."""
    top = jnp.max(lax.stop_gradient(x), _axes(x, axis), keepdims=True, initial=-jnp.inf)
    return x - top


def log_sum(shifted: Array, axis: int) -> Array:
    """Compute the logarithm of the sum of exponentials of differences from the maximum.

    A floor would change no digit of the sum: the exponential of the maximum alone is 1.
    """
    return lax.log(jnp.sum(lax.exp(shifted), _axes(shifted, axis), keepdims=True))


@jax.custom_jvp
def floor_shifted(shifted: Array) -> Array:
    """Clamp differences from the maximum to at least -64: as in Paddle, no probability is 0.

    The derivative ignores this, so that a class whose probability has become too small still gets a
    gradient. nan passes through.
    """
    return lax.max(shifted, constant(SOFTMAX_FLOOR, shifted.dtype))


@floor_shifted.defjvp
def _floored_tangent(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return floor_shifted(*primals), tangents[0]


def _axes(x: Array, axis: int) -> tuple[int, ...]:
    return (axis,) if x.ndim else ()


def activate(name: str, x: Array, **attrs: Any) -> Array:
    """Apply the op `pd.<name>` to one tensor, as activation of a fused op; `none` returns x.

    `attrs` are properties; the op ignores those that it does not have, the others have defaults.
    """
    if name == "none":
        return x
    op_class = BY_NAME.get(f"pd.{name}")
    if (
        op_class is None
        or not issubclass(op_class, (Unary, ops.SoftmaxBase))
        or op_class not in RULES
    ):
        raise UnsupportedError(f"'{name}' is not an activation that a fused op can apply")
    return call_rule(RULES[op_class], {**default_attrs(op_class), **attrs, "x": x})
