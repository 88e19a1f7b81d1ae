"""The ops allowed in a branch for some of the rows: ops that treat each row on its own.

Paddle's IfElse gives each branch only its own rows. Here both branches compute on all rows, which
is equivalent as long as no row depends on another one; other operators are refused.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.index import FillRows
from graphopt.ir.dialect.regions import values_read
from graphopt.ir.dialect.traits import Elementwise, OverAxes, Rowwise
from graphopt.ir.dialect.types import rank_of, shape_of


def check_rowwise(op: Operation, split: set[SSAValue]) -> None:
    """Add the results of `op` to `split` if it reads a value in `split`.

    Raises UnsupportedError unless the op treats each row separately.
    """
    touched = [value for value in values_read(op) if value in split]
    if isinstance(op, FillRows):
        split.update(op.results)
        return
    if not touched:
        return
    if not isinstance(op, PdOp) or op.regions or not _keeps_rows_apart(op, touched, split):
        raise UnsupportedError(
            f"{op.name} in a branch of IfElse makes rows depend on each other; compute {op.name} "
            "outside, or use paddle.where or paddle.static.nn.cond"
        )
    split.update(op.results)


def _keeps_rows_apart(op: PdOp, touched: list[SSAValue], split: set[SSAValue]) -> bool:
    """True when row i of the results depends on row i of the split operands alone.

    Unsplit operands are the same for every row.
    """
    others = [value for value in op.operands if value not in split]
    if any(map(_lacks_rows, touched)):
        return False
    if op.has_trait(Elementwise):
        return _one_by_one(op, touched, others)
    over = op.get_trait(OverAxes)
    if over is not None:
        return not others and rank_of(touched[0].type) > 0 and 0 not in over.axes(op)
    rowwise = op.get_trait(Rowwise)
    if rowwise is None or not rowwise.when(op):
        return False
    first_alone = op.operands[0] in split and len(others) == len(op.operands) - 1
    return not others if rowwise.of_all else first_alone


def _lacks_rows(value: SSAValue) -> bool:
    """True for a result of a rowwise op that is not by row, such as the means of a layer_norm."""
    op = value.owner
    if not isinstance(op, PdOp):
        return False
    rowwise = op.get_trait(Rowwise)
    return rowwise is not None and rowwise.first_result and value is not op.results[0]


def _one_by_one(op: PdOp, touched: list[SSAValue], others: list[SSAValue]) -> bool:
    """True when the split operands have the result's rows, and no other operand has rows."""
    rank = max(rank_of(value.type) for value in touched)
    if any(rank_of(result.type) != rank for result in op.results):
        return False
    return all(rank_of(v.type) < rank or shape_of(v.type)[0] == 1 for v in others) and all(
        rank_of(v.type) == rank for v in touched
    )
