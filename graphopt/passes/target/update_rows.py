"""A table with few looked-up rows is updated by rows, not through a gradient of its size.

The derivative is then taken with respect to the results of the lookups, and the update changes
their rows in place. SGD and Adagrad do not change the other rows, nor does Adam with
`lazy_mode`, so this is the same update; the sum over a row that was looked up several times rounds
in another order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue, Use

from graphopt.ir.dialect.definition import attr_kinds, operand_names
from graphopt.ir.dialect.differentiated import readers_of
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.creation import Full, FullLike
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.index import Embedding
from graphopt.ir.dialect.ops.math import Add
from graphopt.ir.dialect.ops.shape import Assign
from graphopt.ir.dialect.ops.update.adaptive import Adagrad
from graphopt.ir.dialect.ops.update.basic import Sgd, Update
from graphopt.ir.dialect.ops.update.sparse import (
    AdagradRows,
    AdamRows,
    AdamwRows,
    RowUpdate,
    SgdRows,
    SparseAdam,
    SparseAdamBase,
    SparseAdamw,
)
from graphopt.ir.dialect.signature import main_function
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.naming import how_used, show_op
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, insert, replace

USUAL_SIZE = 32
"""The assumed size of an unknown dimension."""
WIDE = ("float32", "float64")
BY_ROWS: Mapping[type[Update], type[RowUpdate]] = {
    Sgd: SgdRows,
    Adagrad: AdagradRows,
    SparseAdam: AdamRows,
    SparseAdamw: AdamwRows,
}

NOT_ALL_THE_PROGRAM = Reason(
    "other-block",
    "the derivative is inside a branch or loop",
    "take the derivative outside of the branch or loop",
)
SEVERAL_REPLICAS = Reason(
    "several-replicas",
    "gradients of the table are summed over replicas, and each replica looks up other rows",
)


@dataclass(frozen=True)
class UpdateRows(RewritePass):
    """Update the rows of embedding tables that were looked up."""

    name = "update-rows"
    numerics = Numerics.REASSOCIATING
    replicas: int = 1

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        tables = dict.fromkeys(op.weight for op in module.walk() if isinstance(op, Embedding))
        main = main_function(module).body.block
        for table in tables:
            for grad in _derivatives(table):
                found = _find(table, grad, main, self.replicas)
                if isinstance(found, Reason):
                    log.declined(grad, found)
                elif log.allow(found.update):
                    _apply(found, log)
        return log.outcomes


@dataclass(frozen=True)
class TableUpdate:
    """A table, its derivative, the lookups that it goes through, and the update."""

    table: SSAValue
    grad: Grad
    lookups: Sequence[Embedding]
    update: Update


def _derivatives(table: SSAValue) -> list[Grad]:
    """List the derivatives with respect to a table, in order, except counts of lookups."""
    found = dict.fromkeys(use.operation for use in table.uses)
    grads = [op for op in found if isinstance(op, Grad) and table in op.wrt]
    copy = isinstance(table.owner, Assign)
    return [op for op in grads if not copy or _counted_rows(op.results[0]) is None]


def _find(table: SSAValue, grad: Grad, main: Block, replicas: int) -> TableUpdate | Reason:
    if grad.parent is not main:
        return NOT_ALL_THE_PROGRAM
    if replicas > 1:
        return SEVERAL_REPLICAS
    if not isinstance(table, BlockArgument) or dtype_of(table.type) not in WIDE:
        return Reason(
            "computed-table",
            "the table is a computed value, or has another dtype than float32 and float64",
        )
    gradients = zip(grad.wrt, grad.results, strict=True)
    uses = [use for value, result in gradients if value is table for use in result.uses]
    if not uses:
        return Reason("no-update", "no update reads the gradient of the table")
    for use in uses:
        if not _updates(use, table):
            return _read_elsewhere(use)
    if len(uses) > 1:
        return Reason("gradient-read", "more than one update reads the gradient of the table")
    (update,) = (use.operation for use in uses)
    assert isinstance(update, Update)
    if not _moves_rows_only(update):
        text = f"{show_op(update)} also changes rows that were not looked up"
        return Reason("every-row-moves", text, "use SGD, or Adam with lazy_mode and sparse=True")
    readers = readers_of(table, grad)
    lookups = [op for op in readers if isinstance(op, Embedding)]
    for op in readers:
        if op not in lookups:
            text = f"the loss also depends on the table through {show_op(op)}"
            return Reason("dense-use", text, "give that op a table of its own")
    if not lookups:
        return Reason("no-lookup", "the loss does not depend on the table")
    looked_up = update.looked_up if isinstance(update, SparseAdamBase) else None
    if looked_up is not None and _counted_rows(looked_up) != {op.x for op in lookups}:
        text = f"{show_op(update)} changes rows of other lookups than the ones in the gradient"
        return Reason("other-lookups", text)
    return _too_many(table, lookups) or TableUpdate(table, grad, lookups, update)


def _counted_rows(counts: SSAValue) -> set[SSAValue] | None:
    """Return the row numbers that `counts` counts; None for a value that is not such a sum."""
    op = counts.owner
    if isinstance(op, Add):
        parts = [_counted_rows(value) for value in op.operands]
        return None if None in parts else {v for part in parts for v in part or ()}
    if not isinstance(op, Grad) or len(op.of) != 1 or len(op.wrt) != 1:
        return None
    rows, seed = op.of[0].owner, op.cotangents[0].owner
    ones = isinstance(seed, (Full, FullLike)) and seed.attr("value") > 0
    if not ones or not isinstance(rows, Embedding) or rows.attr("padding_idx") != -1:
        return None
    return {rows.x} if rows.weight is op.wrt[0] and not op.no_grad else None


def _updates(use: Use, table: SSAValue) -> bool:
    """True when the user of a gradient updates the table with it."""
    op = use.operation
    if not isinstance(op, Update) or len(op.singles()) != 1:
        return False
    (single,) = op.singles()
    return op.operands[single.operands["param"]] is table and use.index == single.operands["grad"]


def _moves_rows_only(update: Update) -> bool:
    """True when an update leaves rows whose gradient is zero, or that were not looked up."""
    if isinstance(update, SparseAdamBase):
        return update.looked_up is not None
    if isinstance(update, Adagrad):
        return bool(update.attr("epsilon"))  # without epsilon, it divides zero by zero
    return type(update) in BY_ROWS


def _read_elsewhere(use: Use) -> Reason:
    text = f"the gradient of the table is {how_used(use.operation, use.index)}"
    return Reason("gradient-read", text, "clip, decay or fetch only gradients of other parameters")


def _too_many(table: SSAValue, lookups: Sequence[Embedding]) -> Reason | None:
    """Return a reason when updating the whole table costs no more than the rows; else None."""
    rows = sum(map(_count, lookups))
    size = shape_of(table.type)[0]
    if rows <= size:
        return None
    text = f"about {rows} lookups in a table of {size} rows: an update of all rows costs no more"
    return Reason("few-rows", text)


def _count(lookup: Embedding) -> int:
    """Count the rows that a lookup reads; an unknown size is estimated."""
    count = 1
    for dim in shape_of(lookup.x.type):
        count *= USUAL_SIZE if dim == UNKNOWN else dim
    return count


def _apply(found: TableUpdate, log: RewriteLog) -> None:
    """Differentiate with respect to the rows instead of the table, and update the rows."""
    grad, update = found.grad, found.update
    log.applied(update, grad)
    made, places = _by_rows(found)
    rows = _row_update(found, [made.results[places[op.out]] for op in found.lookups])
    insert(rows, update, update.results[0])
    for new, old in zip(rows.results, update.results, strict=True):
        new.name_hint = old.name_hint
    kept = {value: made.results[places[value]] for value in grad.wrt if value is not found.table}
    values: dict[SSAValue, SSAValue] = {
        result: kept[value]
        for value, result in zip(grad.wrt, grad.results, strict=True)
        if value in kept
    }
    counts = update.looked_up if isinstance(update, SparseAdamBase) else None
    new = dict(zip(update.results, rows.results, strict=True))
    if replace(update, {**values, **new}, log, grad):
        grad.detach()
        grad.erase()
        if counts is not None:
            _erase_unused(counts)


def _row_update(found: TableUpdate, grads: list[SSAValue]) -> RowUpdate:
    """Build the update of rows with the state and properties of the table's update."""
    update, kind = found.update, BY_ROWS[type(found.update)]
    state = dict(zip(operand_names(type(update)), update.operand_groups(), strict=True))
    lookups = {"ids": [op.x for op in found.lookups], "grads": grads}
    operands = [lookups.get(name) or state[name] for name in operand_names(kind)]
    known = attr_kinds(kind)
    attrs = {name: value for name, value in update.attr_values().items() if name in known}
    return kind.make(*operands, padding=[op.attr("padding_idx") for op in found.lookups], **attrs)


