"""Adam and AdamW from sparse gradients, by the formulas of the papers with Paddle's differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.update.sparse import SparseAdam, SparseAdamw
from graphopt.reference.ops.update.basic import adamw, scalar
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


def chosen(looked_up: Array | None, new: tuple[Array, ...], **old: Array) -> tuple[Array, ...]:
    """New rows where they were looked up."""
    if looked_up is None:
        return new
    before = old["param"], old["moment1"], old["moment2"]
    kept = [np.where(looked_up > 0, n, o) for n, o in zip(new, before, strict=False)]
    return *kept, *new[3:]


@rule(SparseAdam)
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
    first = beta1 * moment1 + (1.0 - beta1) * grad
    second = beta2 * moment2 + (1.0 - beta2) * grad * grad
    power1, power2 = beta1_pow * beta1, beta2_pow * beta2
    unbias = np.sqrt(1.0 - scalar(power2))
    rate = scalar(learning_rate) * unbias / (1.0 - scalar(power1))
    small = epsilon if uncorrected_epsilon else epsilon * unbias
    moved = param - rate * first / (np.sqrt(second) + small)
    new = moved, first, second, power1, power2
    return chosen(looked_up, new, param=param, moment1=moment1, moment2=moment2)


@rule(SparseAdamw)
def sparse_adamw(looked_up: Array | None, **rest: Any) -> tuple[Array, ...]:
    old = {name: rest[name] for name in ("param", "moment1", "moment2")}
    return chosen(looked_up, adamw(**rest, moment2_max=None), **old)
