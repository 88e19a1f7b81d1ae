"""Averages and spread (paddle.*)."""

from __future__ import annotations

import math
from typing import Any

from graphopt import arguments
from graphopt.ir.program import Variable
from graphopt.tensor.attribute import shape
from graphopt.tensor.creation import assign
from graphopt.tensor.manipulation import cast, gather
from graphopt.tensor.math import divide, prod, reduce, scale, sqrt, square, subtract, sum


def mean(x: Variable, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Variable:
    """The average over `axis` (paddle.mean). Raises ProgramError for integer tensors."""
    return reduce("reduce_mean", x, axis, keepdim, name, layer="mean")


def var(
    x: Variable,
    axis: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """The variance over `axis`, divided by n - 1, or by n when not `unbiased` (paddle.var)."""
    arguments.variable(x, "x", "var")
    centered = subtract(x, mean(x, axis, True))
    if not arguments.flag(unbiased, "unbiased", "var"):
        return mean(square(centered), axis, keepdim, name)
    total = sum(square(centered), axis, keepdim=keepdim, name=name)
    dims = [d % len(x.shape) for d in arguments.axes(axis, "var")] or list(range(len(x.shape)))
    counts = [x.shape[d] for d in dims]
    if all(count >= 0 for count in counts):
        # one sample has no spread; Paddle 2.x gives 0 there
        return scale(total, 1.0 / (math.prod(counts) - 1 or 1))
    sizes = cast(gather(shape(x), assign(dims)), x.dtype)
    return divide(total, scale(prod(sizes), 1.0, -1.0))


def std(
    x: Variable,
    axis: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """The standard deviation over `axis`, the square root of `var` (paddle.std)."""
    return sqrt(var(x, axis, unbiased, keepdim), name)
