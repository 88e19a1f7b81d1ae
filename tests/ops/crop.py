"""Samples of blocks of tensors."""

from __future__ import annotations

from graphopt.ir.dialect.ops.crop import Crop
from graphopt_tests.ops.base import f64, i64, sample

SAMPLES = {
    Crop: [
        sample(f64(4, 5), shape=(2, 3), offsets=(1, 2)).gives(lambda x: x[1:3, 2:]),
        sample(i64(4, 5), shape=(-1, 1), offsets=(3, 0)).gives(lambda x: x[3:, :1]),
    ],
}
