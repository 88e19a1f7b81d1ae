"""Parameter updates by signs, lengths and sums in JAX; half types are rounded once."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.update import plain as ops
from graphopt.lowering.collectives import ALONE, Replicas
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.ops.update.adaptive import norm, round_as
from graphopt.lowering.ops.update.basic import scalar
from graphopt.lowering.registry import lowers


@lowers(ops.Asgd)
def asgd(
    param: Array, grad: Array, learning_rate: Array, d: Array, y: Array, n: Array
) -> tuple[Array, ...]:
    p, g = wide(param), wide(grad)
    total = wide(d) - wide(y) + g
    moved = p - scalar(learning_rate, p) / scalar(n, p) * total
    return round_as((moved, total, g), (param, d, y))


@lowers(ops.Rprop)
def rprop(
    param: Array,
    grad: Array,
    learning_rate: Array,
    prev: Array,
    learning_rate_range: Array,
    etas: Array,
) -> tuple[Array, ...]:
    p, g = wide(param), wide(grad)
    least, most = wide(learning_rate_range).reshape(-1).astype(p.dtype)
    shrink, grow = wide(etas).reshape(-1).astype(p.dtype)
    agree = g * wide(prev)
    factor = jnp.where(agree > 0, grow, jnp.where(agree < 0, shrink, jnp.ones_like(shrink)))
    step = jnp.clip(wide(learning_rate).astype(p.dtype) * factor, least, most)
    g = jnp.where(agree < 0, jnp.zeros_like(g), g)
    return round_as((p - lax.sign(g) * step, g, step), (param, prev, learning_rate))


@lowers(ops.LarsMomentum)
def lars_momentum(
    param: Array,
    grad: Array,
    learning_rate: Array,
    velocity: Array,
    mu: float,
    lars_coeff: float,
    lars_weight_decay: float,
    epsilon: float,
    rescale_grad: float,
    in_parts: bool,
    replicas: Replicas,
) -> tuple[Array, ...]:
    p, g = wide(param), wide(grad) * rescale_grad
    rate = scalar(learning_rate, p)
    if lars_weight_decay > 0:
        others = replicas if in_parts else ALONE
        length, grad_length = norm(p, others), norm(g, others)
        usable = (length > 0) & (grad_length > 0)
        divisor = grad_length + lars_weight_decay * length + epsilon
        own = rate * lars_coeff * length / jnp.where(usable, divisor, jnp.ones_like(divisor))
        rate = jnp.where(usable, own, rate)
    v = mu * wide(velocity) + rate * (g + lars_weight_decay * p)
    return round_as((p - v, v), (param, velocity))


@lowers(ops.Dpsgd)
def dpsgd(
    param: Array,
    grad: Array,
    learning_rate: Array,
    clip: float,
    batch_size: float,
    sigma: float,
    key: Array,
) -> Array:
    p, g = wide(param), wide(grad)
    scale = jnp.maximum(norm(g) / clip, 1)
    noise = sigma * jax.random.normal(key, (), p.dtype)
    return (p - scalar(learning_rate, p) * (g / scale + noise / batch_size)).astype(param.dtype)


@lowers(ops.AverageAccumulates)
def average_accumulates(
    param: Array,
    sum_1: Array,
    sum_2: Array,
    sum_3: Array,
    num_accumulates: Array,
    old_num_accumulates: Array,
    num_updates: Array,
    average_window: float,
    max_average_window: int,
    min_average_window: int,
) -> tuple[Array, ...]:
    updates, count = num_updates + 1, num_accumulates + 1
    first, second = sum_1 + param, sum_2
    # long sums lose precision, so they restart at intervals
    move = (updates % _LONGEST_SUM == 0).reshape(())
    second = jnp.where(move, second + first, second)
    first = jnp.where(move, jnp.zeros_like(first), first)
    window = jnp.minimum(
        np.float64(max_average_window), updates.astype(np.float64) * average_window
    ).astype(count.dtype)
    full = ((count >= min_average_window) & (count >= window)).reshape(())
    third = jnp.where(full, first + second, sum_3)
    old = jnp.where(full, count, old_num_accumulates)
    zero = jnp.zeros_like(count)
    first, second = (jnp.where(full, jnp.zeros_like(s), s) for s in (first, second))
    return first, second, third, jnp.where(full, zero, count), old, updates


_LONGEST_SUM = 16384
