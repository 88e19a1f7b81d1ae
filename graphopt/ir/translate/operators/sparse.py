"""Sparse gradients of embeddings (Paddle: SelectedRows), which have the size of the table here.

Their variables still declare that they are sparse, and their lookups are noted, for the optimizers
that treat sparse gradients differently.
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
from graphopt.ir.program import VarKind
from graphopt.ir.translate.operators.emitter import Emitter

Ids = Sequence[SSAValue]
"""The row numbers that each lookup reads."""
SPARSE_UPDATES = ("adam", "adamw")
"""Optimizers whose update Paddle computes differently for a sparse gradient."""


def sparse_embedding(emit: Emitter, ids: SSAValue, table: SSAValue, padding: int) -> SSAValue:
    """Look up rows of a table whose gradient is sparse: it includes the row for padding.

    Paddle leaves that row out of dense gradients only. So the row is zero where it is looked up,
    and is updated nevertheless.
    """
    rows = emit(Embedding, ids, table, padding_idx=-1)
    masked = emit(Embedding, ids, table, padding_idx=padding)
    return emit(Add, rows, emit(StopGradient, emit(Subtract, masked, rows)))


def declared_lookups(emit: Emitter) -> Ids:
    """Find the lookups whose gradient an update reads, if its variable is declared sparse."""
    op = emit.op
    if op.type not in SPARSE_UPDATES:
        return ()
    (param,), (grad,) = op.input("Param"), op.input("Grad")
    variable = op.block.find_var(grad)
    if variable is None or variable.kind != VarKind.SELECTED_ROWS:
        return ()
    table = emit.read(param)
    found: dict[SSAValue, None] = {}
    for result in _derivatives(emit.read(grad)):
        of = result.op
        assert isinstance(of, Grad)
        value = of.wrt[result.index]
        if value is table or value.name_hint == table.name_hint:
            lookups = [o for o in readers_of(value, of) if isinstance(o, Embedding)]
            found.update(dict.fromkeys(lookup.x for lookup in lookups))
    return list(found)


def _derivatives(gradient: SSAValue) -> list[OpResult]:
    """Find the derivatives that a gradient consists of, for example before it was clipped."""
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


def count_lookups(emit: Emitter, lookups: Ids) -> SSAValue:
    """Count the lookups of each row of an update's table, in the shape of the table.

    Each count is the gradient of a lookup, marked as a parameter's gradient, so that data
    parallelism adds it up.
    """
    param = emit.input("Param")
    total: SSAValue | None = None
    for numbers in lookups:
        source = emit(Assign, param)
        rows = emit(Embedding, numbers, source, padding_idx=-1)
        seed = emit(FullLike, rows, value=1.0)
        made = emit(Grad, [rows], [source], [seed], [], parameters=(0,))
        total = made if total is None else emit(Add, total, made)
    assert total is not None
    return total
