"""Matrix products and transposes (paddle.*)."""

from __future__ import annotations

from typing import Any

from graphopt.errors import AssertedError
from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.frontend.one_layer import one_layer
from graphopt.frontend.sizes import size_of
from graphopt.ir.program import Variable
from graphopt.tensor.manipulation import reshape
from graphopt.tensor.math import add, multiply, scale, sum


def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = False,
    transpose_y: bool = False,
    name: str | None = None,
) -> Variable:
    """Multiply matrices by NumPy's rules; batch dimensions broadcast (paddle.matmul).

    The transposes swap the last two dimensions and do not apply to vectors. Raises ProgramError
    when the contracted dimensions or the dtypes differ.
    """
    inputs = {"X": arguments.variable(x, "x", "matmul"), "Y": arguments.variable(y, "y", "matmul")}
    attrs = {
        "trans_x": arguments.flag(transpose_x, "transpose_x", "matmul"),
        "trans_y": arguments.flag(transpose_y, "transpose_y", "matmul"),
    }
    return emit("matmul_v2", inputs, attrs, name=name)


@one_layer("mm")
def mm(input: Variable, mat2: Variable, name: str | None = None) -> Variable:
    """Multiply two tensors of rank 1 or more as matrices (paddle.mm)."""
    arguments.variable(input, "input", "mm")
    return matmul(input, arguments.variable(mat2, "mat2", "mm"), name=name)


