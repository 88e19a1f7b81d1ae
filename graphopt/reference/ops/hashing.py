"""Hashes of rows, byte by byte in Python integers."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.hashing import Hash
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array

_PRIMES = (
    11400714785074694791,
    14029467366897019727,
    1609587929392839161,
    9650029242287828579,
    2870177450012600261,
)
_WORD = 2**64 - 1


def _turn(x: int, bits: int) -> int:
    x &= _WORD
    return ((x << bits) | (x >> (64 - bits))) & _WORD


def _lane(before: int, lane: int) -> int:
    return _turn(before + lane * _PRIMES[1], 31) * _PRIMES[0] & _WORD


def xxh64(data: bytes, seed: int) -> int:
    """Compute the hash of bytes whose number is divisible by 4."""
    size, at = len(data), 0
    a, b, c, d, e = _PRIMES
    if size >= 32:
        sums = [seed + a + b, seed + b, seed, seed - a]
        while at + 32 <= size:
            for number in range(4):
                lane = int.from_bytes(data[at : at + 8], "little")
                sums[number] = _lane(sums[number], lane)
                at += 8
        found = sum(_turn(each, bits) for each, bits in zip(sums, (1, 7, 12, 18), strict=True))
        for each in sums:
            found = ((found & _WORD) ^ _lane(0, each)) * a + d
    else:
        found = seed + e
    found = (found + size) & _WORD
    while at + 8 <= size:
        lane = int.from_bytes(data[at : at + 8], "little")
        found = (_turn(found ^ _lane(0, lane), 27) * a + d) & _WORD
        at += 8
    if at < size:
        word = int.from_bytes(data[at:], "little")
        found = (_turn(found ^ (word * a & _WORD), 23) * b + c) & _WORD
    found = (found ^ (found >> 33)) * b & _WORD
    found = (found ^ (found >> 29)) * c & _WORD
    return found ^ (found >> 32)


@rule(Hash)
def hash(x: Array, num_hash: int, mod_by: int) -> Array:
    rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1])
    found = [[xxh64(row.tobytes(), seed) % mod_by for seed in range(num_hash)] for row in rows]
    return np.array(found, x.dtype).reshape(*x.shape[:-1], num_hash, 1)
