"""Adam and AdamW from sparse gradients, in JAX; half types are updated in float32."""

from __future__ import annotations

from jax import numpy as jnp

from graphopt.ir.dialect.ops.update.sparse import SparseAdam, SparseAdamw
from graphopt.lowering.ops.base import Array
from graphopt.lowering.ops.update.basic import adam, adamw
from graphopt.lowering.registry import lowers


def sparse_adam_step(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    beta1: float,
    beta2: float,
    epsilon: float,
    uncorrected_epsilon: bool,
) -> tuple[Array, ...]:
    """Adam with the powers of the next step; moments and powers are after the parameter."""
    powers = beta1_pow * beta1, beta2_pow * beta2
    state = learning_rate, moment1, moment2, *powers, None
    moved, m1, m2, *_ = adam(param, grad, *state, beta1, beta2, epsilon, uncorrected_epsilon)
    return moved, m1, m2, *powers


def _chosen(
    looked_up: Array | None, new: tuple[Array, ...], old: tuple[Array, ...]
) -> tuple[Array, ...]:
    """New tables where a row was looked up, the old ones elsewhere; powers are new."""
    if looked_up is None:
        return new
    kept = [jnp.where(looked_up > 0, n, o) for n, o in zip(new, old, strict=False)]
    return *kept, *new[len(old) :]


@lowers(SparseAdam)
def sparse_adam(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    looked_up: Array | None,
    beta1: float,
    beta2: float,
    epsilon: float,
    uncorrected_epsilon: bool,
) -> tuple[Array, ...]:
    new = sparse_adam_step(
        *(param, grad, learning_rate, moment1, moment2, beta1_pow, beta2_pow),
        *(beta1, beta2, epsilon, uncorrected_epsilon),
    )
    return _chosen(looked_up, new, (param, moment1, moment2))


@lowers(SparseAdamw)
def sparse_adamw(
    param: Array,
    grad: Array,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    looked_up: Array | None,
    beta1: float,
    beta2: float,
    epsilon: float,
    uncorrected_epsilon: bool,
    coeff: float,
    lr_ratio: float,
    with_decay: bool,
) -> tuple[Array, ...]:
    new = adamw(
        *(param, grad, learning_rate, moment1, moment2, beta1_pow, beta2_pow, None),
        *(beta1, beta2, epsilon, uncorrected_epsilon, coeff, lr_ratio, with_decay),
    )
    return _chosen(looked_up, new, (param, moment1, moment2))
