"""Matrix decompositions and solvers (paddle.linalg).

All work on the last two axes; the others are batch axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.errors import AssertedError, UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.ir.program import Variable
from graphopt.tensor.attribute import conj
from graphopt.tensor.complexes import complex as complex_
from graphopt.tensor.creation import full
from graphopt.tensor.linalg import inverse, matmul, transpose
from graphopt.tensor.logic import greater_than
from graphopt.tensor.manipulation import cast, slice, squeeze, unsqueeze
from graphopt.tensor.math import (
    abs,
    add,
    divide,
    max,
    maximum,
    multiply,
    scale,
    square,
    subtract,
    sum,
)
from graphopt.tensor.ranges import eye, tril
from graphopt.tensor.search import where


def matrices_of(x: Any, name: str, function: str) -> Variable:
    if len(arguments.variable(x, name, function).shape) < 2:
        raise ValueError(
            f"{function}(): '{name}' should have rank 2 or more, but received {list(x.shape)}"
        )
    return x


def _triangle(UPLO: str, function: str) -> dict[str, Any]:
    return {"UPLO": arguments.choice(UPLO, "UPLO", function, ("L", "U"))}


def swap_last(x: Variable) -> Variable:
    """Transpose the last two axes."""
    rank = len(x.shape)
    return transpose(x, [*range(rank - 2), rank - 1, rank - 2])


def det(x: Variable, name: str | None = None) -> Variable:
    """Compute the determinants of square matrices (paddle.linalg.det)."""
    return emit("determinant", {"Input": matrices_of(x, "x", "det")}, name=name)


def slogdet(x: Variable, name: str | None = None) -> Variable:
    """Compute signs and log absolute values of determinants: [2, ...] (paddle.linalg.slogdet)."""
    return emit("slogdeterminant", {"Input": matrices_of(x, "x", "slogdet")}, name=name)


def qr(x: Variable, mode: str = "reduced", name: str | None = None) -> Any:
    """Factor x = q @ r with r upper triangular; return (q, r), or r for mode 'r' (linalg.qr)."""
    kind = arguments.choice(mode, "mode", "qr", ("reduced", "complete", "r"))
    made = LayerHelper("qr", name).emit_all(
        "qr", {"X": matrices_of(x, "x", "qr")}, {"mode": kind}, ("Q", "R")
    )
    return made[1] if mode == "r" else tuple(made)


def svd(
    x: Variable, full_matrices: bool = False, name: str | None = None
) -> tuple[Variable, Variable, Variable]:
    """Factor x = u @ diag(s) @ vh with s descending; return (u, s, vh) (paddle.linalg.svd)."""
    attrs = {"full_matrices": arguments.flag(full_matrices, "full_matrices", "svd")}
    inputs = {"X": matrices_of(x, "x", "svd")}
    u, s, vh = LayerHelper("svd", name).emit_all("svd", inputs, attrs, ("U", "S", "VH"))
    return u, s, vh


def svdvals(x: Variable, name: str | None = None) -> Variable:
    """Compute the singular values in descending order (paddle.linalg.svdvals)."""
    return svd(x, name=name)[1]


def eigh(x: Variable, UPLO: str = "L", name: str | None = None) -> tuple[Variable, Variable]:
    """Compute ascending eigenvalues, and eigenvectors, of Hermitian matrices (paddle.linalg.eigh).

    Only the lower ('L') or the upper ('U') triangle is read.
    """
    inputs, attrs = {"X": matrices_of(x, "x", "eigh")}, _triangle(UPLO, "eigh")
    outs = ("Eigenvalues", "Eigenvectors")
    values, vectors = LayerHelper("eigh", name).emit_all("eigh", inputs, attrs, outs)
    return values, vectors


def eigvalsh(x: Variable, UPLO: str = "L", name: str | None = None) -> Variable:
    """Compute the eigenvalues of Hermitian matrices, ascending (paddle.linalg.eigvalsh)."""
    inputs = {"X": matrices_of(x, "x", "eigvalsh")}
    return emit("eigvalsh", inputs, _triangle(UPLO, "eigvalsh"), name=name, out="Eigenvalues")


def eig(x: Variable, name: str | None = None) -> tuple[Variable, Variable]:
    """Compute complex eigenvalues and eigenvectors, on CPU only (paddle.linalg.eig)."""
    outs = ("Eigenvalues", "Eigenvectors")
    made = LayerHelper("eig", name).emit_all("eig", {"X": matrices_of(x, "x", "eig")}, {}, outs)
    return made[0], made[1]


def eigvals(x: Variable, name: str | None = None) -> Variable:
    """Compute complex eigenvalues of square matrices, on CPU only (paddle.linalg.eigvals)."""
    return emit("eigvals", {"X": matrices_of(x, "x", "eigvals")}, name=name)


def lu(x: Variable, pivot: bool = True, get_infos: bool = False, name: str | None = None) -> Any:
    """Factor x by LU; return both triangles in one matrix, and the int32 pivots, from 1.

    With `get_infos` a third int32 tensor is 0 where the decomposition succeeded. Raises
    UnsupportedError for pivot=False. Paddle page: paddle.linalg.lu.
    """
    if not arguments.flag(pivot, "pivot", "lu"):
        raise UnsupportedError("lu(): pivot=False is not supported; leave it True")
    helper, inputs = LayerHelper("lu", name), {"X": matrices_of(x, "x", "lu")}
    both, rows, infos = helper.emit_all("lu", inputs, {"pivots": True}, ("Out", "Pivots", "Infos"))
    rows.stop_gradient = infos.stop_gradient = True
    return (both, rows, infos) if get_infos else (both, rows)


def lu_unpack(
    x: Variable,
    y: Variable,
    unpack_ludata: bool = True,
    unpack_pivots: bool = True,
    name: str | None = None,
) -> tuple[Variable, Variable, Variable]:
    """Unpack a result of `lu` to permutation, lower and upper triangular matrices (lu_unpack).

    A result that is not unpacked is an empty tensor.
    """
    inputs = {"X": matrices_of(x, "x", "lu_unpack")}
    inputs["Pivots"] = arguments.variable(y, "y", "lu_unpack")
    attrs = {
        "unpack_ludata": arguments.flag(unpack_ludata, "unpack_ludata", "lu_unpack"),
        "unpack_pivots": arguments.flag(unpack_pivots, "unpack_pivots", "lu_unpack"),
    }
    outs = ("Pmat", "L", "U")
    made = LayerHelper("lu_unpack", name).emit_all("lu_unpack", inputs, attrs, outs)
    return made[0], made[1], made[2]


def lu_solve(
    b: Variable, lu: Variable, pivots: Variable, trans: str = "N", name: str | None = None
) -> Variable:
    """Solve A @ x = b for x, with `lu` and `pivots` from `lu(A)` (paddle.linalg.lu_solve).

    With `trans` "T" or "C" A is transposed; as in Paddle, neither conjugates it. The batch axes of
    the three operands broadcast. Raises ValueError for another `trans` and for shapes that do not
    fit.
    """
    function = "lu_solve"
    if trans not in ("N", "T", "C"):
        raise ValueError(f"{function}(): 'trans' should be 'N', 'T' or 'C', found {trans!r}")
    known, both = matrices_of(b, "b", function), matrices_of(lu, "lu", function)
    sizes = [
        known.shape[-2],
        *both.shape[-2:],
        arguments.variable(pivots, "pivots", function).shape[-1],
    ]
    if len({size for size in sizes if size != -1}) > 1:
        raise ValueError(
            f"{function}(): 'b' {list(b.shape)}, 'lu' {list(lu.shape)} and 'pivots' "
            f"{list(pivots.shape)} should be [..., n, k], [..., n, n] and [..., n]"
        )
    order, lower, upper = lu_unpack(both, pivots)
    order = order if order.dtype == known.dtype else cast(order, known.dtype)
    if trans == "N":
        moved = matmul(order, known, transpose_x=True)
        inner = triangular_solve(lower, moved, upper=False, unitriangular=True)
        return triangular_solve(upper, inner, name=name)
    inner = triangular_solve(upper, known, transpose=True)
    inner = triangular_solve(lower, inner, upper=False, transpose=True, unitriangular=True)
    return matmul(order, inner, name=name)


def solve(x: Variable, y: Variable, left: bool = True, name: str | None = None) -> Variable:
    """Solve x @ z = y for z, y a matrix or a vector; z @ x = y if not `left` (linalg.solve)."""
    inputs = {"X": matrices_of(x, "x", "solve"), "Y": arguments.variable(y, "y", "solve")}
    if arguments.flag(left, "left", "solve"):
        return emit("solve", inputs, name=name)
    rows, columns = x.shape[-2], matrices_of(y, "y", "solve").shape[-1]
    if rows != columns and -1 not in (rows, columns):
        raise ValueError(
            f"solve(): with left=False 'y' should have {rows} columns, as 'x' has rows, "
            f"found {columns}"
        )
    return swap_last(emit("solve", {slot: swap_last(v) for slot, v in inputs.items()}, name=name))


def triangular_solve(
    x: Variable,
    y: Variable,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    name: str | None = None,
) -> Variable:
    """Solve x @ z = y for z, with triangular matrices x (paddle.linalg.triangular_solve).

    With `unitriangular` the diagonal counts as ones.
    """
    function = "triangular_solve"
    inputs = {"X": matrices_of(x, "x", function), "Y": matrices_of(y, "y", function)}
    attrs = {
        "upper": arguments.flag(upper, "upper", function),
        "transpose": arguments.flag(transpose, "transpose", function),
        "unitriangular": arguments.flag(unitriangular, "unitriangular", function),
    }
    return emit(function, inputs, attrs, name=name)


def cholesky_solve(
    x: Variable, y: Variable, upper: bool = False, name: str | None = None
) -> Variable:
    """Solve A @ z = x for z, where y is the Cholesky factor of A (linalg.cholesky_solve)."""
    function = "cholesky_solve"
    inputs = {"X": matrices_of(x, "x", function), "Y": matrices_of(y, "y", function)}
    return emit(function, inputs, {"upper": arguments.flag(upper, "upper", function)}, name=name)


def cholesky_inverse(x: Variable, upper: bool = False, name: str | None = None) -> Variable:
    """Invert the matrix whose Cholesky factor is x (paddle.linalg.cholesky_inverse)."""
    lower = matrices_of(x, "x", "cholesky_inverse")
    product = matmul(lower, lower, upper, not upper)
    return inverse(product, name)


def matrix_power(x: Variable, n: int, name: str | None = None) -> Variable:
    """Raise square matrices to the power n, their inverses for negative n (linalg.matrix_power)."""
    inputs = {"X": matrices_of(x, "x", "matrix_power")}
    attrs = {"n": arguments.integer(n, "n", "matrix_power")}
    return emit("matrix_power", inputs, attrs, name=name)


def matrix_exp(x: Variable, name: str | None = None) -> Variable:
    """Compute the exponential of square matrices (paddle.linalg.matrix_exp)."""
    return emit("matrix_exp", {"X": matrices_of(x, "x", "matrix_exp")}, name=name)


def matrix_rank(
    x: Variable,
    tol: Any = None,
    hermitian: bool = False,
    atol: Any = None,
    rtol: Any = None,
    name: str | None = None,
) -> Variable:
    """Count the singular values above a tolerance, int64 (paddle.linalg.matrix_rank).

    `tol` is a number or a Variable; by default it is the largest value times the size times the
    rounding error. Instead of `tol`, the tolerance may be the larger of `atol` and `rtol` times the
    largest value.
    """
    inputs = {"X": matrices_of(x, "x", "matrix_rank")}
    attrs: dict[str, Any] = {"hermitian": arguments.flag(hermitian, "hermitian", "matrix_rank")}
    if atol is not None or rtol is not None:
        tol = _tolerance(x, atol, rtol, hermitian)
    if isinstance(tol, Variable):
        inputs["TolTensor"] = tol
        attrs["use_default_tol"] = False
    else:
        attrs["use_default_tol"] = tol is None
        attrs["tol"] = 0.0 if tol is None else arguments.number(tol, "tol", "matrix_rank")
    return emit("matrix_rank", inputs, attrs, name=name, stop_gradient=True)


def _tolerance(x: Variable, atol: Any, rtol: Any, hermitian: bool) -> Variable:
    absolute = atol if isinstance(atol, Variable) else full([], atol or 0.0, x.dtype)
    if rtol is None:
        return absolute
    largest = max(abs(eigvalsh(x)) if hermitian else svdvals(x), -1)
    share = multiply(largest, rtol) if isinstance(rtol, Variable) else scale(largest, rtol)
    return maximum(absolute, share)


def pinv(
    x: Variable, rcond: Any = 1e-15, hermitian: bool = False, name: str | None = None
) -> Variable:
    """Compute the pseudo-inverse; singular values up to `rcond` times the largest count as 0."""
    matrices_of(x, "x", "pinv")
    if arguments.flag(hermitian, "hermitian", "pinv"):
        values, left = eigh(x)
        right, sizes = left, abs(values)
    else:
        left, values, vh = svd(x)
        right, sizes = swap_last(conj(vh) if x.dtype.is_complex else vh), values
    largest = max(sizes, -1, keepdim=True)
    bound = multiply(largest, rcond) if isinstance(rcond, Variable) else scale(largest, rcond)
    kept = greater_than(sizes, bound)
    one = full([], 1.0, values.dtype)
    inverted = where(kept, divide(one, where(kept, values, one)), full([], 0.0, values.dtype))
    left = conj(left) if x.dtype.is_complex else left
    scaled = _by_columns(right, inverted)
    return matmul(scaled, left, transpose_y=True, name=name)


def _by_columns(x: Variable, factors: Variable) -> Variable:
    """Scale each column by a real factor."""
    if not x.dtype.is_complex:
        return multiply(x, unsqueeze(factors, -2))
    zero = full([], 0.0, factors.dtype)
    return multiply(x, complex_(unsqueeze(factors, -2), zero))


def multi_dot(x: Sequence[Variable], name: str | None = None) -> Variable:
    """Multiply matrices in the cheapest order; the first and last may be vectors (multi_dot)."""
    parts = arguments.variables(x, "x", "multi_dot")
    if len(parts) < 2:
        raise ValueError("multi_dot(): 'x' should have two tensors or more")
    return emit("multi_dot", {"X": parts}, name=name)


def householder_product(x: Variable, tau: Variable, name: str | None = None) -> Variable:
    """Compute the first columns of a product of Householder reflections (householder_product).

    Column i of x, below a one on the diagonal, is the i-th reflection vector, and tau[i] its
    factor.
    """
    arguments.variable(x, "x", "householder_product")
    arguments.variable(tau, "tau", "householder_product")
    batches = list(zip(x.shape[:-2], tau.shape[:-1], strict=False))
    fits = len(x.shape) >= 2 and len(tau.shape) == len(x.shape) - 1
    if not fits or any(a != b and -1 not in (a, b) for a, b in batches):
        raise AssertedError(
            f"householder_product(): x {list(x.shape)} should be matrices, and tau "
            f"{list(tau.shape)} should have a vector for each of them"
        )
    rows, columns, count = *x.shape[-2:], tau.shape[-1]
    if not 0 <= count <= columns <= rows:
        raise AssertedError(
            f"householder_product(): x {list(x.shape)} should have as many rows as columns at "
            f"least, and tau {list(tau.shape)} no more elements than there are columns"
        )
    vectors = tril(x, -1)
    product = eye(rows, columns, x.dtype)
    unit = eye(rows, columns, x.dtype)
    for i in reversed(range(count)):
        ends = [-1], [i], [i + 1]
        v = add(slice(vectors, *ends), slice(unit, *ends))
        dual = conj(v) if x.dtype.is_complex else v
        factor = unsqueeze(slice(tau, *ends), -1)
        image = matmul(v, matmul(dual, product, transpose_x=True))
        product = subtract(product, multiply(factor, image))
    return product if name is None else scale(product, name=name)


def ormqr(
    x: Variable,
    tau: Variable,
    y: Variable,
    left: bool = True,
    transpose: bool = False,
    name: str | None = None,
) -> Variable:
    """Compute Q @ y, or y @ Q without `left`, for the Q of `householder_product` (linalg.ormqr).

    `transpose` uses the transpose of Q.
    """
    q = householder_product(x, tau)
    if arguments.flag(left, "left", "ormqr"):
        return matmul(q, y, arguments.flag(transpose, "transpose", "ormqr"), name=name)
    return matmul(y, q, transpose_y=arguments.flag(transpose, "transpose", "ormqr"), name=name)


def lstsq(
    x: Variable,
    y: Variable,
    rcond: float | None = None,
    driver: str | None = None,
    name: str | None = None,
) -> tuple[Variable, Variable, Variable, Variable]:
    """Solve for the z with the least |x @ z - y| (paddle.linalg.lstsq).

    Returns z, residuals, ranks and singular values. Singular values below rcond times the largest
    count as 0. Residuals are squared norms, an empty tensor unless x has more rows than columns;
    they assume full rank. Ranks are int32. All drivers give the same solution: 'gels' gives no
    ranks, and only 'gelsd' and 'gelss' give singular values.
    """
    matrices_of(x, "x", "lstsq")
    vector = len(arguments.variable(y, "y", "lstsq").shape) == 1
    right = unsqueeze(y, -1) if vector else y
    drivers = (None, "gels", "gelsy", "gelsd", "gelss")
    if driver not in drivers:
        raise ValueError(f"lstsq(): 'driver' should be one of {drivers[1:]}, found {driver!r}")
    rows, columns = x.shape[-2:]
    small = 1e-7 if x.dtype == "float32" else 2.220446049250313e-16
    share = small * (rows if rows > columns else columns) if rcond is None else rcond
    found = matmul(pinv(x, share), right)
    values = svdvals(x)
    bound = scale(max(values, -1, keepdim=True), share)
    ranks = cast(sum(cast(greater_than(values, bound), "int32"), -1), "int32")
    ranks.stop_gradient = True
    left_over = sum(square(subtract(right, matmul(x, found))), -2)
    if driver == "gels":
        ranks = full([0], 0, "int32")
    residuals = left_over if rows > columns else full([0], 0.0, x.dtype)
    shown = values if driver in ("gelsd", "gelss") else full([0], 0.0, x.dtype)
    return squeeze(found, -1) if vector else found, residuals, ranks, shown
