"""Parameter updates in JAX; half types are updated in float32 and rounded once."""

from __future__ import annotations

from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.update.basic import Adam, Adamw, Momentum, Sgd
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers


def scalar(value: Array, like: Array) -> Array:
    """Convert a learning rate or a power of beta, of shape [1] or [], to the dtype of `like`."""
    return value.reshape(()).astype(like.dtype)


@lowers(Sgd)
def sgd(param: Array, grad: Array, learning_rate: Array) -> Array:
    p = wide(param)
    return (p - scalar(learning_rate, p) * wide(grad)).astype(param.dtype)


@lowers(Momentum)
def momentum(
    param: Array,
    grad: Array,
    velocity: Array,
    learning_rate: Array,
    mu: float,
    use_nesterov: bool,
    regularization_method: str,
    regularization_coeff: float,
) -> tuple[Array, Array]:
    p, g = wide(param), wide(grad)
    if regularization_method == "l2_decay":
        g += regularization_coeff * p
    v = mu * wide(velocity) + g
    direction = g + mu * v if use_nesterov else v
    updated = p - scalar(learning_rate, p) * direction
    return updated.astype(param.dtype), v.astype(velocity.dtype)


@lowers(Adam)
def adam(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    moment2_max: Array | None,
    beta1: float,
    beta2: float,
    epsilon: float,
    uncorrected_epsilon: bool,
) -> tuple[Array, ...]:
    p, g = wide(param), wide(grad)
    m1 = beta1 * wide(moment1) + (1 - beta1) * g
    m2 = beta2 * wide(moment2) + (1 - beta2) * lax.square(g)
    largest = m2 if moment2_max is None else jnp.maximum(m2, wide(moment2_max))
    correction = lax.sqrt(1 - scalar(beta2_pow, p))
    rate = scalar(learning_rate, p) * correction / (1 - scalar(beta1_pow, p))
    small = epsilon if uncorrected_epsilon else epsilon * correction
    moved = p - rate * m1 / (lax.sqrt(largest) + small)
    state = (
        m1.astype(moment1.dtype),
        m2.astype(moment2.dtype),
        beta1_pow * beta1,
        beta2_pow * beta2,
    )
    new_largest = () if moment2_max is None else (largest.astype(moment2_max.dtype),)
    return (moved.astype(param.dtype), *state, *new_largest)


@lowers(Adamw)
def adamw(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    moment2_max: Array | None,
    beta1: float,
    beta2: float,
    epsilon: float,
    uncorrected_epsilon: bool,
    coeff: float,
    lr_ratio: float,
    with_decay: bool,
) -> tuple[Array, ...]:
    p = wide(param)
    rate = scalar(learning_rate, p) * lr_ratio
    decayed = p * (1 - rate * coeff) if with_decay else p
    state = (moment1, moment2, beta1_pow, beta2_pow, moment2_max)
    moved, *after = adam(decayed, grad, rate, *state, beta1, beta2, epsilon, uncorrected_epsilon)
    return moved.astype(param.dtype), *after
