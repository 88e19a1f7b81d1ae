"""Fused parameter updates in JAX: each by the rule of the single update, so the numbers agree."""

from __future__ import annotations

from typing import Any

import jax

from graphopt.ir.dialect.op import call_rule
from graphopt.ir.dialect.ops.update.fused import FusedAdam, FusedMomentum, FusedSgd, FusedUpdate
from graphopt.lowering.ops.base import Array
from graphopt.lowering.ops.update.basic import adam, adamw, momentum, sgd
from graphopt.lowering.registry import lowers


def _all(kind: type[FusedUpdate], rule: Any, values: dict[str, Any]) -> tuple[Array, ...]:
    """Compute all updates, one after the other."""
    lists = {name: values.pop(name) for name, _ in kind.SLOTS}
    stacked = values.pop("stacked")
    results: list[Array] = []
    for operands in kind.each(**lists):

        def update(operands: dict[str, Any]) -> Any:
            return call_rule(rule, {**values, **operands})

        found = (jax.vmap(update) if stacked else update)(operands)
        results += found if isinstance(found, tuple) else [found]
    return tuple(results)


@lowers(FusedSgd)
def fused_sgd(**values: Any) -> tuple[Array, ...]:
    return _all(FusedSgd, sgd, values)


@lowers(FusedMomentum)
def fused_momentum(**values: Any) -> tuple[Array, ...]:
    return _all(FusedMomentum, momentum, values)


@lowers(FusedAdam)
def fused_adam(use_adamw: bool, weight_decay: float, **values: Any) -> tuple[Array, ...]:
    if not use_adamw:
        return _all(FusedAdam, adam, values)
    return _all(
        FusedAdam, adamw, {**values, "coeff": weight_decay, "with_decay": weight_decay != 0}
    )
