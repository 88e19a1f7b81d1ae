"""enable_auto_fusion, build_cinn_pass: ops that belong together become one `pd.fusion_group`.

XLA fuses the loops of a group, and does so without one. A group gains where a derivative goes
through it: the derivative keeps the values that the group reads, and not the values inside of it.
It also gains where a program runs op by op: the group is one program. A group is chosen by the cost
model of `group_costs.py`; each place where one ends has a named reason.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from graphopt.ir.dialect.differentiated import mark_kept
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import FusionGroup
from graphopt.ir.dialect.regions import ancestor_in
from graphopt.ir.dialect.signature import main_function
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass
from graphopt.passes.target.group_borders import Paths, derivative_paths, ends, members
from graphopt.passes.target.group_costs import LEAST_GAIN, MOST_OPS, GroupKind, needs_operands
from graphopt.passes.target.group_growth import Growth, OpGroup, restore_order
from graphopt.passes.target.kept_values import KeptValues, choose_kept
from graphopt.passes.target.outlining import copied_body, stand_in
from graphopt.passes.target.recompute_activations import size_of


@dataclass(frozen=True)
class GroupOps(RewritePass, ABC):
    """Make groups of at most `most` ops that save at least `least` bytes each."""

    numerics = Numerics.BIT_EXACT
    reductions: ClassVar[bool]
    """True for groups that may also contain reductions, norms and products."""
    least: int = LEAST_GAIN
    most: int = MOST_OPS

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        block = main_function(module).body.block
        paths = derivative_paths(block)
        kinds, refused = members(block, paths, reductions=self.reductions)
        growth = Growth(block, kinds, paths, ends(block), self.most)
        borders = [*refused.items(), *growth.borders]
        for op, reason in sorted(borders, key=lambda border: growth.place[border[0]]):
            log.declined(op, reason)
        Grouping(block, kinds, paths, self.least, log).make(growth.groups())
        return log.outcomes


@dataclass(frozen=True)
class GroupElementwise(GroupOps):
    """enable_auto_fusion: elementwise ops, casts, selections, broadcasts and views."""

    name = "group-elementwise"
    reductions = False


@dataclass(frozen=True)
class GroupReductions(GroupOps):
    """build_cinn_pass: reductions, norms, losses and products, with the ops around them."""

    name = "group-reductions"
    reductions = True


class Grouping:
    """The groups of one block, made one after the other from the end of the program."""

    def __init__(
        self, block: Block, kinds: dict[PdOp, GroupKind], paths: Paths, least: int, log: RewriteLog
    ) -> None:
        self.block, self.kinds, self.paths = block, kinds, paths
        self.least, self.log = least, log
        self.kept_inputs: set[SSAValue] = set()
        """The values that derivatives of the groups made so far read and keep."""
        self.waiting: dict[Operation, OpGroup] = {}
        """The ops of the groups that are not yet decided."""

    def make(self, groups: Sequence[OpGroup]) -> None:
        """Put a `pd.fusion_group` in the place of each group that gains enough."""
        several = [group for group in groups if len(group.ops) + len(group.copied) > 1]
        self.waiting.update((op, group) for group in several for op in group.ops)
        for group in several:
            for op in group.ops:
                del self.waiting[op]
            self._make(group)
        restore_order(self.block)

    def _make(self, group: OpGroup) -> None:
        ops = [*group.copied, *group.ops]
        leaving = [r for op in group.ops for r in op.results if self._leaves(r, group)]
        inner = sum(
            size_of(result)
            for op in ops
            for result in op.results
            if self.kinds[op].work != 0 and result not in leaving and result.uses
        )
        kept = KeptValues((), (), 0)
        if self.paths[group.ops[0]]:
            kept = choose_kept(ops, self.kinds, lambda value: self._price(value, group))
        gain = kept.freed if self.paths[group.ops[0]] else inner
        last = group.ops[-1]
        if gain < self.least:
            text = f"the group would save less than {self.least} bytes"
            self.log.declined(last, Reason("small-gain", text))
            return
        if not self.log.allow(last):
            return
        held = ", ".join(op.name.removeprefix("pd.") for op in ops)
        note = f"the group holds {held}; {inner} bytes stay inside"
        if kept.freed:
            note += f"; the derivative keeps {kept.freed} bytes less"
        self.log.applied(last, *group.ops[-2::-1], note=note)
        self.kept_inputs.update(kept.inputs)
        self._replace(group, leaving, kept, inner)

    def _price(self, value: SSAValue, group: OpGroup) -> int:
        """Return the bytes that keeping a value costs: 0 where it is kept anyway."""
        if isinstance(value, BlockArgument) or value in self.kept_inputs:
            return 0
        if value.owner in group.copied:
            return size_of(value)
        for reader in self._readers(value):
            if reader in group.ops or reader in self.waiting or isinstance(reader, FusionGroup):
                continue
            if isinstance(reader, ReturnOp):
                return 0
            if isinstance(reader, PdOp) and self.paths[reader] and needs_operands(reader):
                return 0
        return size_of(value)

    def _leaves(self, value: SSAValue, group: OpGroup) -> bool:
        """True when an op outside of the group reads a value, other than to compute it again."""
        return any(
            reader not in group.ops and not self._will_copy(value, reader)
            for reader in self._readers(value)
        )

    def _will_copy(self, value: SSAValue, reader: Operation) -> bool:
        """True when the group of a reader is decided later and computes the value again."""
        return reader in self.waiting and value.owner in self.waiting[reader].copied

    def _readers(self, value: SSAValue) -> list[Operation]:
        found = (ancestor_in(self.block, use.operation) for use in value.uses)
        return [reader for reader in found if reader is not None]

    def _replace(
        self, group: OpGroup, leaving: Sequence[SSAValue], kept: KeptValues, inner: int
    ) -> None:
        """Move the ops of a group into the region of one op."""
        ops = [*group.copied, *group.ops]
        body, copies = copied_body(ops, leaving)
        for op, copy in zip(ops, copies, strict=True):
            if op in kept.ops:
                mark_kept(copy)
        types = [value.type for value in leaving]
        made = FusionGroup.build_with([], types, [body], inner=inner, freed=kept.freed)
        stand_in(made, group.ops, leaving, self.log, group.copied, self._will_copy)
