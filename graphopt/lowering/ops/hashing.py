"""Hashes of rows in JAX: XXH64 in unsigned numbers of 64 bits, all rows at once."""

from __future__ import annotations

import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.hashing import Hash
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lowers

# the five primes of xxHash64
_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def _rotate(x: Array, bits: int) -> Array:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


def _round(before: Array, lane: Array) -> Array:
    return _rotate(before + lane * _SECOND, 31) * _FIRST


def _mix_bits(x: Array) -> Array:
    """Mix bits so that every bit of the result depends on every bit of x."""
    x = (x ^ (x >> np.uint64(33))) * _SECOND
    x = (x ^ (x >> np.uint64(29))) * _THIRD
    return x ^ (x >> np.uint64(32))


def _hash_rows(lanes: list[Array], last: Array | None, start: Array, size: int) -> Array:
    """Compute XXH64 of rows of `size` bytes: whole lanes of 8 bytes, and at most 4 more bytes."""
    at = len(lanes) // 4 * 4
    if at:
        sums = [start + _FIRST + _SECOND, start + _SECOND, start, start - _FIRST]
        for number in range(at):
            sums[number % 4] = _round(sums[number % 4], lanes[number])
        turned = zip(sums, (1, 7, 12, 18), strict=True)
        first, *rest = (_rotate(each, bits) for each, bits in turned)
        found = first + rest[0] + rest[1] + rest[2]
        for each in sums:
            found = (found ^ _round(jnp.zeros_like(each), each)) * _FIRST + _FOURTH
    else:
        found = start + _FIFTH
    found = found + np.uint64(size)
    for lane in lanes[at:]:
        found = _rotate(found ^ _round(jnp.zeros_like(lane), lane), 27) * _FIRST + _FOURTH
    if last is not None:
        found = _rotate(found ^ (last * _FIRST), 23) * _SECOND + _THIRD
    return _mix_bits(found)


@lowers(Hash)
def hash(x: Array, num_hash: int, mod_by: int) -> Array:
    width, last = x.shape[-1], None
    if x.dtype == np.int64:
        lanes = [lax.convert_element_type(x[..., at], np.uint64) for at in range(width)]
    else:
        words = lax.convert_element_type(x.view(np.uint32), np.uint64)
        pairs = range(0, width - 1, 2)
        lanes = [words[..., at] | (words[..., at + 1] << np.uint64(32)) for at in pairs]
        last = words[..., -1] if width % 2 else None
    size = width * x.dtype.itemsize
    # NumPy scalars would warn about the intended overflow
    seeds = [jnp.full(x.shape[:-1], seed, np.uint64) for seed in range(num_hash)]
    found = jnp.stack([_hash_rows(lanes, last, seed, size) for seed in seeds], -1)
    return (found % np.uint64(mod_by)).astype(x.dtype)[..., None]
