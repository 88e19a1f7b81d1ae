"""Decompositions of matrices and their uses: determinants, solutions, ranks.

All work on the last two axes and keep the others as batches.
"""

from __future__ import annotations

import itertools
from abc import ABC
from collections.abc import Sequence

from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
    var_operand_def,
)

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import flag, integer, number, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OneTensor, OpaqueOp, TwoTensors
from graphopt.ir.dialect.ops.complex import real_of
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    broadcast_shapes,
    dtype_of,
    like,
    same_dtype,
    shape_of,
)


def matrix_shape(x: Tensor, *, square: bool = False) -> tuple[tuple[int, ...], int, int]:
    """Return batch dimensions, rows and columns; raise ProgramError unless x holds matrices."""
    shape = shape_of(x)
    kind = "square matrices" if square else "matrices"
    if len(shape) < 2 or (square and shape[-1] != shape[-2] and UNKNOWN not in shape[-2:]):
        raise ProgramError(f"expected {kind}, found {list(shape)}")
    if not dtype_of(x).is_differentiable:
        raise OperandError(f"expected floating-point or complex {kind}, found {dtype_of(x)}")
    return shape[:-2], shape[-2], shape[-1]


class OnSquares(OneTensor, OpaqueOp, ABC):
    """On square matrices, real or complex, with leading batch dimensions."""

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        matrix_shape(x, square=True)
        return x


def _smaller(rows: int, columns: int) -> int:
    return UNKNOWN if UNKNOWN in (rows, columns) else min(rows, columns)


def _complex_of(x: Tensor) -> str:
    return "complex128" if dtype_of(x) in ("float64", "complex128") else "complex64"


@irdl_op_definition
class Det(OneTensor, OpaqueOp):
    """Determinants. Paddle: determinant."""

    name = "pd.det"

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return like(x, shape=matrix_shape(x, square=True)[0])


@irdl_op_definition
class Slogdet(OneTensor, OpaqueOp):
    """Sign, and logarithm of the absolute value, of determinants, stacked.

    Paddle: slogdeterminant.
    """

    name = "pd.slogdet"

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return like(x, shape=(2, *matrix_shape(x, square=True)[0]))


@irdl_op_definition
class Qr(OpaqueOp):
    """x = q @ r, q unitary, r upper triangular; mode reduced, complete or r. Paddle: qr."""

    name = "pd.qr"
    x = operand_def(TENSOR)
    q = result_def(TENSOR)
    r = result_def(TENSOR)
    mode = string("reduced", of=("reduced", "complete", "r"))

    @staticmethod
    def infer(x: Tensor, mode: str) -> tuple[Tensor, Tensor]:
        batch, rows, columns = matrix_shape(x)
        if mode not in ("reduced", "complete", "r"):
            raise ProgramError(f"the mode of qr should be reduced, complete or r, found '{mode}'")
        inner = rows if mode == "complete" else _smaller(rows, columns)
        q = (0,) if mode == "r" else (*batch, rows, inner)
        return like(x, shape=q), like(x, shape=(*batch, inner, columns))


@irdl_op_definition
class Svd(OpaqueOp):
    """x = u @ diag(s) @ vh, the values s falling. Paddle: svd."""

    name = "pd.svd"
    x = operand_def(TENSOR)
    u = result_def(TENSOR)
    s = result_def(TENSOR)
    vh = result_def(TENSOR)
    full_matrices = flag(False)

    @staticmethod
    def infer(x: Tensor, full_matrices: bool) -> tuple[Tensor, ...]:
        batch, rows, columns = matrix_shape(x)
        inner = _smaller(rows, columns)
        u, vh = (rows, columns) if full_matrices else (inner, inner)
        return (
            like(x, shape=(*batch, rows, u)),
            like(real_of(x), shape=(*batch, inner)),
            like(x, shape=(*batch, vh, columns)),
        )


