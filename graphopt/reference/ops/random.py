"""Random ops, by NumPy's generator: the distribution of the lowering, but not its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import random as ops
from graphopt.reference.registry import rule, rule_each
from graphopt.reference.tape import Array


def drop_elements(
    x: Array, rate: float, is_test: bool, mode: str, generator: np.random.Generator | None
) -> Array:
    """Apply dropout to x; `generator` chooses the kept elements."""
    upscale = mode == "upscale_in_train"
    if is_test:
        return x if upscale else x * (1.0 - rate)
    if rate == 0 or generator is None:
        return x
    if rate == 1:
        return np.where(True, 0.0, x)
    kept = generator.random(x.shape) >= rate
    return np.where(kept, x / (1.0 - rate) if upscale else x, 0.0)


@rule(ops.Dropout)
def dropout(x: Array, p: float, is_test: bool, mode: str, draw: Any) -> Array:
    return drop_elements(x, p, is_test, mode, None if is_test else draw())


@rule(ops.Uniform)
def uniform(shape: Sequence[int], min: float, max: float, draw: Any) -> Array:
    return draw().uniform(min, max, tuple(shape))


rule_each(
    {
        ops.Gaussian: lambda shape, mean, std, draw: draw().normal(mean, std, tuple(shape)),
        ops.RandomIntegers: lambda shape, low, high, draw: draw().integers(low, high, tuple(shape)),
        ops.Permutation: lambda n, draw: draw().permutation(n),
        ops.Bernoulli: lambda x, draw: (draw().random(x.shape) < x) * 1.0,
    }
)


@rule(ops.TruncatedGaussian)
def truncated_gaussian(
    shape: Sequence[int], mean: float, std: float, a: float | None, b: float | None, draw: Any
) -> Array:
    if std == 0:
        return np.full(tuple(shape), mean)
    normal = NormalDist(mean, std)
    low = normal.cdf(mean - 2 * std if a is None else a)
    high = normal.cdf(mean + 2 * std if b is None else b)
    uniform = draw().uniform(low, high, tuple(shape))
    return np.vectorize(normal.inv_cdf, otypes=["float64"])(np.clip(uniform, 1e-16, 1 - 1e-16))
