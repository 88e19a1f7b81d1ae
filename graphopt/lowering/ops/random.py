"""Random ops in JAX. `key` already depends on the op, the step and the replica."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.core import Tracer

from graphopt.ir.dialect.ops import random as ops
from graphopt.ir.dtypes import DType
from graphopt.lowering.call import Call
from graphopt.lowering.collectives import ALONE, Replicas
from graphopt.lowering.hashing import keep_share, mix_words
from graphopt.lowering.host_draws import BLOCK
from graphopt.lowering.kernels.ordering import argsort
from graphopt.lowering.ops.base import Array, constant, wide, wide_dtype
from graphopt.lowering.registry import lowers

# The number of blocks that one call of the shared program for long draws computes.
PART = 16

Shape = tuple[int, ...]
# (key, shape, element type) -> numbers
Draw = Callable[..., Array]


def _draw_scaled(
    draw: Draw, key: Array, shape: Shape, dtype: DType, scale: float, offset: float
) -> Array:
    """Compute `offset + scale * draw(key, shape)`; a long draw in blocks with keys of their own.

    XLA needs a quarter of a second to compile a generator, and does so for each shape. Where the
    key has a value, the dozens of shapes in a startup program share one program for short draws,
    which makes a whole block, and one for long draws, which makes PART blocks. They run on the CPU
    for any device, so that all devices get the same numbers; the rest is a transfer.
    """
    wider = wide_dtype(dtype)
    factor, start = constant(scale, wider), constant(offset, wider)
    size = math.prod(shape)
    host = None if isinstance(key, Tracer) else _host()
    if host is None:
        if size <= BLOCK:
            return (draw(key, shape, wider) * factor + start).astype(dtype.numpy)
        numbers = _blocks(draw, key, jnp.arange(-(-size // BLOCK), dtype="uint32"), wider)
        return (numbers[:size].reshape(shape) * factor + start).astype(dtype.numpy)
    (device,) = key.devices()
    is_on_host = device == host
    own = key if is_on_host else jax.device_put(key, host)
    if size <= BLOCK:
        numbers = np.asarray(_block(draw, wider, dtype)(own, factor, start))
    else:
        part = _part(draw, wider, dtype)
        firsts = np.arange(0, -(-size // BLOCK), PART, dtype=np.uint32)
        numbers = np.concatenate([part(own, first, factor, start) for first in firsts])
    to = None if is_on_host else device
    return jax.device_put(numbers[:size].reshape(shape), to, may_alias=False)


def _blocks(draw: Draw, key: Array, blocks: Array, dtype: Any) -> Array:
    """Draw these blocks and concatenate them."""

    def block(number: Array) -> Array:
        return draw(jax.random.fold_in(key, number), (BLOCK,), dtype)

    return lax.map(block, blocks).reshape(-1)


# cached by distribution and element type, as `_part` is
@cache
def _block(draw: Draw, wider: Any, dtype: DType) -> Any:
    """Compile a function (key, scale, offset) -> BLOCK numbers.

    Its first numbers equal a shorter draw, since each number follows from the key and its index.
    """

    def block(key: Array, scale: Array, offset: Array) -> Array:
        return (offset + scale * draw(key, (BLOCK,), wider)).astype(dtype.numpy)

    return jax.jit(block)


@cache
def _part(draw: Draw, wider: Any, dtype: DType) -> Any:
    """Compile a function (key, first block, scale, offset) -> PART blocks."""

    def part(key: Array, first: Array, scale: Array, offset: Array) -> Array:
        blocks = first + jnp.arange(PART, dtype="uint32")
        return (offset + scale * _blocks(draw, key, blocks, wider)).astype(dtype.numpy)

    return jax.jit(part)


@cache
def _host() -> Any:
    """Return a CPU device of this process; None where JAX has been set to leave it out."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return None


def shares_generator(call: Call) -> bool:
    """True for a draw whose rule itself calls jitted code that other draws share."""
    return issubclass(call.op_class, (ops.Uniform, ops.Gaussian, ops.TruncatedGaussian))


