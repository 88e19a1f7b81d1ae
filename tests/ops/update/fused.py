"""Samples of the fused parameter updates, against single updates one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphopt.ir.dialect.ops.update.fused import FusedAdam, FusedMomentum, FusedSgd
from graphopt_tests.ops.base import Array, bf16, f32, f64, sample
from graphopt_tests.ops.update.basic import LR, adam, amsgrad, powers


def each(single: Callable[..., Any], rate: int = 2) -> Callable[..., Any]:
    """Apply the single update to every parameter; the learning rate is operand `rate` of both."""

    def compute(*lists: Any) -> tuple[Array, ...]:
        slots = [values for values in (*lists[:rate], *lists[rate + 1 :]) if values]
        found: list[Array] = []
        for operands in zip(*slots, strict=True):
            result = single(*operands[:rate], lists[rate], *operands[rate:])
            found += result if isinstance(result, tuple) else [result]
        return tuple(found)

    return compute


def two(*shapes: Any, make: Any = f32) -> list[Array]:
    """Make a list of two arrays."""
    return [make(*shapes), make(4)]


def squares(*shapes: Any) -> list[Array]:
    return [abs(x) for x in two(*shapes)]


def pair(index: int) -> list[Array]:
    return [powers()[index], powers()[index]]


SAMPLES = {
    FusedSgd: [
        sample(two(2, 3), two(2, 3), LR).gives(each(lambda p, g, lr: p - lr * g)),
        sample([bf16(3)], [bf16(3)], LR).gives(each(lambda p, g, lr: p - lr * g)),
    ],
    FusedMomentum: [
        sample(two(3), two(3), LR, two(3), mu=0.9).gives(
            each(lambda p, g, lr, v: (p - lr * (0.9 * v + g), 0.9 * v + g))
        ),
        sample(two(3), two(3), LR, two(3), mu=0.9, use_nesterov=True).gives(
            each(lambda p, g, lr, v: (p - lr * (g + 0.9 * (0.9 * v + g)), 0.9 * v + g))
        ),
    ],
    FusedAdam: [
        sample(two(2, 3), two(2, 3), LR, two(2, 3), squares(2, 3), pair(0), pair(1)).gives(
            each(adam)
        ),
        sample(
            *(two(3), two(3), LR, two(3), squares(3), pair(0), pair(1)),
            use_adamw=True,
            weight_decay=0.1,
        ).gives(each(lambda *a: adam(*a, decay=0.1))),
        sample(
            *(two(3), two(3), LR, two(3), squares(3), pair(0), pair(1), squares(3)), amsgrad=True
        ).gives(each(amsgrad)),
        sample([f64(3)], [f64(3)], f64([0.1]), [f64(3)], [abs(f64(3))], [f64([0.5])], [f64([0.5])]),
    ],
}
