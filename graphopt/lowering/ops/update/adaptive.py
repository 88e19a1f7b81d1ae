"""Adaptive parameter updates in JAX; half types are updated in float32 and rounded once."""

from __future__ import annotations

from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.update import adaptive as ops
from graphopt.lowering.collectives import ALONE, Replicas
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.ops.update.basic import scalar
from graphopt.lowering.registry import lowers


def round_as(new: tuple[Array, ...], old: tuple[Array, ...]) -> tuple[Array, ...]:
    """Round new values to the dtypes of the old ones."""
    return tuple(value.astype(like.dtype) for value, like in zip(new, old, strict=True))


def norm(x: Array, replicas: Replicas = ALONE) -> Array:
    """Compute the Euclidean norm of a tensor whose parts are on the replicas."""
    return lax.sqrt(replicas.sum_of_parts(jnp.sum(lax.square(x))))


@lowers(ops.Adagrad)
def adagrad(
    param: Array, grad: Array, learning_rate: Array, moment: Array, epsilon: float
) -> tuple[Array, ...]:
    p, g = wide(param), wide(grad)
    m = wide(moment) + lax.square(g)
    moved = p - scalar(learning_rate, p) * g / (lax.sqrt(m) + epsilon)
    return round_as((moved, m), (param, moment))


@lowers(ops.DecayedAdagrad)
def decayed_adagrad(
    param: Array, grad: Array, learning_rate: Array, moment: Array, decay: float, epsilon: float
) -> tuple[Array, ...]:
    p, g = wide(param), wide(grad)
    m = decay * wide(moment) + (1 - decay) * lax.square(g)
    moved = p - scalar(learning_rate, p) * g / (lax.sqrt(m) + epsilon)
    return round_as((moved, m), (param, moment))


@lowers(ops.Adadelta)
def adadelta(
    param: Array,
    grad: Array,
    learning_rate: Array,
    avg_squared_grad: Array,
    avg_squared_update: Array,
    rho: float,
    epsilon: float,
) -> tuple[Array, ...]:
    p, g = wide(param), wide(grad)
    squares = rho * wide(avg_squared_grad) + (1 - rho) * lax.square(g)
    steps = wide(avg_squared_update)
    step = -lax.sqrt((steps + epsilon) / (squares + epsilon)) * g
    steps = rho * steps + (1 - rho) * lax.square(step)
    moved = p + scalar(learning_rate, p) * step
    return round_as((moved, squares, steps), (param, avg_squared_grad, avg_squared_update))


@lowers(ops.Adamax)
def adamax(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment: Array,
    inf_norm: Array,
    beta1_pow: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Array, ...]:
    p, g = wide(param), wide(grad)
    m = beta1 * wide(moment) + (1 - beta1) * g
    largest = jnp.maximum(lax.abs(g), beta2 * wide(inf_norm) + epsilon)
    moved = p - scalar(learning_rate, p) / (1 - scalar(beta1_pow, p)) * (m / largest)
    return round_as((moved, m, largest), (param, moment, inf_norm))


@lowers(ops.Rmsprop)
def rmsprop(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment: Array,
    mean_square: Array,
    mean_grad: Array,
    epsilon: float,
    decay: float,
    momentum: float,
    centered: bool,
) -> tuple[Array, ...]:
    p, g = wide(param), wide(grad)
    squares = decay * wide(mean_square) + (1 - decay) * lax.square(g)
    mean = wide(mean_grad)
    spread = squares
    if centered:
        mean = decay * mean + (1 - decay) * g
        spread = squares - lax.square(mean)
    step = momentum * wide(moment) + scalar(learning_rate, p) * g / lax.sqrt(spread + epsilon)
    return round_as((p - step, step, squares, mean), (param, moment, mean_square, mean_grad))


