"""Low-rank factors of matrices, by random projections."""

from __future__ import annotations

from graphopt.frontend import arguments
from graphopt.ir.program import Variable
from graphopt.tensor.decompose import matrices_of, qr, svd, swap_last
from graphopt.tensor.linalg import matmul
from graphopt.tensor.math import subtract
from graphopt.tensor.random import randn
from graphopt.tensor.stat import mean


def svd_lowrank(
    x: Variable,
    q: int | None = None,
    niter: int = 2,
    M: Variable | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable, Variable]:
    """Compute the factors U, S and V of x - M, of rank `q` (paddle.linalg.svd_lowrank).

    x is [..., rows, columns] of float32 or float64; U is [..., rows, q], the singular values S are
    [..., q] and V is [..., columns, q], all of the dtype of x. The basis is random; `niter`
    iterations improve it. The default `q` is 6, or the smaller size of x if less. Raises ValueError
    for a `q` above the smaller size of x, for unknown sizes, and for a negative `niter`.
    """
    rows, columns = matrices_of(x, "x", "svd_lowrank").shape[-2:]
    count = _count(q, rows, columns, "svd_lowrank")
    turns = arguments.integer(niter, "niter", "svd_lowrank")
    if turns < 0:
        raise ValueError(f"svd_lowrank(): 'niter' should not be negative, found {turns}")
    if M is not None:
        x = subtract(x, arguments.variable(M, "M", "svd_lowrank"))
    basis = qr(matmul(x, randn([columns, count], x.dtype)))[0]
    for _ in range(turns):
        across = qr(matmul(x, basis, transpose_x=True))[0]
        basis = qr(matmul(x, across))[0]
    left, values, right = svd(matmul(basis, x, transpose_x=True))
    return matmul(basis, left), values, swap_last(right)


def pca_lowrank(
    x: Variable,
    q: int | None = None,
    center: bool = True,
    niter: int = 2,
    name: str | None = None,
) -> tuple[Variable, Variable, Variable]:
    """Compute `svd_lowrank` of x, less the mean of its rows if `center` (linalg.pca_lowrank)."""
    matrices_of(x, "x", "pca_lowrank")
    if arguments.flag(center, "center", "pca_lowrank"):
        x = subtract(x, mean(x, axis=-2, keepdim=True))
    return svd_lowrank(x, q, niter)


def _count(q: int | None, rows: int, columns: int, function: str) -> int:
    most = min(rows, columns)
    if most < 0:
        raise ValueError(f"{function}(): the sizes of the matrices 'x' must be known")
    if q is None:
        return min(6, most)
    count = arguments.integer(q, "q", function)
    if not 0 <= count <= most:
        raise ValueError(f"{function}(): 'q' should be from 0 to {most}, found {count}")
    return count
