"""Blocks of tensors in JAX, checked once more where only the run knows their sizes."""

from __future__ import annotations

from collections.abc import Sequence

from jax import lax

from graphopt.ir.dialect.ops.crop import Crop, block_of
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lowers


@lowers(Crop)
def crop(x: Array, shape: Sequence[int], offsets: Sequence[int]) -> Array:
    sizes = block_of(x.shape, shape, offsets)
    return lax.slice(x, offsets, [at + size for at, size in zip(offsets, sizes, strict=True)])
