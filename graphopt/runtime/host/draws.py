"""Random tensors that the host form draws without JAX, with the same numbers as other forms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from xdsl.ir import Operation

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.random import Dropout, Gaussian, TruncatedGaussian, Uniform
from graphopt.ir.dialect.types import dtype_of
from graphopt.lowering.hashing import fold_in, keep_share, words_of
from graphopt.lowering.host_draws import (
    draw_numbers,
    key_of_draw,
    key_of_path,
    normal,
    scale_numbers,
    truncated_normal,
    uniform,
)
from graphopt.runtime.state.arrays import HostArray

_DRAWS = {Uniform: uniform, Gaussian: normal, TruncatedGaussian: truncated_normal}
_DTYPES = ("float32", "float16", "bfloat16")
AT_ONCE = 1 << 14
"""The elements of a mask drawn at a time: their random words fit in a core's cache."""


def is_drawn(op: Operation) -> bool:
    """Return whether NumPy draws an op: a random tensor of 16- or 32-bit floats, or a dropout.

    A truncated normal with bounds of its own is not: NumPy draws within two deviations only.
    """
    if isinstance(op, Dropout):
        return not op.attr("is_test") and 0 < op.attr("p") < 1
    if isinstance(op, TruncatedGaussian) and not (op.attr("a") is op.attr("b") is None):
        return False
    return type(op) in _DRAWS and dtype_of(op.results[0].type) in _DTYPES


def draw_mask(
    op: Dropout,
    shape: Sequence[int],
    step: Iterable[int],
    iterations: Iterable[int],
    rng_shift: int,
) -> HostArray:
    """Draw the mask of elements that a dropout of this shape keeps, as `draw` does."""
    ((seed, number),) = op.draws()
    share, size = 1 - op.attr("p"), math.prod(shape)
    path = np.ravel(key_of_path(step, iterations))
    key = words_of(seed) if seed else fold_in(path, np.uint32(number + rng_shift))
    kept = np.empty(size, bool)
    for first in range(0, size, AT_ONCE):
        end = min(first + AT_ONCE, size)
        kept[first:end] = keep_share(key, np.arange(first, end, dtype=np.uint32), share)
    return kept.reshape(shape)


def draw(op: PdOp, step: Iterable[int], iterations: Iterable[int], rng_shift: int) -> HostArray:
    """Draw an op's numbers in float32, for the key of a step and these loop iterations."""
    fixed = op.attr_values()
    key = key_of_draw(step, iterations, fixed["seed"], fixed["rng_id"] + rng_shift)
    numbers = draw_numbers(_DRAWS[type(op)], key, math.prod(fixed["shape"]))  # pyright: ignore
    if isinstance(op, Uniform):
        scale, offset = fixed["max"] - fixed["min"], fixed["min"]
    else:
        scale, offset = fixed["std"], fixed["mean"]
    return scale_numbers(numbers, scale, offset).reshape(fixed["shape"])
