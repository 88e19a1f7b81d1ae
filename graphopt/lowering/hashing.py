"""Random bits by hashing a counter: a JAX generator that is faster than threefry, and not secure.

The bits of element i are a hash of i and of the two words of the key, so that XLA computes them in
the loop that needs them. The hash is the finaliser `lowbias32`, twice: it passes tests of
uniformity and independence, but it is not meant to resist an attacker.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

Array = jax.Array


def _mix_words(x: Array) -> Array:
    """A bijection of 32-bit words in which every bit of the result depends on all bits of x."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return x ^ (x >> np.uint32(16))


def _hash(key: Array, counters: Array) -> Array:
    # multiplying by an odd number keeps the counters of neighbouring keys apart
    return _mix_words(_mix_words(counters * np.uint32(0x9E3779B1) + key[0]) ^ key[1])


def _random_bits(key: Array, bit_width: int, shape: Sequence[int]) -> Array:
    size = math.prod(shape)
    counters = lax.iota(np.uint32, size)
    if size > 1 << 32:
        high = (lax.iota(np.uint64, size) >> np.uint64(32)).astype(np.uint32)
        counters = counters ^ _mix_words(high)
    words = _hash(key, counters).reshape(shape)
    if bit_width == 64:
        other = _hash(_fold_in(key, 1), counters).reshape(shape)
        return words.astype(np.uint64) << np.uint64(32) | other.astype(np.uint64)
    return words.astype({8: np.uint8, 16: np.uint16, 32: np.uint32}[bit_width])


def _fold_in(key: Array, data: Array | int) -> Array:
    return _mix_words(
        _hash(key, jnp.asarray([2, 3], np.uint32)) + jnp.asarray(data).astype(np.uint32)
    )


def _split(key: Array, shape: Sequence[int]) -> Array:
    numbers = lax.iota(np.uint32, math.prod(shape))
    return jax.vmap(lambda number: _fold_in(key, number))(numbers).reshape(*shape, 2)


def _seed(seed: Array) -> Array:
    words = jnp.asarray(seed).astype(np.uint64)
    return jnp.stack([words >> np.uint64(32), words]).astype(np.uint32)


@functools.cache
def counter_hash() -> Any:
    """The generator, as JAX knows it."""
    from jax.extend.random import define_prng_impl  # which imports Pallas, that few programs need

    return define_prng_impl(
        key_shape=(2,),
        seed=_seed,
        split=_split,
        random_bits=_random_bits,
        fold_in=_fold_in,
        name="graphopt_counter_hash",
        tag="gch",
    )


def by_hash(key: Array) -> Array:
    """A key of this generator from a threefry key."""
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=counter_hash())
