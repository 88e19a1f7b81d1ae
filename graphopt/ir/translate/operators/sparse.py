"""Sparse gradients of embeddings (Paddle: SelectedRows), which have the size of the table here.

Their variables still declare them, and their lookups are noted, for the optimizers that treat
sparse gradients differently.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import OpResult, SSAValue

from graphopt.ir.dialect.differentiated import readers_of
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.index import Embedding
from graphopt.ir.dialect.ops.math import Add, Subtract
from graphopt.ir.dialect.ops.shape import Assign, StopGradient
from graphopt.ir.program import EMPTY, Operator, VarKind
from graphopt.ir.translate.operators.translator import Translator

Ids = Sequence[SSAValue]
"""The numbers of the rows of each lookup."""
SPARSE_UPDATES = ("adam", "adamw")
"""Optimizers that Paddle computes in another way from a sparse gradient."""


def is_sparse_lookup(op: Operator) -> bool:
    """True for a lookup whose gradient has only the rows that were looked up."""
    is_lookup = op.type in ("lookup_table", "lookup_table_v2")
    return is_lookup and bool(op.attrs.get("is_sparse")) and op.input("W") != [EMPTY]


def sparse_embedding(
    self: Translator, op: Operator, ids: SSAValue, table: SSAValue, padding: int
) -> SSAValue:
    """The rows of a table whose gradient is sparse: it includes the row for padding.

    Paddle leaves that row out of dense gradients only, so it is zero where it is looked up and
    moves nevertheless.
    """
    rows = self.emit(Embedding, op, ids, table, padding_idx=-1).results[0]
    masked = self.emit(Embedding, op, ids, table, padding_idx=padding).results[0]
    difference = self.emit(Subtract, op, masked, rows).results[0]
    fixed = self.emit(StopGradient, op, difference).results[0]
    return self.emit(Add, op, rows, fixed).results[0]


def declared_lookups(self: Translator, op: Operator) -> Ids:
    """The lookups whose gradient an update reads, if its variable declares that it is sparse."""
    if op.type not in SPARSE_UPDATES:
        return ()
    (param,), (grad,) = op.input("Param"), op.input("Grad")
    variable = op.block.find_var(grad)
    if variable is None or variable.kind != VarKind.SELECTED_ROWS:
        return ()
    table = self.read(param)
    found: dict[SSAValue, None] = {}
    for result in _derivatives(self.read(grad)):
        of = result.op
        assert isinstance(of, Grad)
        value = of.wrt[result.index]
        if value is table or value.name_hint == table.name_hint:
            lookups = [o for o in readers_of(value, of) if isinstance(o, Embedding)]
            found.update(dict.fromkeys(lookup.x for lookup in lookups))
    return list(found)


def _derivatives(gradient: SSAValue) -> list[OpResult]:
    """The derivatives that a gradient consists of, for example before it was clipped."""
    found: list[OpResult] = []
    todo, seen = [gradient], {gradient}
    while todo:
        value = todo.pop()
        if not isinstance(value, OpResult):
            continue
        if isinstance(value.op, Grad):
            found.append(value)
            continue
        new = [v for v in value.op.operands if v not in seen]
        seen.update(new)
        todo += new
    return found


def counted(self: Translator, op: Operator, lookups: Ids) -> SSAValue:
    """Number of lookups of each row of an update's table, in the shape of the table.

    Each count is the gradient of a lookup, and called so for data parallelism, which adds it up.
    """
    (param,) = op.input("Param")
    total: SSAValue | None = None
    for numbers in lookups:
        source = self.emit(Assign, op, self.read(param)).results[0]
        rows = self.emit(Embedding, op, numbers, source, padding_idx=-1).results[0]
        seed = self.emit(FullLike, op, rows, value=1.0).results[0]
        made = self.emit(Grad, op, [rows], [source], [seed], [], parameters=(0,)).results[0]
        total = made if total is None else self.emit(Add, op, total, made).results[0]
    assert total is not None
    return total
