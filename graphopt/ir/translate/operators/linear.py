"""Matrix products, with flattened operands, factors or sums, and singular values."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.linalg.decompositions import Svd
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add, Multiply
from graphopt.ir.dialect.ops.reduce import Sum
from graphopt.ir.dialect.ops.shape import Concat, Flatten, Split
from graphopt.ir.dialect.types import dtype_of, rank_of, same_shape, shape_of
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates


@translates("mul")
def mul(emit: Emitter) -> Written:
    """Translate `mul`, which flattens its operands to matrices; the leading axes of x are kept."""
    x, y = emit.input("X"), emit.input("Y")
    x_axes, y_axes = emit.attr("x_num_col_dims"), emit.attr("y_num_col_dims")
    if not 0 < x_axes < rank_of(x.type) or not 0 < y_axes < rank_of(y.type):
        raise ProgramError(
            f"mul splits x {list(shape_of(x.type))} after {x_axes} and "
            f"y {list(shape_of(y.type))} after {y_axes} dimensions, but each side must keep at "
            "least one dimension"
        )
    x, tail = emit.matrix(x, x_axes), shape_of(y.type)[y_axes:]
    if y_axes > 1:
        y = emit(Flatten, y, start_axis=0, stop_axis=y_axes - 1)
    if len(tail) > 1:
        y = emit(Flatten, y, start_axis=1)
    out = emit(Matmul, x, y)
    if len(tail) > 1:
        out = emit.reshape(out, *(0,) * x_axes, *tail)
    return emit.results(Out=out)


@translates("matmul")
def matmul(emit: Emitter) -> Written:
    """Translate matmul with its factor; the product of two vectors has shape [1]."""
    emit.only_constants_besides("X", "Y")
    x, y = emit.input("X"), emit.input("Y")
    flags = {f"transpose_{c}": emit.attr(f"transpose_{c.upper()}") for c in "xy"}
    # x is a row and y a column, so a transpose makes a vector a matrix
    if rank_of(x.type) == 1 and flags["transpose_x"]:
        x = emit.reshape(x, 1, -1)
    if rank_of(y.type) == 1 and flags["transpose_y"]:
        y = emit.reshape(y, -1, 1)
    heads = emit.attr("head_number")
    product = emit(Matmul, x, y, **flags) if heads == 1 else _by_heads(emit, x, y, heads, flags)
    out = emit.scale(product, emit.attr("alpha"))
    return emit.results(Out=out if rank_of(out.type) else emit.reshape(out, 1))


def _by_heads(
    emit: Emitter, x: SSAValue, y: SSAValue, heads: int, flags: Mapping[str, bool]
) -> SSAValue:
    """Multiply the parts of x and y, and concatenate the products.

    A part of x has some of its columns. A part of y has the matching rows, or some columns if y has
    no more rows than a part of x has columns.
    """
    if min(rank_of(x.type), rank_of(y.type)) < 2:
        raise ProgramError(f"matmul of {heads} heads needs matrices")
    inner, rows, columns = (-2 if flags["transpose_x"] else -1), -2, -1
    if flags["transpose_y"]:
        rows, columns = columns, rows
    whole = shape_of(x.type)[inner] == shape_of(y.type)[rows]
    lefts, rights = (
        emit.all(Split, value, num=heads, axis=axis % rank_of(value.type))
        for value, axis in ((x, inner), (y, rows if whole else columns))
    )
    parts = [emit(Matmul, a, b, **flags) for a, b in zip(lefts, rights, strict=True)]
    return emit(Concat, parts, axis=rank_of(parts[0].type) - 1)


@translates("addmm", "baddbmm")
def addmm(emit: Emitter) -> Written:
    emit.only("Input", "X", "Y")
    product = emit.scale(emit(Matmul, emit.input("X"), emit.input("Y")), emit.attr("Alpha"))
    return emit.results(Out=emit(Add, emit.scale(emit.input("Input"), emit.attr("Beta")), product))


@translates("svdvals")
def svdvals(emit: Emitter) -> Written:
    """Emit the singular values: the second result of a decomposition."""
    return emit.results(s=emit.all(Svd, emit.input("x"))[1])


@translates("dot")
def dot(emit: Emitter) -> Written:
    emit.only("X", "Y")
    x, y = emit.input("X"), emit.input("Y")
    same_shape(x.type, y.type)
    products = emit(Multiply, x, y)
    return emit.results(Out=emit(Sum, products, axis=(-1,), dtype=dtype_of(x.type)))
