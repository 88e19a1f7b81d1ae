"""Maxima over windows of unequal sizes (Fractional Max-Pooling, arXiv:1412.6071)."""

from __future__ import annotations

import math
from typing import Any

from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.tensor.creation import full
from graphopt.tensor.manipulation import cast, gather, reshape, slice
from graphopt.tensor.math import add, minimum, multiply, scale, subtract
from graphopt.tensor.positions import take_along_axis
from graphopt.tensor.random import uniform
from graphopt.tensor.ranges import arange
from graphopt.tensor.rearrange import expand_as
from graphopt.tensor.search import argmax


def fractional_max_pool2d(
    x: Variable,
    output_size: Any,
    kernel_size: Any = None,
    random_u: float | None = None,
    return_mask: bool = False,
    name: str | None = None,
) -> Any:
    """Pool images [n, c, h, w] by maxima over unequal windows, to `output_size` windows.

    The ends of windows depend on `random_u` in (0, 1), or on a number drawn for each run. With
    `kernel_size` they have that size and overlap. `return_mask` also returns the int32 indices of
    the maxima in an image. Paddle page: paddle.nn.functional.fractional_max_pool2d. Raises
    ValueError for unknown sizes or a `random_u` outside (0, 1).
    """
    return _pool_windows(
        "fractional_max_pool2d", x, output_size, kernel_size, random_u, return_mask
    )


def fractional_max_pool3d(
    x: Variable,
    output_size: Any,
    kernel_size: Any = None,
    random_u: float | None = None,
    return_mask: bool = False,
    name: str | None = None,
) -> Any:
    """Pool volumes [n, c, d, h, w], as `fractional_max_pool2d` does for images.

    Paddle page: paddle.nn.functional.fractional_max_pool3d.
    """
    return _pool_windows(
        "fractional_max_pool3d", x, output_size, kernel_size, random_u, return_mask
    )


def _pool_windows(
    function: str, x: Variable, output_size: Any, kernel_size: Any, random_u: Any, mask: bool
) -> Any:
    rank = 3 if function.endswith("3d") else 2
    sizes = list(arguments.variable(x, "x", function).shape[2:])
    if len(sizes) != rank or -1 in sizes:
        raise ValueError(
            f"{function}(): 'x' should have rank {rank + 2} and known sizes, found {list(x.shape)}"
        )
    given = output_size if isinstance(output_size, (list, tuple)) else [output_size] * rank
    filled = [size if wanted is None else wanted for wanted, size in zip(given, sizes, strict=True)]
    outs = arguments.integers(filled, "output_size", function)
    kernel = [0] * rank
    if kernel_size is not None:
        kernel = arguments.pair(kernel_size, "kernel_size", function, rank)
    if random_u is None:
        u = uniform([1], "float32", 0.0, 1.0)
    else:
        number = arguments.number(random_u, "random_u", function)
        if not 0 < number < 1:
            raise ValueError(f"{function}(): 'random_u' should be in (0, 1), found {random_u}")
        u = full([1], number, "float32")
    places, windows = _places(u, sizes, outs, kernel)
    area, count = math.prod(sizes), math.prod(outs)
    apart = gather(reshape(x, [0, 0, area]), places, axis=2)
    apart = reshape(apart, [0, 0, count, windows])
    best = argmax(apart, -1, keepdim=True)
    pooled = reshape(take_along_axis(apart, best, -1), [0, 0, *outs])
    if not arguments.flag(mask, "return_mask", function):
        return pooled
    table = expand_as(reshape(places, [1, 1, count, windows]), apart)
    return pooled, cast(reshape(take_along_axis(table, best, -1), [0, 0, *outs]), "int32")


def _places(
    u: Variable, sizes: list[int], outs: list[int], kernel: list[int]
) -> tuple[Variable, int]:
    """Compute the flat indices of the elements of all windows, and the number per window."""
    rank, total, widths = len(sizes), None, []
    for i, (size, out, width) in enumerate(zip(sizes, outs, kernel, strict=True)):
        if not 0 < out <= size or not 0 <= width <= size:
            raise ValueError(f"{out} windows of {width or 'some'} elements do not fit into {size}")
        own, widest = _window(u, size, out, width)
        shape = [1] * (2 * rank)
        shape[i], shape[rank + i] = out, widest
        steps = multiply(reshape(own, shape), full([1], math.prod(sizes[i + 1 :]), "int64"))
        total = steps if total is None else add(total, steps)
        widths.append(widest)
    assert total is not None
    return reshape(total, [-1]), math.prod(widths)


def _window(u: Variable, size: int, out: int, width: int) -> tuple[Variable, int]:
    """Compute the elements of each window along an axis, [out, widest]; the last one repeats."""
    if width and out == 1:
        return reshape(arange(width, dtype="int64"), [1, width]), width
    step = (size - width) / (out - 1 if width else out)
    if not width:
        base = size // out
        u = scale(u, min((base + 2) / step - 1, (size + 1 - base) / step - (out - 1)))
    ends = cast(scale(add(arange(out + 1, dtype="float32"), u), step), "int64")
    ends = subtract(ends, cast(scale(u, step), "int64"))
    first = reshape(slice(ends, [0], [0], [out]), [out, 1])
    widest = width or math.ceil(step)
    index = add(first, arange(widest, dtype="int64"))
    if width:
        return index, width
    last = scale(reshape(slice(ends, [0], [1], [out + 1]), [out, 1]), 1, -1)
    return minimum(minimum(index, last), full([1], size - 1, "int64")), widest