@one_layer("bmm")
def bmm(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Multiply two batches of matrices, [b, n, k] and [b, k, m] (paddle.bmm).

    Raises ValueError unless both are 3-D with one batch size.
    """
    for what, value in (("x", x), ("y", y)):
        if len(arguments.variable(value, what, "bmm").shape) != 3:
            raise ValueError(f"bmm(): '{what}' should be 3-D, but received {list(value.shape)}")
    if x.shape[0] != y.shape[0] and -1 not in (x.shape[0], y.shape[0]):
        raise ValueError(
            f"bmm(): the batch sizes of x {list(x.shape)} and y {list(y.shape)} differ"
        )
    return matmul(x, y, name=name)


def transpose(x: Variable, perm: Any, name: str | None = None) -> Variable:
    """Permute the dimensions to the order `perm` (paddle.transpose)."""
    arguments.variable(x, "x", "transpose")
    axes = arguments.integers(perm, "perm", "transpose")
    return emit("transpose2", {"X": x}, {"axis": axes}, layer="transpose", name=name)


def t(input: Variable, name: str | None = None) -> Variable:
    """Transpose a matrix; return vectors and scalars unchanged (paddle.t).

    Raises ValueError for tensors of rank 3 or more: use transpose.
    """
    rank = len(arguments.variable(input, "input", "t").shape)
    if rank > 2:
        raise ValueError(f"t(): 'input' should have rank 2 at most, but received rank {rank}")
    attrs = {"axis": [1, 0]}
    return emit("transpose2", {"X": input}, attrs, layer="t", name=name) if rank == 2 else input


@one_layer("dot")
def dot(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute the dot product of vectors, or of each pair of rows, in their dtype (paddle.dot)."""
    shape = arguments.variable(x, "x", "dot").shape
    if len(shape) not in (1, 2) or len(arguments.variable(y, "y", "dot").shape) != len(shape):
        raise ValueError(f"dot(): 'x' {list(shape)} and 'y' {list(y.shape)} should be 1-D or 2-D")
    arguments.one_shape("dot", x=x, y=y)
    return sum(multiply(x, y), -1, x.dtype, name=name)


def mv(x: Variable, vec: Variable, name: str | None = None) -> Variable:
    """Multiply a matrix by a vector (paddle.mv)."""
    for what, value, rank in (("x", x, 2), ("vec", vec, 1)):
        if len(arguments.variable(value, what, "mv").shape) != rank:
            raise ValueError(f"mv(): '{what}' should be {rank}-D, found {list(value.shape)}")
    return matmul(x, vec, name=name)


@one_layer("addmm")
def addmm(
    input: Variable,
    x: Variable,
    y: Variable,
    beta: float = 1.0,
    alpha: float = 1.0,
    name: str | None = None,
) -> Variable:
    """Compute beta * input + alpha * x @ y (paddle.addmm).

    x and y are matrices, and input broadcasts to their product. Raises ValueError for other ranks.
    """
    shape = arguments.variable(input, "input", "addmm").shape
    factors = arguments.variable(x, "x", "addmm").shape, arguments.variable(y, "y", "addmm").shape
    fits = [len(size) == 2 for size in factors] == [True, True] and len(shape) in (1, 2)
    if not fits or any(
        size not in (1, of) and -1 not in (size, of)
        for size, of in zip(shape[::-1], (factors[1][1], factors[0][0]), strict=False)
    ):
        raise ValueError(
            f"addmm(): 'x' and 'y' should be matrices, and 'input' of 1 or 2 axes should broadcast "
            f"to their product, found {list(shape)}, {list(factors[0])} and {list(factors[1])}"
        )
    kept = scale(arguments.variable(input, "input", "addmm"), beta)
    return add(kept, scale(matmul(x, y), alpha), name)


@arguments.accept_old_names(input="x", other="y", dim="axis")
def cross(x: Variable, y: Variable, axis: int = 9, name: str | None = None) -> Variable:
    """Compute the cross product along an axis of size 3, by default the first (paddle.cross)."""
    inputs = {"X": arguments.variable(x, "x", "cross"), "Y": arguments.variable(y, "y", "cross")}
    at = 9 if axis is None else arguments.integer(axis, "axis", "cross")
    return emit("cross", inputs, {"dim": at}, name=name)


def cholesky(x: Variable, upper: bool = False, name: str | None = None) -> Variable:
    """Factor symmetric positive-definite matrices to triangular ones (paddle.linalg.cholesky)."""
    attrs = {"upper": arguments.flag(upper, "upper", "cholesky")}
    return emit("cholesky", {"X": arguments.variable(x, "x", "cholesky")}, attrs, name=name)


def inverse(x: Variable, name: str | None = None) -> Variable:
    """Invert matrices (paddle.inverse)."""
    inputs = {"Input": arguments.variable(x, "x", "inverse")}
    return emit("inverse", inputs, name=name, out="Output")


inv = inverse


def einsum(equation: str, *operands: Variable) -> Variable:
    """Contract tensors by Einstein's notation, such as `ij,jk->ik` (paddle.einsum).

    Without `->` the result has the letters that occur once, in alphabetical order. A size of 1
    broadcasts to the letter's size elsewhere. Raises AssertionError without operands.
    """
    if not operands:
        raise AssertedError("einsum(): at least one operand is expected after the equation")
    inputs = arguments.variables(list(operands), "operands", "einsum")
    if "->" not in equation:
        letters = equation.replace(",", "").replace(" ", "").replace("...", "")
        # the order of letters ignores case
        once = sorted((c for c in set(letters) if letters.count(c) == 1), key=str.lower)
        equation += "->" + ("..." if "..." in equation else "") + "".join(once)
    return LayerHelper("einsum").emit("einsum", {"Operands": inputs}, {"equation": equation})


@one_layer("outer")
def outer(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Multiply every element of x by every element of y (paddle.outer)."""
    column = reshape(arguments.variable(x, "x", "outer"), [-1, 1])
    return multiply(column, reshape(arguments.variable(y, "y", "outer"), [1, -1]), name)


def inner(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Contract the last axes of x and y; multiply elementwise if one is a scalar (paddle.inner)."""
    if not arguments.variable(x, "x", "inner").shape or not y.shape:
        return multiply(x, y, name)
    rows_x, rows_y = (reshape(v, [-1, size_of(v, -1)]) for v in (x, y))
    flat = matmul(rows_x, rows_y, transpose_y=True)
    kept = [size_of(v, axis) for v in (x, y) for axis in range(len(v.shape) - 1)]
    return reshape(flat, kept, name)


def kron(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Compute the Kronecker product: y times each element of x, as blocks (paddle.kron)."""
    inputs = {"X": arguments.variable(x, "x", "kron"), "Y": arguments.variable(y, "y", "kron")}
    return emit("kron", inputs, name=name)


lazy.join_package(globals())
