"""The draws of `lowering/ops/random.py` in NumPy: a startup program needs no compiler for them.

The generator is Threefry with two words and 20 rounds (Salmon and others, "Parallel random numbers:
as easy as 1, 2, 3", 2011), used as JAX uses it: bits and uniform numbers are the same, normal ones
to two units in the last place. Nothing here imports JAX.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

# Longer draws consist of blocks of this size, each with a key of its own.
BLOCK = 4096

# The number of blocks drawn at a time: their counters fit in a core's cache.
_TOGETHER = 8

Array: TypeAlias = "np.ndarray[Any, Any]"
# two uint32 words, or two columns of words for rows of counters
Key: TypeAlias = "tuple[Array, Array]"
Draw: TypeAlias = "Callable[[Key, int], Array]"

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
_BELOW_ONE = float(np.nextafter(np.float32(1), np.float32(0)))


def key_of_draw(step: Iterable[int], path: Iterable[int], seed: int, number: int) -> Key:
    """Derive the key of a draw from its seed, unless the seed is 0.

    Then it follows from the key of its path, and from its number among the random ops.
    """
    if seed:
        return _words(seed >> 32), _words(seed)
    return _fold_in(key_of_path(step, path), _words(number))


def key_of_path(step: Iterable[int], path: Iterable[int]) -> Key:
    """Fold the iterations of the enclosing loops into the key of the step."""
    first, second = map(_words, step)
    key = first, second
    for each in path:
        key = _fold_in(key, _words(each))
    return key


def draw_numbers(draw: Draw, key: Key, size: int) -> Array:
    """Draw `size` float32 numbers of a distribution: `uniform`, `normal` or `truncated_normal`."""
    if size <= BLOCK:
        return draw(key, size)[0]
    numbers = np.empty((-(-size // BLOCK), BLOCK), np.float32)
    for first in range(0, len(numbers), _TOGETHER):
        part = numbers[first : first + _TOGETHER]
        blocks = np.arange(first, first + len(part), dtype=np.uint32)
        part[:] = draw(_fold_in(key, blocks[:, None]), BLOCK)
    return numbers.reshape(-1)[:size]


def scale_numbers(numbers: Array, scale: float, offset: float) -> Array:
    """Compute `offset + scale * numbers` in float32, rounded once as by XLA."""
    exact = numbers.astype(np.float64)
    exact *= np.float32(scale)
    exact += np.float32(offset)
    return exact.astype(np.float32)


def uniform(key: Key, size: int) -> Array:
    """Draw float32 numbers in [0, 1) with 23 random bits: a row of `size` for each key."""
    counters = np.zeros((len(key[0]), size), np.uint32)
    first, second = _threefry(key, counters, counters + np.arange(size, dtype=np.uint32))
    bits = np.bitwise_xor(first, second, out=first)
    bits >>= np.uint32(9)
    bits |= np.uint32(0x3F800000)  # the exponent bits of numbers in [1, 2)
    numbers = bits.view(np.float32)
    numbers -= 1
    return numbers


def normal(key: Key, size: int) -> Array:
    """Draw float32 numbers with mean 0 and deviation 1: a row for each key."""
    return _by_inverse(uniform(key, size), -_BELOW_ONE, 1.0)


def truncated_normal(key: Key, size: int) -> Array:
    """Draw numbers as `normal`, none outside (-2, 2)."""
    end = math.erf(math.sqrt(2))
    numbers = _by_inverse(uniform(key, size), -end, end)
    inside = np.nextafter(np.float32(2), np.float32(0))
    return np.clip(numbers, -inside, inside, out=numbers)


def _by_inverse(numbers: Array, low: float, high: float) -> Array:
    """Map uniform numbers in [0, 1) to normal ones by the inverse error function of [low, high)."""
    between = scale_numbers(numbers, float(np.float32(high) - np.float32(low)), low)
    found = _inverse_error_function(np.maximum(between, np.float32(low), out=between))
    found *= np.float32(math.sqrt(2))
    return found


# Giles, "Approximating the erfinv function" (2011), single precision: polynomials in w - 2.5 and
# sqrt(w) - 3, where w = -log(1 - x^2), highest power first
NEAR = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
FAR = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)


def _inverse_error_function(x: Array) -> Array:
    w = -np.log1p(-(x * x))  # XLA's formula, which rounds numbers near 1
    found = _polynomial(NEAR, w - np.float32(2.5))
    far = w >= 5
    found[far] = _polynomial(FAR, np.sqrt(w[far]) - 3)
    found *= x
    return found


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total *= x
        total += np.float32(coefficient)
    return total


def _words(number: int) -> Array:
    """Take the lower 32 bits of an integer, as a column of one word."""
    return np.array([[number & 0xFFFFFFFF]], np.uint32)


def _fold_in(key: Key, numbers: Array) -> Key:
    """Derive new keys from a key and these numbers."""
    return _threefry(key, np.zeros_like(numbers), numbers.copy())


def _threefry(key: Key, first: Array, second: Array) -> tuple[Array, Array]:
    """Hash counters, two arrays of uint32 words, which are overwritten."""
    words = (*key, key[0] ^ key[1] ^ PARITY)
    first += words[0]
    second += words[1]
    moved = np.empty_like(second)
    for group in range(5):
        for by in ROTATIONS[group % 2]:
            first += second
            np.left_shift(second, np.uint32(by), out=moved)
            second >>= np.uint32(32 - by)
            second |= moved
            second ^= first
        first += words[(group + 1) % 3]
        second += words[(group + 2) % 3] + np.uint32(group + 1)
    return first, second
