"""Samples of the adaptive updates, at some step of a training."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.update import adaptive as ops
from graphopt_tests.ops.base import Array, bf16, f32, f64, sample

LR = f32([0.1])


def pos(*shape: int) -> Array:
    """Make positive state of the parameter's shape."""
    return abs(f32(*shape))


def power(base: float, step: int, *shape: int) -> Array:
    """Make a power that is stored for each element."""
    return np.full(shape, base**step, np.float32)


def adagrad(p: Array, g: Array, lr: Array, m: Array) -> tuple[Any, ...]:
    m = m + g**2
    return p - lr * g / (np.sqrt(m) + 1e-6), m


def decayed(p: Array, g: Array, lr: Array, m: Array) -> tuple[Any, ...]:
    m = 0.5 * m + 0.5 * g**2
    return p - lr * g / (np.sqrt(m) + 1e-6), m


def adadelta(p: Array, g: Array, lr: Array, squares: Array, steps: Array) -> tuple[Any, ...]:
    squares = 0.9 * squares + 0.1 * g**2
    step = -np.sqrt((steps + 1e-6) / (squares + 1e-6)) * g
    return p + lr * step, squares, 0.9 * steps + 0.1 * step**2


def adamax(p: Array, g: Array, lr: Array, m: Array, n: Array, b1: Array) -> tuple[Any, ...]:
    m, n = 0.9 * m + 0.1 * g, np.maximum(abs(g), 0.999 * n + 1e-8)
    return p - lr / (1 - b1) * m / n, m, n


def rmsprop(p: Array, g: Array, lr: Array, v: Array, s: Array, m: Array) -> tuple[Any, ...]:
    s = 0.9 * s + 0.1 * g**2
    v = 0.5 * v + lr * g / np.sqrt(s + 1e-3)
    return p - v, v, s, m


def centered(p: Array, g: Array, lr: Array, v: Array, s: Array, m: Array) -> tuple[Any, ...]:
    s, m = 0.9 * s + 0.1 * g**2, 0.9 * m + 0.1 * g
    v = lr * g / np.sqrt(s - m**2 + 1e-3)
    return p - v, v, s, m


def lamb(adapt: bool, decay: float = 0.01) -> Any:
    """Build the formula with or without the trust ratio."""

    def expected(p: Array, g: Array, lr: Array, *state: Array) -> tuple[Any, ...]:
        m, v, b1, b2 = state
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        step = m / (1 - b1) / (np.sqrt(v / (1 - b2)) + 1e-6) + decay * p
        ratio = np.linalg.norm(p) / np.linalg.norm(step) if adapt else 1
        return p - lr * ratio * step, m, v, b1 * 0.9, b2 * 0.999

    return expected


def nadam(p: Array, g: Array, lr: Array, *state: Array) -> tuple[Any, ...]:
    decay, b2, product, m, v = state
    decay, b2 = decay * 0.96, b2 * 0.999
    mu, ahead = (0.9 * (1 - 0.5 * (decay * shift) ** 0.004) for shift in (1, 0.96))
    product = product * mu
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    first = ahead * m / (1 - product * ahead) + (1 - mu) * g / (1 - product)
    return p - lr * first / (np.sqrt(v / (1 - b2)) + 1e-8), decay, b2, product, m, v


def radam(p: Array, g: Array, lr: Array, *state: Array) -> tuple[Any, ...]:
    b1, b2, rho, m, v = state
    b1, b2 = b1 * 0.9, b2 * 0.9
    rho = (rho * (0.9 - b2) + b2) / (1 - b2)
    m, v = 0.9 * m + 0.1 * g, 0.9 * v + 0.1 * g**2
    limit = 2 / (1 - 0.9) - 1
    length = limit - 2 * rho.flat[0]
    factor: Any = 1
    if length > 5:
        ratio = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
        factor = np.sqrt(ratio) * np.sqrt(1 - b2) / (np.sqrt(v) + 1e-8)
    return p - lr * m / (1 - b1) * factor, b1, b2, rho, m, v


def ftrl(l1: float, l2: float, power: float) -> Any:
    """Build the formula for these penalties."""

    def expected(p: Array, g: Array, lr: Array, s: Array, z: Array) -> tuple[Any, ...]:
        new = s + g**2
        z = z + g - (new**-power - s**-power) / lr * p
        moved = (l1 * np.sign(z) - z) / (new**-power / lr + 2 * l2)
        return np.where(abs(z) > l1, moved, 0), new, z

    return expected


def radam_sample(step: int, rho: float) -> Any:
    b1, b2 = power(0.9, step, 2, 2), power(0.9, step, 2, 2)
    constant = np.full((2, 2), rho, np.float32)
    return sample(f32(2, 2), f32(2, 2), LR, b1, b2, constant, f32(2, 2), pos(2, 2), beta2=0.9)


SAMPLES = {
    ops.Adagrad: [
        sample(f32(2, 3), f32(2, 3), LR, pos(2, 3)).gives(adagrad),
        sample(f64(3), f64(3), f64([0.1]).reshape(()), abs(f64(3))).gives(adagrad),
        sample(bf16(3), bf16(3), LR, pos(3)).gives(adagrad),
    ],
    ops.DecayedAdagrad: [sample(f32(2, 3), f32(2, 3), LR, pos(2, 3), decay=0.5).gives(decayed)],
    ops.Adadelta: [
        sample(f32(2, 3), f32(2, 3), LR, pos(2, 3), pos(2, 3), rho=0.9).gives(adadelta),
        sample(bf16(3), bf16(3), LR, pos(3), pos(3), rho=0.9).gives(adadelta),
    ],
    ops.Adamax: [sample(f32(3), f32(3), LR, f32(3), pos(3), f32([0.9**3])).gives(adamax).kinked()],
    ops.Rmsprop: [
        sample(*(f32(3), f32(3), LR, f32(3), 4 * pos(3), f32(3)), epsilon=1e-3, momentum=0.5).gives(
            rmsprop
        ),
        sample(
            *(f32(3), f32(3), LR, f32(3), 16 * pos(3), f32(3)), epsilon=1e-3, centered=True
        ).gives(centered),
    ],
    ops.Lamb: [
        sample(f32(2, 2), f32(2, 2), LR, f32(2, 2), pos(2, 2), f32([0.4]), f32([0.6])).gives(
            lamb(True)
        ),
        sample(
            *(f32(3), f32(3), LR, f32(3), pos(3), f32([0.4]), f32([0.6])), weight_decay=0.0
        ).gives(lamb(False, 0.0)),
        sample(
            *(f32(3), f32(3), LR, f32(3), pos(3), f32([0.4]), f32([0.6])),
            weight_decay=0.0,
            always_adapt=True,
        ).gives(lamb(True, 0.0)),
    ],
    ops.Nadam: [
        sample(
            *(f32(2, 2), f32(2, 2), LR, power(0.96, 2, 2, 2), power(0.999, 2, 2, 2)),
            *(power(0.45, 2, 2, 2), f32(2, 2), pos(2, 2)),
        ).gives(nadam)
    ],
    # on a late step the variance is known, on the second one it is not
    ops.Radam: [radam_sample(60, 0.01).gives(radam), radam_sample(1, 1.0).gives(radam)],
    ops.Ftrl: [
        sample(f32(3), f32(3), LR, pos(3), f32(3)).gives(ftrl(0, 0, -0.5)),
        sample(f32(6), f32(6), LR, pos(6), f32(6), l1=0.5, l2=0.1, lr_power=-0.3)
        .gives(ftrl(0.5, 0.1, -0.3))
        .kinked(),
    ],
}
