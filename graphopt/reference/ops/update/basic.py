"""Parameter updates, by the formulas of the papers with Paddle's order of steps."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.update.adaptive import Adagrad
from graphopt.ir.dialect.ops.update.basic import Adam, Adamw, Momentum, Sgd
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


def scalar(x: Array) -> Array:
    """Reshape a learning rate or a power of beta to a scalar."""
    return np.reshape(x, ())


@rule(Sgd)
def sgd(param: Array, grad: Array, learning_rate: Array) -> Array:
    return param - scalar(learning_rate) * grad


@rule(Momentum)
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
    if regularization_method == "l2_decay":
        grad = grad + regularization_coeff * param
    speed = mu * velocity + grad
    step = grad + mu * speed if use_nesterov else speed
    return param - scalar(learning_rate) * step, speed


@rule(Adagrad)
def adagrad(
    param: Array, grad: Array, learning_rate: Array, moment: Array, epsilon: float
) -> tuple[Array, ...]:
    squares = moment + grad * grad
    return param - scalar(learning_rate) * grad / (np.sqrt(squares) + epsilon), squares


@rule(Adam)
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
    first = beta1 * moment1 + (1.0 - beta1) * grad
    second = beta2 * moment2 + (1.0 - beta2) * grad * grad
    largest = second if moment2_max is None else np.maximum(second, moment2_max)
    unbias = np.sqrt(1.0 - scalar(beta2_pow))
    rate = scalar(learning_rate) * unbias / (1.0 - scalar(beta1_pow))
    small = epsilon if uncorrected_epsilon else epsilon * unbias
    moved = param - rate * first / (np.sqrt(largest) + small)
    state = (first, second, beta1_pow * beta1, beta2_pow * beta2)
    return (moved, *state) if moment2_max is None else (moved, *state, largest)


@rule(Adamw)
def adamw(
    param: Array, learning_rate: Array, coeff: float, lr_ratio: float, with_decay: bool, **rest: Any
) -> tuple[Array, ...]:
    rate = learning_rate * lr_ratio
    if with_decay:
        param = param * (1.0 - scalar(rate) * coeff)
    names = ("grad", "moment1", "moment2", "beta1_pow", "beta2_pow", "moment2_max")
    numbers = ("beta1", "beta2", "epsilon", "uncorrected_epsilon")
    return adam(param=param, learning_rate=rate, **{n: rest[n] for n in (*names, *numbers)})
