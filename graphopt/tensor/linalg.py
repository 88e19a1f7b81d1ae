"""Matrix products and transposes (paddle.*)."""

from __future__ import annotations

from typing import Any

from graphopt import arguments
from graphopt.ir.program import Variable
from graphopt.layer_helper import emit


def matmul(
    x: Variable,
    y: Variable,
    transpose_x: bool = False,
    transpose_y: bool = False,
    name: str | None = None,
) -> Variable:
    """The matrix product by NumPy's rules, batch dimensions broadcast (paddle.matmul).

    The transposes swap the last two dimensions and do not apply to vectors. Raises ProgramError
    when the contracted dimensions or the dtypes differ.
    """
    inputs = {"X": arguments.variable(x, "x", "matmul"), "Y": arguments.variable(y, "y", "matmul")}
    attrs = {
        "trans_x": arguments.flag(transpose_x, "transpose_x", "matmul"),
        "trans_y": arguments.flag(transpose_y, "transpose_y", "matmul"),
    }
    return emit("matmul_v2", inputs, attrs, name=name)


def mm(input: Variable, mat2: Variable, name: str | None = None) -> Variable:
    """The matrix product of two tensors of rank 1 or more (paddle.mm)."""
    arguments.variable(input, "input", "mm")
    return matmul(input, arguments.variable(mat2, "mat2", "mm"), name=name)


def bmm(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The products of two batches of matrices, [b, n, k] and [b, k, m] (paddle.bmm).

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
    """The dimensions in the order `perm` (paddle.transpose)."""
    arguments.variable(x, "x", "transpose")
    axes = arguments.integers(perm, "perm", "transpose")
    return emit("transpose2", {"X": x}, {"axis": axes}, layer="transpose", name=name)


def t(input: Variable, name: str | None = None) -> Variable:
    """A matrix transposed; vectors and scalars as they are (paddle.t).

    Raises ValueError for tensors of rank 3 or more: use transpose.
    """
    rank = len(arguments.variable(input, "input", "t").shape)
    if rank > 2:
        raise ValueError(f"t(): 'input' should have rank 2 at most, but received rank {rank}")
    return transpose(input, [1, 0], name) if rank == 2 else input
