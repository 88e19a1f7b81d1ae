"""Samples of the updates by signs, by lengths and by sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.update import plain as ops
from graphopt_tests.ops.base import Array, bf16, f32, f64, i64, sample

LR = f32([0.1])


def asgd(p: Array, g: Array, lr: Array, d: Array, y: Array, n: Array) -> tuple[Any, ...]:
    return p - lr / n * (d - y + g), d - y + g, g


def rprop(
    p: Array, g: Array, steps: Array, before: Array, limits: Array, etas: Array
) -> tuple[Any, ...]:
    agree = np.sign(g * before)
    steps = np.clip(steps * np.where(agree > 0, etas[1], etas[0] ** -agree), *limits)
    g = np.where(agree < 0, 0, g)
    return p - np.sign(g) * steps, g, steps


def lars(p: Array, g: Array, lr: Array, v: Array) -> tuple[Any, ...]:
    norm = np.linalg.norm(p)
    rate = lr * 0.5 * norm / (np.linalg.norm(g) + 0.1 * norm)
    v = 0.9 * v + rate * (g + 0.1 * p)
    return p - v, v


def plain_lars(p: Array, g: Array, lr: Array, v: Array) -> tuple[Any, ...]:
    v = 0.9 * v + lr * g
    return p - v, v


def dpsgd(p: Array, g: Array, lr: Array) -> Array:
    return p - lr * g / max(1, np.linalg.norm(g) / 0.5)


def growing(p: Array, *state: Array) -> tuple[Any, ...]:
    """Update a window that stays open."""
    one, two, three, count, old, updates = state
    return one + p, two, three, count + 1, old, updates + 1


def full(p: Array, *state: Array) -> tuple[Any, ...]:
    """Update a window that is full."""
    one, two, _, count, _, updates = state
    return 0 * one, 0 * two, one + p + two, 0 * count, count + 1, updates + 1


def moving(p: Array, *state: Array) -> tuple[Any, ...]:
    """Move the first sum to the second."""
    one, two, three, count, old, updates = state
    return 0 * one, two + one + p, three, count + 1, old, updates + 1


def average(updates: int, **attrs: Any) -> Any:
    state = (f32(2, 3), f32(2, 3), f32(2, 3), i64([4]), i64([3]), i64([updates]))
    return sample(f32(2, 3), *state, average_window=0.5, **attrs)


SAMPLES = {
    ops.AverageAccumulates: [
        average(5, min_average_window=9, max_average_window=9).gives(growing).kinked(),
        average(5, min_average_window=2, max_average_window=9).gives(full).kinked(),
        average(16383, min_average_window=9, max_average_window=9).gives(moving).kinked(),
    ],
    ops.Asgd: [
        sample(f32(2, 3), f32(2, 3), LR, f32(2, 3), f32(2, 3), f32([2.0])).gives(asgd),
        sample(bf16(3), bf16(3), LR, f32(3), f32(3), f32([3.0])).gives(asgd),
    ],
    ops.Rprop: [
        sample(f32(5), f32(5), abs(f32(5)), f32(5), f32([0.3, 1.0]), f32([0.5, 1.2]))
        .gives(rprop)
        .kinked(),
        sample(f64(3), f64(3), abs(f64(3)), f64([0, 0, 0]), f64([0.1, 9]), f64([0.5, 1.2]))
        .gives(rprop)
        .kinked()
        .known_sizes(),
    ],
    ops.LarsMomentum: [
        sample(
            *(f32(2, 3), f32(2, 3), LR, f32(2, 3)), mu=0.9, lars_coeff=0.5, lars_weight_decay=0.1
        ).gives(lars),
        sample(f32(3), f32(3), LR, f32(3), mu=0.9, lars_weight_decay=0.0).gives(plain_lars),
    ],
    ops.Dpsgd: [
        sample(f32(4), f32(4), LR, clip=0.5, sigma=0.0).gives(dpsgd),
        sample(f32(4), f32(4), LR, sigma=1.0, seed=3),
    ],
}
