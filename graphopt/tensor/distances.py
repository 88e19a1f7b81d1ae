"""Norms of tensors, and distances between them (paddle.*)."""

from __future__ import annotations

import math
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.frontend.one_layer import one_layer
from graphopt.ir.program import Variable
from graphopt.tensor.linalg import transpose
from graphopt.tensor.manipulation import cast, unsqueeze
from graphopt.tensor.math import abs, max, min, pow, reduce, subtract, sum


def norm(
    x: Variable,
    p: float | str = "fro",
    axis: Any = None,
    keepdim: bool = False,
    name: str | None = None,
    *,
    dtype: Any = None,
) -> Variable:
    """Compute the p-norm over an axis, two axes, or all (paddle.norm).

    `p` is a number, infinity, "fro" for the square root of the sum of squares, or "nuc" for the sum
    of singular values. Except for "nuc", it is the norm of the elements as a vector, not an
    operator norm. It is computed in `dtype`, if set.
    """
    arguments.variable(x, "x", "norm")
    x = x if dtype is None else cast(x, dtype)
    axes = arguments.axes(axis, "norm")
    keep = arguments.flag(keepdim, "keepdim", "norm")
    if isinstance(p, str):
        if arguments.choice(p, "p", "norm", ("fro", "nuc")) == "nuc":
            return _nuclear(x, axes, keep, name)
        return reduce("frobenius_norm", x, axes, keep, name, layer="frobenius_norm")
    order = arguments.number(p, "p", "norm")
    if len(axes) < 2:
        attrs = {"porder": order, "axis": axes[0] if axes else -1, "keepdim": keep}
        return emit("p_norm", {"X": x}, {**attrs, "asvector": not axes}, name=name)
    if order == 0:
        raise ValueError("norm(): 'p' should not be 0 for the norm over several axes")
    if math.isinf(order):
        return (max if order > 0 else min)(abs(x), axes, keep, name)
    return pow(sum(pow(abs(x), order), axes, keepdim=keep), 1 / order, name)


def _nuclear(x: Variable, axes: list[int], keepdim: bool, name: str | None) -> Variable:
    """Sum the singular values of the matrices in two axes (or of a matrix)."""
    rank = len(x.shape)
    pair = [axis % rank for axis in axes] if axes else list(range(rank))
    if len(pair) != 2:
        raise ValueError(f"norm(): p='nuc' needs two axes, found {axes} for {list(x.shape)}")
    matrices = transpose(x, [*(i for i in range(rank) if i not in pair), *pair])
    attrs = {"full_matrices": False}
    values = LayerHelper("svd").emit_all("svd", {"X": matrices}, attrs, ("U", "S", "VH"))[1]
    total = sum(values, -1, name=name)
    return unsqueeze(total, sorted(pair)) if keepdim else total


@one_layer("dist")
def dist(x: Variable, y: Variable, p: float = 2, name: str | None = None) -> Variable:
    """Compute the p-norm of x - y, whose shapes broadcast, a 0-D tensor (paddle.dist)."""
    return norm(subtract(x, y), arguments.number(p, "p", "dist"), name=name)
