"""Rewrites of single ops, and the values that no rewrite may replace.

A `RewritePass` walks the module once and reports its rewrites, as fusions do, for `explain`. Values
that a `pd.grad` names are protected: a derivative with respect to a value differs from the
derivative with respect to an equal value.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.passes.engine import bisect, validation
from graphopt.passes.engine.fusion import Applied, Declined, Outcome, Reason
from graphopt.passes.engine.naming import show_op, source_line
from graphopt.passes.engine.numerics import Numerics


class RewritePass(ModulePass, ABC):
    """A pass that reports each rewrite, and each declined one with a reason."""

    numerics: ClassVar[Numerics]
    changes_signature: ClassVar[bool] = False
    """True for a pass that may change the signature of a program."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.rewrite(op)

    @abstractmethod
    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        """Rewrite the module; return applied and declined instances in the order of the walk."""


class RewriteLog:
    """The outcomes of one pass; `allow` asks before each change, for `--opt-bisect-limit`.

    `numerics` is the pass's class, by which `--validate` compares values.
    """

    def __init__(self, rule: str, numerics: Numerics | None = None) -> None:
        self.rule = rule
        self.numerics = numerics
        self.outcomes: list[Outcome] = []
        self.changed = False
        """True if a rewrite happened since the last snapshot of the program."""

    def allow(self, op: Operation) -> bool:
        """True when the change at `op` may happen."""
        if self.changed:
            self.begin(op)
        return bisect.take(self.rule, show_op(op))

    def begin(self, op: Operation) -> None:
        """Begin a change of the program of `op`: a veto undoes all that follows."""
        validation.begin(op)
        self.changed = False

    def applied(self, op: Operation, *others: Operation, note: str = "") -> None:
        """Log a change at `op`, before it is made; `note` is added to the report."""
        self.changed = True
        replaced = tuple(show_op(o) for o in (op, *others))
        line = source_line(op.location)
        self.outcomes.append(Applied(self.rule, show_op(op), replaced, line, note))

    def undo_if_wrong(self, old: Sequence[Operation], values: Mapping[SSAValue, SSAValue]) -> bool:
        """Undo the change logged last if it computes something else; return whether it did."""
        reason = validation.veto(self.rule, self.numerics, old, values)
        if reason is None:
            self.changed = True
            return False
        validation.take_back(values)
        self.changed = False
        undone = self.outcomes.pop()
        self.outcomes.append(Declined(self.rule, undone.anchor, reason, undone.location))
        return True

    def declined(self, op: Operation, reason: Reason) -> None:
        """Log the reason why `op` was left alone."""
        self.outcomes.append(Declined(self.rule, show_op(op), reason, source_line(op.location)))


def differentiated_values(module: ModuleOp) -> set[SSAValue]:
    """Collect the values that gradients are taken with respect to, or that stop gradients."""
    found: set[SSAValue] = set()
    for op in module.walk():
        if isinstance(op, Grad):
            found.update(op.wrt)
            found.update(op.no_grad)
    return found


def replace(
    op: Operation,
    values: Mapping[SSAValue, SSAValue],
    log: RewriteLog | None = None,
    *others: Operation,
) -> bool:
    """Replace the uses of results of `op` by other values, and erase `op`.

    A value without a name takes the name of the value that it replaces. Return False when a
    validator finds that the new values differ from the old ones; the program is then restored to
    the start of the rewrite. `others` are further ops that the rewrite replaces. Without a log
    nothing is validated.
    """
    if log is not None and log.undo_if_wrong((op, *others), values):
        return False
    around = op.parent_op()
    assert around is not None
    replace_uses(values)
    op.detach()
    op.erase()
    if log is not None:
        log.begin(around)
    return True


def with_attrs(op: PdOp, attrs: Mapping[str, Any]) -> PdOp:
    """Copy an op with other properties; the copy is in no block."""
    new, kinds = op.clone(), attr_kinds(type(op))
    new.properties.update({name: kinds[name].encode(value) for name, value in attrs.items()})
    return new


def change(op: PdOp, attrs: Mapping[str, Any], log: RewriteLog, *, note: str = "") -> None:
    """Replace `op` by a copy with other properties, if the log allows it, and log that."""
    if log.allow(op):
        log.applied(op, note=note)
        assert op.parent is not None
        new = with_attrs(op, attrs)
        op.parent.insert_op_before(new, op)
        replace(op, dict(zip(op.results, new.results, strict=True)), log)


def choose(op: PdOp, algorithm: str | Reason, log: RewriteLog, *, note: str = "") -> None:
    """Give an op an algorithm, or log the reason to leave the op alone."""
    if isinstance(algorithm, Reason):
        log.declined(op, algorithm)
    else:
        change(op, {"algorithm": algorithm}, log, note=note)


def insert(op: PdOp, before: Operation, named: SSAValue | None = None) -> SSAValue:
    """Insert an op of one result before another, with its location and the name of `named`."""
    block = before.parent
    assert block is not None
    op.location = before.location
    block.insert_op_before(op, before)
    if named is not None:
        op.results[0].name_hint = named.name_hint
    return op.results[0]