@lowers(ops.Lamb)
def lamb(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    weight_decay: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    always_adapt: bool,
    in_parts: bool,
    replicas: Replicas,
) -> tuple[Array, ...]:
    p, g = wide(param), wide(grad)
    m1 = beta1 * wide(moment1) + (1 - beta1) * g
    m2 = beta2 * wide(moment2) + (1 - beta2) * lax.square(g)
    unbiased1 = m1 / (1 - scalar(beta1_pow, p))
    unbiased2 = m2 / (1 - scalar(beta2_pow, p))
    step = unbiased1 / (lax.sqrt(unbiased2) + epsilon) + weight_decay * p
    rate = scalar(learning_rate, p)
    if weight_decay > 0 or always_adapt:
        others = replicas if in_parts else ALONE
        length, step_length = norm(p, others), norm(step, others)
        usable = (length > 0) & (step_length > 0)
        rate = rate * jnp.where(usable, length / step_length, jnp.ones_like(length))
    return round_as(
        (p - rate * step, m1, m2, beta1_pow * beta1, beta2_pow * beta2),
        (param, moment1, moment2, beta1_pow, beta2_pow),
    )


@lowers(ops.Nadam)
def nadam(
    param: Array,
    grad: Array,
    learning_rate: Array,
    momentum_decay_pow: Array,
    beta2_pow: Array,
    mu_product: Array,
    moment1: Array,
    moment2: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
    momentum_decay: float,
) -> tuple[Array, ...]:
    p, g = wide(param), wide(grad)
    decay_pow = wide(momentum_decay_pow) * 0.96
    b2 = wide(beta2_pow) * beta2
    shrunk = 0.5 * decay_pow**momentum_decay
    mu, next_mu = beta1 * (1 - shrunk), beta1 * (1 - shrunk * 0.96**momentum_decay)
    product = wide(mu_product) * mu
    m1 = beta1 * wide(moment1) + (1 - beta1) * g
    m2 = beta2 * wide(moment2) + (1 - beta2) * lax.square(g)
    ahead = next_mu * m1 / (1 - product * next_mu) + (1 - mu) * g / (1 - product)
    moved = p - scalar(learning_rate, p) * ahead / (lax.sqrt(m2 / (1 - b2)) + epsilon)
    return round_as(
        (moved, decay_pow, b2, product, m1, m2),
        (param, momentum_decay_pow, beta2_pow, mu_product, moment1, moment2),
    )


@lowers(ops.Radam)
def radam(
    param: Array,
    grad: Array,
    learning_rate: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    rho: Array,
    moment1: Array,
    moment2: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
) -> tuple[Array, ...]:
    p, g = wide(param), wide(grad)
    b1, b2 = wide(beta1_pow) * beta1, wide(beta2_pow) * beta2
    weight = (wide(rho) * (beta2 - b2) + b2) / (1 - b2)
    m1 = beta1 * wide(moment1) + (1 - beta1) * g
    m2 = beta2 * wide(moment2) + (1 - beta2) * lax.square(g)
    limit = 2 / (1 - beta2) - 1
    # all elements are equal; Paddle reads the first one
    length = limit - 2 * (
        weight.reshape(-1)[:1].reshape(()) if weight.size else jnp.zeros((), p.dtype)
    )
    known = length > 5
    at = jnp.where(known, length, jnp.full_like(length, 6))
    rectified = lax.sqrt((at - 4) * (at - 2) * limit / ((limit - 4) * (limit - 2) * at))
    factor = jnp.where(known, rectified * lax.sqrt(1 - b2) / (lax.sqrt(m2) + epsilon), 1)
    moved = p - scalar(learning_rate, p) * m1 / (1 - b1) * factor.astype(p.dtype)
    return round_as(
        (moved, b1, b2, weight, m1, m2), (param, beta1_pow, beta2_pow, rho, moment1, moment2)
    )


@lowers(ops.Ftrl)
def ftrl(
    param: Array,
    grad: Array,
    learning_rate: Array,
    squared_accumulator: Array,
    linear_accumulator: Array,
    l1: float,
    l2: float,
    lr_power: float,
) -> tuple[Array, ...]:
    p, g = wide(param), wide(grad)
    # Paddle adds this to both
    l1, l2 = l1 + 1e-10, l2 + 1e-10
    rate, old = scalar(learning_rate, p), wide(squared_accumulator)
    new = old + lax.square(g)
    root, old_root = (new**-lr_power, old**-lr_power)
    if lr_power == -0.5:
        root, old_root = lax.sqrt(new), lax.sqrt(old)
    linear = wide(linear_accumulator) + g - (root - old_root) / rate * p
    moved = (l1 * lax.sign(linear) - linear) / (root / rate + 2 * l2)
    moved = jnp.where(lax.abs(linear) > l1, moved, jnp.zeros_like(moved))
    return round_as((moved, new, linear), (param, squared_accumulator, linear_accumulator))