class Hermitian(OpaqueOp, ABC):
    """Ops on Hermitian matrices, which read one triangle."""

    x = operand_def(TENSOR)
    UPLO = string("L", of=("L", "U"))

    @staticmethod
    def values(x: Tensor, UPLO: str) -> Tensor:
        """Return the type of the eigenvalues, which are real."""
        batch, rows, _ = matrix_shape(x, square=True)
        if UPLO not in ("L", "U"):
            raise ProgramError(f"UPLO should be L or U, found '{UPLO}'")
        return like(real_of(x), shape=(*batch, rows))


@irdl_op_definition
class Eigh(Hermitian):
    """Eigenvalues, rising, and eigenvectors of Hermitian matrices. Paddle: eigh."""

    name = "pd.eigh"
    out_w = result_def(TENSOR)
    out_v = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, UPLO: str) -> tuple[Tensor, Tensor]:
        return Hermitian.values(x, UPLO), x


@irdl_op_definition
class Eigvalsh(Hermitian):
    """Eigenvalues of Hermitian matrices, rising. Paddle: eigvalsh."""

    name = "pd.eigvalsh"
    eigenvalues = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, UPLO: str) -> Tensor:
        return Hermitian.values(x, UPLO)


@irdl_op_definition
class Eig(OpaqueOp):
    """Eigenvalues and eigenvectors, complex, of any square matrices; on CPU only. Paddle: eig."""

    name = "pd.eig"
    x = operand_def(TENSOR)
    out_w = result_def(TENSOR)
    out_v = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor) -> tuple[Tensor, Tensor]:
        batch, rows, columns = matrix_shape(x, square=True)
        kind = _complex_of(x)
        values = like(x, shape=(*batch, rows), dtype=kind)
        return values, like(x, shape=(*batch, rows, columns), dtype=kind)


@irdl_op_definition
class Eigvals(OneTensor, OpaqueOp):
    """Eigenvalues, complex, of any square matrices; on CPU only. Paddle: eigvals."""

    name = "pd.eigvals"

    @staticmethod
    def infer(x: Tensor) -> Tensor:
        return Eig.infer(x)[0]


@irdl_op_definition
class Lu(OpaqueOp):
    """Both triangles of the LU decomposition in one matrix, pivots from 1, and 0 for success.

    Paddle: lu.
    """

    name = "pd.lu"
    x = operand_def(TENSOR)
    out = result_def(TENSOR)
    pivots = result_def(TENSOR)
    infos = result_def(TENSOR)
    pivot = flag(True)

    @staticmethod
    def infer(x: Tensor, pivot: bool) -> tuple[Tensor, ...]:
        batch, rows, columns = matrix_shape(x)
        if not pivot:
            raise ProgramError("lu without pivoting is not supported; leave pivot=True")
        pivots = like(x, shape=(*batch, _smaller(rows, columns)), dtype="int32")
        return x, pivots, like(x, shape=batch, dtype="int32")


@irdl_op_definition
class LuUnpack(OpaqueOp):
    """The permutation, the lower and the upper triangle of a decomposition. Paddle: lu_unpack."""

    name = "pd.lu_unpack"
    x = operand_def(TENSOR)
    y = operand_def(TENSOR)
    pmat = result_def(TENSOR)
    l = result_def(TENSOR)  # noqa: E741 - Paddle's name
    u = result_def(TENSOR)
    unpack_ludata = flag(True)
    unpack_pivots = flag(True)

    @staticmethod
    def infer(x: Tensor, unpack_ludata: bool, unpack_pivots: bool) -> tuple[Tensor, ...]:
        batch, rows, columns = matrix_shape(x)
        inner = _smaller(rows, columns)
        shapes = [(*batch, rows, rows), (*batch, rows, inner), (*batch, inner, columns)]
        wanted = [unpack_pivots, unpack_ludata, unpack_ludata]
        made = [like(x, shape=s if w else (0,)) for s, w in zip(shapes, wanted, strict=True)]
        return tuple(made)


