"""Norms and condition numbers of matrices (paddle.linalg)."""

from __future__ import annotations

import math
from typing import Any

from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.tensor.decompose import matrices_of, svdvals
from graphopt.tensor.distances import norm
from graphopt.tensor.elementary import sign
from graphopt.tensor.linalg import inverse
from graphopt.tensor.manipulation import cast, unsqueeze
from graphopt.tensor.math import abs, divide, max, min, multiply, scale, sum
from graphopt.tensor.stacking import moveaxis


def matrix_norm(
    x: Variable,
    p: Any = "fro",
    axis: Any = (-2, -1),
    keepdim: bool = False,
    name: str | None = None,
) -> Variable:
    """Compute the norm of the matrices in two axes (paddle.linalg.matrix_norm).

    `p` is 'fro', 'nuc' (the sum of singular values), 2 or -2 (the largest or smallest singular
    value), 1 or -1 (the largest or smallest column sum of absolute values), or infinity or
    -infinity (the same of row sums).
    """
    rank = len(matrices_of(x, "x", "matrix_norm").shape)
    pair = [a % rank for a in arguments.pair(axis, "axis", "matrix_norm")]
    if pair[0] == pair[1]:
        raise ValueError(f"matrix_norm(): 'axis' should be two axes, but received {axis}")
    if p == "fro":
        return norm(x, "fro", pair, keepdim, name)
    matrices = moveaxis(x, pair, [-2, -1])
    if p in ("nuc", 2, -2):
        values = svdvals(matrices)
        out = sum(values, -1) if p == "nuc" else (max if p == 2 else min)(values, -1)
    elif p in (1, -1, math.inf, -math.inf):
        sums = sum(abs(matrices), -2 if p in (1, -1) else -1)
        out = (max if p > 0 else min)(sums, -1)
    else:
        raise ValueError(
            f"matrix_norm(): 'p' should be 'fro', 'nuc', 1, -1, 2, -2 or infinity, found {p!r}"
        )
    out = unsqueeze(out, sorted(pair)) if keepdim else out
    return out if name is None else scale(out, name=name)


def vector_norm(
    x: Variable,
    p: float = 2.0,
    axis: Any = None,
    keepdim: bool = False,
    name: str | None = None,
    *,
    dtype: Any = None,
) -> Variable:
    """Compute the p-norm of the elements over axes, or of all elements (linalg.vector_norm)."""
    arguments.variable(x, "x", "vector_norm")
    x = x if dtype is None else cast(x, dtype)
    if p == 0:
        return sum(sign(abs(x)), axis, keepdim=keepdim, name=name)
    return norm(x, float(p), axis, keepdim, name)


def cond(x: Variable, p: Any = None, name: str | None = None) -> Variable:
    """Compute the condition number, norm(x) * norm(inverse(x)) (paddle.linalg.cond).

    `p` is as in `matrix_norm`; None is 2. Matrices need not be square for 2 and -2.
    """
    matrices_of(x, "x", "cond")
    if p in (None, 2, -2):
        values = svdvals(x)
        extremes = (max(values, -1), min(values, -1))
        top, bottom = extremes[::-1] if p == -2 else extremes
        return divide(top, bottom, name)
    return multiply(matrix_norm(x, p), matrix_norm(inverse(x), p), name)
