"""Which ops treat each row on its own: the ones that a branch for some of the rows may contain.

Paddle's IfElse gives each branch its rows alone. Here both branches compute on all rows, which is
the same as long as no row looks at another one; anything else is refused, never guessed.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from graphopt.errors import UnsupportedError
from graphopt.ir.op import attr_kinds
from graphopt.ir.ops.activation import AlongAxis
from graphopt.ir.ops.base import Binary, Compare, Unary
from graphopt.ir.ops.conv import Conv2dBase, Pool2d
from graphopt.ir.ops.index import Embedding, FillRows, OneHot
from graphopt.ir.ops.linear import Matmul
from graphopt.ir.ops.math import AddN, Cast, LogicalNot, Where
from graphopt.ir.ops.norm import LayerNorm
from graphopt.ir.ops.reduce import ArgReduce, Reduce
from graphopt.ir.ops.shape import Concat, Flatten, Reshape, Squeeze, Transpose, Unsqueeze
from graphopt.ir.regions import values_read
from graphopt.ir.types import normalize_axes, normalize_axis, rank_of, shape_of


def check_rowwise(op: Operation, split: set[SSAValue]) -> None:
    """Add the results of `op` to `split` when it reads such values.

    Raises UnsupportedError when it then does more than to treat each row on its own.
    """
    touched = [value for value in values_read(op) if value in split]
    if isinstance(op, FillRows):
        split.update(op.results)
        return
    if not touched:
        return
    others = [value for value in op.operands if value not in split]
    if op.regions or not (_one_by_one(op, touched, others) or _keeps_rows(op, others)):
        raise UnsupportedError(
            f"{op.name} in a branch of IfElse lets rows depend on each other; compute it outside, "
            "or use paddle.where or paddle.static.nn.cond"
        )
    split.update(op.results)


def _one_by_one(op: Operation, touched: list[SSAValue], others: list[SSAValue]) -> bool:
    """Elementwise, and what has no rows of its own is the same for every row."""
    if isinstance(op, AlongAxis):
        return False
    if not isinstance(op, (Unary, Binary, Compare, Cast, LogicalNot, AddN, Where)):
        return False
    if isinstance(op, Unary) and "axis" in attr_kinds(type(op)):
        return False
    rank = max(rank_of(value.type) for value in touched)
    return all(rank_of(v.type) < rank or shape_of(v.type)[0] == 1 for v in others) and all(
        rank_of(v.type) == rank for v in touched
    )


def _keeps_rows(op: Operation, others: list[SSAValue]) -> bool:
    """Ops that keep the first axis apart from the others."""
    first = op.operands[0]
    rank = rank_of(first.type)
    match op:
        case Reduce():
            axes = op.attr("axis")
            return bool(axes) and 0 not in normalize_axes(axes, rank)
        case ArgReduce():
            flat = op.attr("flatten") if "flatten" in attr_kinds(type(op)) else False
            return not flat and normalize_axis(op.attr("axis"), rank) != 0
        case AlongAxis():
            return normalize_axis(op.attr("axis"), rank) != 0
        case Concat():
            return not others and normalize_axis(op.attr("axis"), rank) != 0
        case Matmul():
            plain = not op.attr("transpose_x") or rank > 2
            return first not in others and plain and rank_of(op.operands[1].type) == 2 and rank > 1
        case Reshape():
            return list(op.attr("shape"))[:1] == [0]
        case Flatten():
            return normalize_axis(op.attr("start_axis"), rank) > 0
        case Squeeze():
            return bool(op.attr("axis")) and 0 not in normalize_axes(op.attr("axis"), rank)
        case Unsqueeze():
            return all(axis % (rank + 1) for axis in op.attr("axis"))
        case Transpose():
            return op.attr("perm")[0] == 0
        case LayerNorm():
            return op.attr("begin_norm_axis") > 0 and first not in others
        case Embedding() | OneHot() | Conv2dBase() | Pool2d():
            return first not in others
        case _:
            return False
