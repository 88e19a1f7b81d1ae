"""Random ops in JAX. `key` already depends on the op, the step and the replica."""

from __future__ import annotations

import jax
import numpy as np
from jax import numpy as jnp

from graphopt.ir.dtypes import DType
from graphopt.ir.ops.random import Dropout, Gaussian, TruncatedGaussian, Uniform
from graphopt.lowering.ops.base import Array, wide_dtype
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