def _erase_unused(value: SSAValue) -> None:
    """Erase the ops of an unread value: the counts of lookups."""
    op = value.owner
    if not isinstance(op, PdOp) or any(result.uses for result in op.results):
        return
    read = list(op.operands)
    op.detach()
    op.erase()
    for operand in read:
        _erase_unused(operand)


def _by_rows(found: TableUpdate) -> tuple[Grad, dict[SSAValue, int]]:
    """Build the derivative with respect to the rows, and the positions of its gradients."""
    old = found.grad
    wrt = dict.fromkeys(value for value in old.wrt if value is not found.table)
    wrt |= dict.fromkeys(op.out for op in found.lookups)
    places = {value: at for at, value in enumerate(wrt)}
    parameters: Sequence[int] = old.attr("parameters")
    of_parameters = [old.wrt[at] for at in parameters]
    made = Grad.make(
        list(old.of),
        list(wrt),
        list(old.cotangents),
        list(old.no_grad),
        parameters=tuple(places[value] for value in of_parameters if value in places),
        addto=old.attr("addto"),
        location=old.location,
    )
    assert old.parent is not None
    old.parent.insert_op_before(made, old)
    for op in found.lookups:
        made.results[places[op.out]].name_hint = _rows_name(op)
    return made, places


def _rows_name(lookup: Operation) -> str | None:
    hint = lookup.results[0].name_hint
    return f"{hint}.rows" if hint else None
