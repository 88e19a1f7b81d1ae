"""Matrix products, and other maps with a weight."""

from __future__ import annotations

import math

import numpy as np

from graphopt.ir.dialect.ops import linear as ops
from graphopt.ir.dialect.ops.linear import Bilinear, Matmul, RowConv
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


def product(x: Array, y: Array, transpose_x: bool = False, transpose_y: bool = False) -> Array:
    """Multiply matrices; transposes do not apply to vectors.

    Where all left matrices share one right matrix, this is a single product: BLAS takes longer for
    many.
    """
    if transpose_x and x.ndim > 1:
        x = np.swapaxes(x, -1, -2)
    if transpose_y and y.ndim > 1:
        y = np.swapaxes(y, -1, -2)
    if not y.ndim == 2 < x.ndim:
        return np.matmul(x, y)
    *outer, inner = x.shape
    rows = np.reshape(x, (math.prod(outer), inner))
    return np.reshape(np.matmul(rows, y), (*outer, y.shape[1]))


@rule(Matmul)
def matmul(x: Array, y: Array, transpose_x: bool, transpose_y: bool) -> Array:
    return product(x, y, transpose_x, transpose_y)


@rule(Bilinear)
def bilinear(x: Array, y: Array, weight: Array, bias: Array | None) -> Array:
    out = np.einsum("ni,kij,nj->nk", x, weight, y)
    return out if bias is None else out + bias


@rule(RowConv)
def row_conv(x: Array, filter: Array) -> Array:
    steps, after = x.shape[1], filter.shape[0] - 1
    longer = np.pad(x, ((0, 0), (0, after), (0, 0)))
    parts = [longer[:, ahead : ahead + steps] * filter[ahead] for ahead in range(after + 1)]
    return sum(parts[1:], parts[0])


@rule(ops.Kron)
def kron(x: Array, y: Array) -> Array:
    rank = max(x.ndim, y.ndim)
    a, b = (np.reshape(v, (1,) * (rank - v.ndim) + v.shape) for v in (x, y))
    shape = [m * n for m, n in zip(a.shape, b.shape, strict=True)]
    apart_a = np.reshape(a, [d for dim in a.shape for d in (dim, 1)])
    apart_b = np.reshape(b, [d for dim in b.shape for d in (1, dim)])
    return np.reshape(apart_a * apart_b, shape)
