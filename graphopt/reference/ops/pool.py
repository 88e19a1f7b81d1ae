"""Pooling, as sums over the positions of a window."""

from __future__ import annotations

import itertools
import math

import numpy as np

from graphopt.ir.dialect.ops.pool import Pool2d, Pool3d
from graphopt.reference.ops.conv import Ints, channels_back, channels_first, pads_of
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


def _windows(
    size: int, own: int, stride: int, pad: tuple[int, int], ceil_mode: bool, exclusive: bool
) -> list[tuple[int, int, int]]:
    """Start, end and the number that an average divides by, of each window along a dimension."""
    room = size + sum(pad) - own
    number = (math.ceil(room / stride) if ceil_mode else room // stride) + 1
    found: list[tuple[int, int, int]] = []
    for at in range(number):
        start = at * stride - pad[0]
        # Paddle lets the end reach as far as the padding in front does
        end = min(start + own, size + pad[0])
        first, last = max(start, 0), min(end, size)
        found.append((first, last, last - first if exclusive else end - start))
    return found


@rule(Pool2d, Pool3d)
def pool(
    x: Array,
    kernel_size: Ints,
    strides: Ints,
    paddings: Ints,
    padding_algorithm: str,
    pooling_type: str,
    global_pooling: bool,
    adaptive: bool,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
) -> Array:
    x = channels_first(x, data_format)
    sizes = x.shape[2:]
    if global_pooling or adaptive:
        wanted = [1] * len(sizes) if global_pooling else kernel_size
        # -1 keeps a dimension
        numbers = [s if w < 0 else w for s, w in zip(sizes, wanted, strict=True)]
        windows = [
            [
                (i * size // n, -(-(i + 1) * size // n), -(-(i + 1) * size // n) - i * size // n)
                for i in range(n)
            ]
            for size, n in zip(sizes, numbers, strict=True)
        ]
    else:
        pads = pads_of(paddings, padding_algorithm, sizes, kernel_size, strides)
        windows = [
            _windows(*each, ceil_mode, exclusive)
            for each in zip(sizes, kernel_size, strides, pads, strict=True)
        ]
    axes = tuple(range(2, x.ndim))
    cells: list[Array] = []
    for cell in itertools.product(*windows):
        part = x[(slice(None), slice(None), *(slice(a, b) for a, b, _ in cell))]
        if pooling_type == "max":
            cells.append(np.max(part, axis=axes) if part.size else np.full(x.shape[:2], -np.inf))
        else:
            cells.append(np.sum(part, axis=axes) / float(math.prod(n for _, _, n in cell)))
    out = np.reshape(np.stack(cells, -1), (*x.shape[:2], *map(len, windows)))
    return channels_back(out, data_format)
