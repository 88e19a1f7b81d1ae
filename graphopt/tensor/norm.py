"""Lengths of and distances between tensors (paddle.*)."""

from __future__ import annotations

import math
from typing import Any

from graphopt import arguments
from graphopt.ir.program import Variable
from graphopt.layer_helper import emit
from graphopt.tensor.math import abs, max, min, pow, reduce, subtract, sum


def norm(
    x: Variable,
    p: float | str = "fro",
    axis: Any = None,
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """The p-norm over an axis, two axes, or all (paddle.norm).

    `p` is a number, infinity, or "fro" for the square root of the sum of squares. Over two axes it
    is the norm of their elements, not of the matrices as operators.
    """
    arguments.variable(x, "x", "norm")
    axes = arguments.axes(axis, "norm")
    keep = arguments.flag(keepdim, "keepdim", "norm")
    if isinstance(p, str):
        arguments.choice(p, "p", "norm", ("fro",))
        return reduce("frobenius_norm", x, axes, keep, name, layer="norm")
    order = arguments.number(p, "p", "norm")
    if len(axes) < 2:
        attrs = {"porder": order, "axis": axes[0] if axes else -1, "keepdim": keep}
        return emit("p_norm", {"X": x}, {**attrs, "asvector": not axes}, layer="norm", name=name)
    if order == 0:
        raise ValueError("norm(): 'p' should not be 0 for the norm over several axes")
    if math.isinf(order):
        return (max if order > 0 else min)(abs(x), axes, keep, name)
    return pow(sum(pow(abs(x), order), axes, keepdim=keep), 1 / order, name)


def dist(x: Variable, y: Variable, p: float = 2, name: str | None = None) -> Variable:
    """The p-norm of x - y, of which the shapes broadcast, a 0-D tensor (paddle.dist)."""
    return norm(subtract(x, y), arguments.number(p, "p", "dist"), name=name)
