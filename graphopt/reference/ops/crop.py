"""Blocks of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from graphopt.ir.dialect.ops.crop import Crop, block_of
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


@rule(Crop)
def crop(x: Array, shape: Sequence[int], offsets: Sequence[int]) -> Array:
    block_of(x.shape, shape, offsets)
    pairs = zip(shape, offsets, strict=True)
    return x[tuple(slice(at, None if size == -1 else at + size) for size, at in pairs)]
