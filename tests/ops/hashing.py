"""Samples of the hashes of rows, as Paddle 1.8.5 computes them."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.hashing import Hash
from graphopt_tests.ops.base import Array, i32, i64, sample


def found(*numbers: int) -> Array:
    return np.reshape(numbers, (1, -1, 1))


LIMIT = 10**9
# rows of nine and of five numbers have more than the 32 bytes of a block
NINE = [[516473, 872791, 711289, 459248, 720817, 940083, 173814, 267153, 91256]]
FIVE = [[2558271502143378, 160056251383167, 4679332513066854, 1070305851035400, 6500046460736295]]
SAMPLES = {
    Hash: [
        sample(i32([[128037]]), num_hash=3, mod_by=LIMIT).gives(
            lambda *_: found(75922146, 862636009, 383314725)
        ),
        sample(i32([[71525, 722579, 601332]]), num_hash=3, mod_by=LIMIT).gives(
            lambda *_: found(266475926, 912754731, 979546434)
        ),
        sample(i32(NINE), num_hash=3, mod_by=LIMIT).gives(
            lambda *_: found(253297821, 63411722, 922665343)
        ),
        sample(i64([[7522059699456117, 866501062739526]]), num_hash=3, mod_by=LIMIT).gives(
            lambda *_: found(693763616, 573412998, 192114921)
        ),
        sample(i64(FIVE), num_hash=3, mod_by=LIMIT).gives(
            lambda *_: found(92228394, 456075845, 908106043)
        ),
    ],
}