def solution(a: Tensor, b: Tensor) -> Tensor:
    """Infer the type of x in a @ x = b, with broadcast batch dimensions."""
    same_dtype(a, b)
    first, rows, _ = matrix_shape(a, square=True)
    second, right, columns = matrix_shape(b)
    if UNKNOWN not in (rows, right) and rows != right:
        raise ProgramError(
            f"matrices of {rows} rows do not fit {right} rows on the right, "
            f"{list(shape_of(a))} and {list(shape_of(b))}"
        )
    size = right if rows == UNKNOWN else rows
    return like(b, shape=(*broadcast_shapes(first, second), size, columns))


@irdl_op_definition
class Solve(TwoTensors, OpaqueOp):
    """The x of a @ x = b; b may hold vectors, one axis less than a. Paddle: solve."""

    name = "pd.solve"

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        if not is_vector_side(shape_of(x), shape_of(y)):
            return solution(x, y)
        made = solution(x, like(y, shape=(*shape_of(y), 1)))
        return like(y, shape=shape_of(made)[:-1])


def is_vector_side(a: Sequence[int], b: Sequence[int]) -> bool:
    """True if the right-hand side of a system is vectors: one axis, or one less than a."""
    return len(b) == 1 or (len(b) == len(a) - 1 and tuple(b) == tuple(a[:-1]))


@irdl_op_definition
class TriangularSolve(TwoTensors, OpaqueOp):
    """The x of a @ x = b for triangular matrices a. Paddle: triangular_solve."""

    name = "pd.triangular_solve"
    upper = flag(True)
    transpose = flag(False)
    unitriangular = flag(False)

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        return solution(x, y)


@irdl_op_definition
class CholeskySolve(TwoTensors, OpaqueOp):
    """The solution for the matrices whose Cholesky factor is y. Paddle: cholesky_solve."""

    name = "pd.cholesky_solve"
    upper = flag(False)

    @staticmethod
    def infer(x: Tensor, y: Tensor) -> Tensor:
        return solution(y, x)


@irdl_op_definition
class MatrixPower(OnSquares):
    """Integer powers of matrices; powers of the inverses for negative n. Paddle: matrix_power."""

    name = "pd.matrix_power"
    n = integer()


@irdl_op_definition
class MatrixExp(OnSquares):
    """The exponential series of matrices; Paddle composes it of other ops."""

    name = "pd.matrix_exp"


@irdl_op_definition
class MatrixRank(OpaqueOp):
    """The number of singular values above a tolerance. Paddle: matrix_rank."""

    name = "pd.matrix_rank"
    x = operand_def(TENSOR)
    tol_tensor = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    tol = number(0.0)
    hermitian = flag(False)
    use_default_tol = flag(True)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(x: Tensor, tol_tensor: Tensor | None, hermitian: bool) -> Tensor:
        batch = matrix_shape(x, square=hermitian)[0]
        if tol_tensor is not None:
            batch = broadcast_shapes(batch, shape_of(tol_tensor))
        return like(x, shape=batch, dtype="int64")


@irdl_op_definition
class MultiDot(OpaqueOp):
    """The product of several matrices, in the cheapest order. Paddle: multi_dot."""

    name = "pd.multi_dot"
    x = var_operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: tuple[Tensor, ...]) -> Tensor:
        if len(x) < 2:
            raise ProgramError(f"multi_dot needs two or more tensors, found {len(x)}")
        same_dtype(*x)
        shapes = [shape_of(item) for item in x]
        ranks = [len(shape) for shape in shapes]
        if any(rank != 2 for rank in ranks[1:-1]) or any(r not in (1, 2) for r in ranks):
            raise ProgramError(f"multi_dot needs matrices (vectors at the ends), found {shapes}")
        for a, b in itertools.pairwise(shapes):
            if UNKNOWN not in (a[-1], b[0]) and a[-1] != b[0]:
                raise ProgramError(f"multi_dot cannot multiply {list(a)} with {list(b)}")
        return like(x[0], shape=(*shapes[0][:-1], *shapes[-1][1:]))
