"""Several parameter updates as one op, each parameter separately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.update.fused import FusedAdam, FusedMomentum, FusedSgd
from graphopt.reference.ops.update.basic import adam, adamw, momentum, sgd
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array

Arrays = Sequence[Array]


@rule(FusedSgd)
def fused_sgd(params: Arrays, grads: Arrays, learning_rate: Array) -> tuple[Array, ...]:
    return tuple(sgd(p, g, learning_rate) for p, g in zip(params, grads, strict=True))


@rule(FusedMomentum)
def fused_momentum(
    params: Arrays,
    grads: Arrays,
    learning_rate: Array,
    velocities: Arrays,
    mu: float,
    use_nesterov: bool,
    regularization_method: str,
    regularization_coeff: float,
) -> tuple[Array, ...]:
    found: list[Array] = []
    for p, g, v in zip(params, grads, velocities, strict=True):
        decay = (regularization_method, regularization_coeff)
        found += momentum(p, g, v, learning_rate, mu, use_nesterov, *decay)
    return tuple(found)


@rule(FusedAdam)
def fused_adam(
    params: Arrays,
    grads: Arrays,
    learning_rate: Array,
    moments1: Arrays,
    moments2: Arrays,
    beta1_pows: Arrays,
    beta2_pows: Arrays,
    moments2_max: Arrays,
    use_adamw: bool,
    weight_decay: float,
    lr_ratio: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    uncorrected_epsilon: bool,
    stacked: bool,
) -> tuple[Array, ...]:
    if stacked:
        # each parameter has its own powers of beta; sgd and momentum have no such state
        lists = (moments1, moments2, beta1_pows, beta2_pows, moments2_max)
        betas = (beta1, beta2, epsilon, uncorrected_epsilon)
        rest = (use_adamw, weight_decay, lr_ratio, *betas, False)
        results: list[Array] = []
        for at in range(len(params)):
            items = [
                fused_adam(
                    [params[at][i]],
                    [grads[at][i]],
                    learning_rate,
                    *([values[at][i]] if values else [] for values in lists),
                    *rest,
                )
                for i in range(len(params[at]))
            ]
            results += [np.stack(values) for values in zip(*items, strict=True)]
        return tuple(results)
    found: list[Array] = []
    for i in range(len(params)):
        values: dict[str, Any] = {
            "param": params[i],
            "grad": grads[i],
            "learning_rate": learning_rate,
            "moment1": moments1[i],
            "moment2": moments2[i],
            "beta1_pow": beta1_pows[i],
            "beta2_pow": beta2_pows[i],
            "moment2_max": moments2_max[i] if moments2_max else None,
            "beta1": beta1,
            "beta2": beta2,
            "epsilon": epsilon,
            "uncorrected_epsilon": uncorrected_epsilon,
        }
        if use_adamw:
            decay = {"coeff": weight_decay, "with_decay": weight_decay != 0}
            found += adamw(**values, **decay, lr_ratio=lr_ratio)
        else:
            found += adam(**values)
    return tuple(found)
