"""Random ops in JAX. `key` already depends on the op, the step and the replica."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import random as ops
from graphopt.ir.dtypes import DType
from graphopt.lowering.ops.base import Array, wide, wide_dtype
from graphopt.lowering.registry import lowers

# Longer draws are made in blocks of this many numbers.
BLOCK = 4096

Shape = tuple[int, ...]


def _drawn(draw: Callable[[Array, Shape], Array], key: Array, shape: Shape) -> Array:
    """`draw(key, shape)`; a long draw block by block, each with a key of its own.

    XLA needs about half a second to compile a generator, and does so for each shape. The dozens of
    shapes in a startup program share the generator of a block.
    """
    size = math.prod(shape)
    if size <= BLOCK:
        return draw(key, shape)

    def block(number: Array) -> Array:
        return draw(jax.random.fold_in(key, number), (BLOCK,))

    blocks = lax.map(block, jnp.arange(-(-size // BLOCK), dtype="uint32"))
    return blocks.reshape(-1)[:size].reshape(shape)


@lowers(ops.Dropout)
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


@lowers(ops.Uniform)
def uniform(key: Array, shape: tuple[int, ...], dtype: DType, min: float, max: float) -> Array:
    unit = _drawn(partial(jax.random.uniform, dtype=wide_dtype(dtype)), key, shape)
    return (min + (max - min) * unit).astype(dtype.numpy)


@lowers(ops.Gaussian)
def gaussian(key: Array, shape: tuple[int, ...], dtype: DType, mean: float, std: float) -> Array:
    standard = _drawn(partial(jax.random.normal, dtype=wide_dtype(dtype)), key, shape)
    return (mean + std * standard).astype(dtype.numpy)


@lowers(ops.TruncatedGaussian)
def truncated_gaussian(
    key: Array, shape: tuple[int, ...], dtype: DType, mean: float, std: float
) -> Array:
    def draw(key: Array, shape: Shape) -> Array:
        return jax.random.truncated_normal(key, -2, 2, shape, wide_dtype(dtype))

    standard = _drawn(draw, key, shape)
    return (mean + std * standard).astype(dtype.numpy)


@lowers(ops.RandomIntegers)
def randint(key: Array, shape: tuple[int, ...], dtype: DType, low: int, high: int) -> Array:
    return jax.random.randint(key, shape, low, high, np.int64).astype(dtype.numpy)


@lowers(ops.Permutation)
def randperm(key: Array, n: int, dtype: DType) -> Array:
    return jax.random.permutation(key, n).astype(dtype.numpy)


@lowers(ops.Bernoulli)
def bernoulli(x: Array, key: Array) -> Array:
    return jax.random.bernoulli(key, lax.stop_gradient(wide(x))).astype(x.dtype)


@lowers(ops.Multinomial)
def multinomial(x: Array, num_samples: int, replacement: bool, key: Array) -> Array:
    weights = jnp.log(lax.stop_gradient(wide(x)))
    if replacement:
        drawn = jax.random.categorical(key, weights, shape=(num_samples, *x.shape[:-1]))
        return jnp.moveaxis(drawn, 0, -1).astype(np.int64)
    # the largest of weights with Gumbel noise are a draw without replacement
    noisy = weights + jax.random.gumbel(key, x.shape, weights.dtype)
    return lax.top_k(noisy, num_samples)[1].astype(np.int64)


@lowers(ops.Poisson)
def poisson(x: Array, key: Array) -> Array:
    return jax.random.poisson(_counter(key), lax.stop_gradient(wide(x)), x.shape).astype(x.dtype)


def _counter(key: Array) -> Array:
    """A key of the only kind of generator that supports draws of unknown length."""
    if jax.random.key_impl(key) == "threefry2x32":
        return key
    words = jax.random.key_data(key).reshape(-1)[:2]
    return jax.random.wrap_key_data(words, impl="threefry2x32")


@lowers(ops.StandardGamma)
def standard_gamma(x: Array, key: Array) -> Array:
    return jax.random.gamma(key, lax.stop_gradient(wide(x))).astype(x.dtype)


@lowers(ops.Binomial)
def binomial(count: Array, prob: Array, key: Array) -> Array:
    shape = jnp.broadcast_shapes(count.shape, prob.shape)
    chance = lax.stop_gradient(wide(prob))
    tries = count.astype(chance.dtype)
    return jax.random.binomial(_counter(key), tries, chance, shape, chance.dtype).astype(np.int64)


@lowers(ops.GumbelSoftmax)
def gumbel_softmax(x: Array, temperature: float, hard: bool, axis: int, key: Array) -> Array:
    noise = jax.random.gumbel(key, x.shape, wide_dtype(x.dtype))
    soft = jax.nn.softmax((wide(x) + noise) / temperature, axis)
    if hard:
        best = jax.nn.one_hot(jnp.argmax(soft, axis), x.shape[axis], axis=axis, dtype=soft.dtype)
        # the gradient is that of the soft draw
        soft = soft + lax.stop_gradient(best - soft)
    return soft.astype(x.dtype)


@lowers(ops.Rrelu)
def rrelu(x: Array, lower: float, upper: float, is_test: bool, key: Array) -> tuple[Array, Array]:
    one = jnp.ones((), x.dtype)
    if is_test:
        slope = jnp.full(x.shape, (lower + upper) / 2, x.dtype)
    else:
        drawn = jax.random.uniform(key, x.shape, wide_dtype(x.dtype), lower, upper)
        slope = jnp.where(x >= 0, one, drawn.astype(x.dtype))
    return jnp.where(x >= 0, x, x * slope), slope
