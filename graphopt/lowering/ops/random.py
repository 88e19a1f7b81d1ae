"""Random ops in JAX. `key` already depends on the op, the step and the replica."""

from __future__ import annotations

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dtypes import DType
from graphopt.ir.ops.random import (
    Bernoulli,
    Dropout,
    Gaussian,
    Multinomial,
    Permutation,
    RandomIntegers,
    TruncatedGaussian,
    Uniform,
)
from graphopt.lowering.ops.base import Array, wide, wide_dtype
from graphopt.lowering.registry import lowers


@lowers(Dropout)
def dropout(x: Array, p: float, is_test: bool, mode: str, key: Array) -> Array:
    upscale = mode == "upscale_in_train"
    if is_test:
        return x if upscale else x * (1 - p)
    if p == 0:
        return x
    if p == 1:
        return jnp.zeros_like(x)
    # a probability in float32 keeps the draw at 32 bits per element
    keep = jax.random.bernoulli(key, np.float32(1 - p), x.shape)
    return jnp.where(keep, x / (1 - p) if upscale else x, jnp.zeros((), x.dtype))


@lowers(Uniform)
def uniform(key: Array, shape: tuple[int, ...], dtype: DType, min: float, max: float) -> Array:
    return (min + (max - min) * jax.random.uniform(key, shape, wide_dtype(dtype))).astype(
        dtype.numpy
    )


@lowers(Gaussian)
def gaussian(key: Array, shape: tuple[int, ...], dtype: DType, mean: float, std: float) -> Array:
    standard = jax.random.normal(key, shape, wide_dtype(dtype))
    return (mean + std * standard).astype(dtype.numpy)


@lowers(TruncatedGaussian)
def truncated_gaussian(
    key: Array, shape: tuple[int, ...], dtype: DType, mean: float, std: float
) -> Array:
    standard = jax.random.truncated_normal(key, -2, 2, shape, wide_dtype(dtype))
    return (mean + std * standard).astype(dtype.numpy)


@lowers(RandomIntegers)
def randint(key: Array, shape: tuple[int, ...], dtype: DType, low: int, high: int) -> Array:
    return jax.random.randint(key, shape, low, high, np.int64).astype(dtype.numpy)


@lowers(Permutation)
def randperm(key: Array, n: int, dtype: DType) -> Array:
    return jax.random.permutation(key, n).astype(dtype.numpy)


@lowers(Bernoulli)
def bernoulli(x: Array, key: Array) -> Array:
    return jax.random.bernoulli(key, lax.stop_gradient(wide(x))).astype(x.dtype)


@lowers(Multinomial)
def multinomial(x: Array, num_samples: int, replacement: bool, key: Array) -> Array:
    weights = jnp.log(lax.stop_gradient(wide(x)))
    if replacement:
        drawn = jax.random.categorical(key, weights, shape=(num_samples, *x.shape[:-1]))
        return jnp.moveaxis(drawn, 0, -1).astype(np.int64)
    # the largest of weights with Gumbel noise are a draw without replacement
    noisy = weights + jax.random.gumbel(key, x.shape, weights.dtype)
    return lax.top_k(noisy, num_samples)[1].astype(np.int64)