def draw_mask(key: Array, share: float, shape: Shape) -> Array:
    """Draw a mask that is True for a random `share` of the elements, by a key of `hashing.py`."""
    size = math.prod(shape)
    counters = lax.iota(np.uint32, size)
    if isinstance(size, int) and size > 1 << 32:  # else a symbolic size, as in an export
        high = (lax.iota(np.uint64, size) >> np.uint64(32)).astype(np.uint32)
        counters = counters ^ mix_words(high)
    return keep_share(key, counters, share).reshape(shape)


@lowers(ops.Dropout)
def dropout(
    x: Array,
    p: float,
    is_test: bool,
    mode: str,
    key: Array | None,
    replicas: Replicas = ALONE,
    cut: int | None = None,
) -> Array:
    upscale = mode == "upscale_in_train"
    if is_test:
        return x if upscale else x * (1 - p)
    if p == 0:
        return x
    if p == 1:
        return jnp.zeros_like(x)
    assert key is not None, "an op that draws has a key"
    shape = x.shape
    if cut is not None:
        shape = (*shape[:cut], shape[cut] * replicas.model, *shape[cut + 1 :])
    keep = draw_mask(key, 1 - p, shape)
    keep = keep if cut is None else replicas.model_piece(keep, cut)
    return jnp.where(keep, x / (1 - p) if upscale else x, jnp.zeros((), x.dtype))


@lowers(ops.Uniform)
def uniform(key: Array, shape: Shape, dtype: DType, min: float, max: float) -> Array:
    return _draw_scaled(jax.random.uniform, key, shape, dtype, max - min, min)


@lowers(ops.Gaussian)
def gaussian(key: Array, shape: Shape, dtype: DType, mean: float, std: float) -> Array:
    return _draw_scaled(jax.random.normal, key, shape, dtype, std, mean)


@lowers(ops.TruncatedGaussian)
def truncated_gaussian(
    key: Array,
    shape: Shape,
    dtype: DType,
    mean: float,
    std: float,
    a: float | None,
    b: float | None,
) -> Array:
    bounds = ops.TruncatedGaussian.deviations(mean, std, a, b)
    return _draw_scaled(_truncated_draw(*bounds), key, shape, dtype, std, mean)


# Cached: compiled generators are cached by this function, so equal bounds need the same one.
@cache
def _truncated_draw(low: float, high: float) -> Draw:
    def draw(key: Array, shape: Shape, dtype: Any) -> Array:
        # The generator returns a bound itself once in 2**23 draws, or 2**52 in float64. A normal
        # number reaches this limit as rarely, and never reaches a bound beyond it.
        limit = 8.2 if np.dtype(dtype) == np.float64 else 5.3
        ends = low, high
        if low < limit and high > -limit:
            ends = max(low, -limit), min(high, limit)
        return jax.random.truncated_normal(key, *ends, shape, dtype)

    return draw


@lowers(ops.RandomIntegers)
def randint(key: Array, shape: tuple[int, ...], dtype: DType, low: int, high: int) -> Array:
    return jax.random.randint(key, shape, low, high, np.int64).astype(dtype.numpy)


@lowers(ops.Permutation)
def randperm(key: Array, n: int, dtype: DType) -> Array:
    return argsort(jax.random.bits(key, (n,), np.uint32).view(np.int32)).astype(dtype.numpy)


@lowers(ops.Bernoulli)
def bernoulli(x: Array, key: Array) -> Array:
    return jax.random.bernoulli(key, lax.stop_gradient(wide(x))).astype(x.dtype)


@lowers(ops.Multinomial)
def multinomial(x: Array, num_samples: int, replacement: bool, key: Array) -> Array:
    weights = jnp.log(lax.stop_gradient(wide(x)))
    if replacement:
        drawn = jax.random.categorical(key, weights, shape=(num_samples, *x.shape[:-1]))
        return jnp.moveaxis(drawn, 0, -1).astype(np.int64)
    # the largest weights with Gumbel noise are a draw without replacement
    noisy = weights + jax.random.gumbel(key, x.shape, weights.dtype)
    return lax.top_k(noisy, num_samples)[1].astype(np.int64)


@lowers(ops.Poisson)
def poisson(x: Array, key: Array) -> Array:
    return jax.random.poisson(_counter(key), lax.stop_gradient(wide(x)), x.shape).astype(x.dtype)


def _counter(key: Array) -> Array:
    """Convert a key to the only kind of generator that supports draws of unknown length."""
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
        # the gradient of the soft draw
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
