"""The elements that dropouts keep: random words by hashing counters, in NumPy and JAX alike.

The word of an element is a hash of its index and of the two words of a key. The hash is the
finalizer `lowbias32` (Wellons, "Prospecting for hash functions", 2018), twice: it passes tests of
uniformity and independence, but is not meant to resist an attacker. It takes a fifth of the
operations of Threefry, from which all other numbers are drawn, so XLA computes it in each loop that
needs a mask, and keeps none. Nothing here imports JAX.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

# uint32, of NumPy or JAX
Words: TypeAlias = Any


def mix_words(x: Words) -> Words:
    """Mix 32-bit words by a bijection; every bit of the result depends on all bits of x."""
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return x ^ (x >> np.uint32(16))


def hash_counters(key: Words, counters: Words) -> Words:
    """Hash counters to random words by a key of two words."""
    # multiplying by an odd number separates the counters of neighboring keys
    return mix_words(mix_words(counters * np.uint32(0x9E3779B1) + key[0]) ^ key[1])


def fold_in(key: Words, number: Words) -> Words:
    """Derive a new key from a key and a number."""
    return mix_words(hash_counters(key, np.array([2, 3], np.uint32)) + number)


def words_of(seed: int) -> Words:
    """Derive the key of a seed of up to 64 bits."""
    return np.array([seed >> 32 & 0xFFFFFFFF, seed & 0xFFFFFFFF], np.uint32)


def keep_share(key: Words, counters: Words, share: float) -> Words:
    """Select a random `share` of all elements; True at the counters of selected elements."""
    return hash_counters(key, counters) < np.uint32(min(round(share * 2**32), 2**32 - 1))
