"""Determinants, inverses, solutions and factors of matrices, by LAPACK."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from graphopt.ir.dialect.ops.linalg import decompositions as ops
from graphopt.ir.dialect.ops.linalg.matrices import Cholesky, Inverse
from graphopt.reference.registry import Unsupported, rule, rule_each
from graphopt.reference.tape import Array, value_of


def _apply_to_matrices(op: str, function: Callable[..., Array], *operands: Array) -> Array:
    """Apply a function to matrices; raise Unsupported for those without a result.

    The results of LAPACK for infinities and nan depend on its version, and on the triangle that it
    reads.
    """
    if not all(map(np.all, map(np.isfinite, map(value_of, operands)))):
        raise Unsupported(op, "of infinities and nan")
    try:
        return function(*operands)
    except np.linalg.LinAlgError as error:
        raise Unsupported(op, f"of these matrices: {error}") from error


def _adjoint(x: Array) -> Array:
    return np.conj(np.swapaxes(x, -1, -2))


def _triangle(x: Array, upper: bool) -> Array:
    rows, columns = np.ogrid[: x.shape[-2], : x.shape[-1]]
    return np.where(rows <= columns if upper else rows >= columns, x, np.zeros((), x.dtype))


@rule(Cholesky)
def cholesky(x: Array, upper: bool) -> Array:
    # it reads only the selected triangle
    factor = _apply_to_matrices("pd.cholesky", np.linalg.cholesky, _adjoint(x) if upper else x)
    return _adjoint(factor) if upper else factor


rule_each(
    {
        Inverse: lambda x: _apply_to_matrices("pd.inverse", np.linalg.inv, x),
        ops.Det: lambda x: _apply_to_matrices("pd.det", np.linalg.det, x),
        ops.MultiDot: lambda x: functools.reduce(np.matmul, x),
    }
)


@rule(ops.Slogdet)
def slogdet(x: Array) -> Array:
    sign, size = _apply_to_matrices("pd.slogdet", np.linalg.slogdet, x)
    return np.stack([sign, size.astype(sign.dtype)])


def _solve(op: str, x: Array, y: Array) -> Array:
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    wide = np.broadcast_to(y, (*batch, *y.shape[-2:]))
    return _apply_to_matrices(op, np.linalg.solve, x, wide)


@rule(ops.Solve)
def solve(x: Array, y: Array) -> Array:
    if y.ndim == 1 or y.shape == x.shape[:-1]:
        return _solve("pd.solve", x, y[..., None])[..., 0]
    return _solve("pd.solve", x, y)


@rule(ops.TriangularSolve)
def triangular_solve(
    x: Array, y: Array, upper: bool, transpose: bool, unitriangular: bool
) -> Array:
    matrix = _triangle(x, upper)
    if unitriangular:
        matrix = np.where(np.eye(x.shape[-1], dtype=bool), np.ones((), x.dtype), matrix)
    return _solve("pd.triangular_solve", np.swapaxes(matrix, -1, -2) if transpose else matrix, y)


@rule(ops.CholeskySolve)
def cholesky_solve(x: Array, y: Array, upper: bool) -> Array:
    factor = _triangle(y, upper)
    pair = (_adjoint(factor), factor) if upper else (factor, _adjoint(factor))
    return _solve("pd.cholesky_solve", np.matmul(*pair), x)


@rule(ops.MatrixPower)
def matrix_power(x: Array, n: int) -> Array:
    return _apply_to_matrices(
        "pd.matrix_power", lambda matrix: np.linalg.matrix_power(matrix, n), x
    )


@rule(ops.Eigvalsh)
def eigvalsh(x: Array, UPLO: str) -> Array:
    lower = np.linalg.eigvalsh
    return _apply_to_matrices("pd.eigvalsh", lower, _adjoint(x) if UPLO == "U" else x)
