"""Parameter updates of one kind -> one op for all of them: fuse_all_optimizer_ops, fuse_adamw.

A group shares the kind, the dtype, the learning rate and every property; Paddle compares some of
these and stops, or computes wrongly, for the others. The op takes the place of the group's last
update, so an update whose result is read before that stays alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.definition import operand_names
from graphopt.ir.dialect.ops.update.basic import Adam, Adamw, Momentum, Sgd, Update
from graphopt.ir.dialect.ops.update.fused import FUSED
from graphopt.ir.dialect.types import dtype_of
from graphopt.passes.engine.fusion import Applied, Outcome, Reason
from graphopt.passes.engine.grouping import movable
from graphopt.passes.engine.naming import joined_location, show_op, source_line
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass

Key = tuple[Any, ...]


@dataclass(frozen=True)
class FuseAllOptimizerOps(RewritePass):
    """Fuse updates by sgd, momentum and adam, each kind separately."""

    name = "fuse-all-optimizer-ops"
    numerics = Numerics.BIT_EXACT
    KINDS: ClassVar[tuple[type[Update], ...]] = (Sgd, Momentum, Adam)

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        groups: dict[Key, list[Update]] = {}
        for op in module.walk():
            if isinstance(op, self.KINDS):
                groups.setdefault(update_key(op), []).append(op)
        for updates in groups.values():
            _fuse(updates, log)
        return log.outcomes


@dataclass(frozen=True)
class FuseAdamw(FuseAllOptimizerOps):
    """Fuse updates by adamw."""

    name = "fuse-adamw"
    KINDS: ClassVar[tuple[type[Update], ...]] = (Adamw,)


def update_key(op: Update) -> Key:
    """Return the key that the updates of a group share."""
    dtypes = tuple(dtype_of(value.type) for value in op.operands)
    rate = op.operands[operand_names(type(op)).index("learning_rate")]
    return (type(op), op.parent, rate, dtypes, frozenset(op.attr_values().items()))


def _fuse(updates: list[Update], log: RewriteLog) -> None:
    """Replace a group by one op, but for the updates that have to stay where they are."""
    alone = Reason(
        "only-one", "no other update has the same kind, dtype, learning rate and properties"
    )
    if len(updates) > 1:
        updates = movable(updates, log, read_early)
    if len(updates) < 2:
        for op in updates:
            log.declined(op, alone)
        return
    last = updates[-1]
    if not log.allow(last):
        return
    line = source_line(last.location)
    log.outcomes.append(Applied(log.rule, show_op(last), tuple(map(show_op, updates)), line))
    fused = _fused_op(updates)
    fused.location = joined_location(updates)
    assert last.parent is not None
    last.parent.insert_op_before(fused, last)
    old = [result for op in updates for result in op.results]
    values: dict[SSAValue, SSAValue] = dict(zip(old, fused.results, strict=True))
    if log.undo_if_wrong([last, *updates[:-1]], values):
        return
    replace_uses(values)
    for op in updates:
        op.detach()
        op.erase()


def read_early(reader: Operation) -> Reason:
    """Build the reason why an update stays in its place."""
    text = f"{show_op(reader)} reads the result before the last update of the group"
    return Reason("result-read-early", text, "move that reader after the updates")


def _fused_op(updates: Sequence[Update]) -> Update:
    """Build the fused op of a group, with the operands of all its members."""
    kind = FUSED[type(updates[0])]
    names = operand_names(type(updates[0]))
    slots = {single: name for name, single in kind.SLOTS}
    lists: dict[str, list[Any]] = {name: [] for name in slots.values()}
    for op in updates:
        for single, group in zip(names, op.operand_groups(), strict=True):
            if single in slots:
                lists[slots[single]] += group
    rate = updates[0].operands[names.index("learning_rate")]
    operands = [rate if name == "learning_rate" else lists[name] for name in operand_names(kind)]
    return kind.make(*operands, **fused_properties(updates[0]))


def fused_properties(op: Update) -> dict[str, Any]:
    """Return the properties of the fused op that corresponds to this update."""
    values = op.attr_values()
    if isinstance(op, Adamw):
        coeff, with_decay = values.pop("coeff"), values.pop("with_decay")
        values |= {"use_adamw": True, "weight_decay": coeff if with_decay else 0.0}
    return values
