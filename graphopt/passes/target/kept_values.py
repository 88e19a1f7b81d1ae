"""The values that the derivative of a group keeps: a minimum cut (Zheng et al., 2022).

A result inside of a group is kept, computed again, or not needed. Keeping it costs its bytes, or
nothing if it is kept anyway. Computing it again costs work, and needs all its operands. The
cheapest choice is the minimum cut between the values that the group reads and the values that its
derivative needs, as in PyTorch's `min_cut_rematerialization_partition`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.passes.engine.min_cut import UNCUT, source_side
from graphopt.passes.target.group_costs import REPEATED_BY_XLA, GroupKind, needs_operands, work_of

Unit = Operation | SSAValue
"""An op of the group, or a value that the group reads."""
CutNode = tuple[str, Unit | None]
SOURCE: CutNode = ("source", None)
SINK: CutNode = ("sink", None)


@dataclass(frozen=True)
class KeptValues:
    """The choice for one group: the values read and the inner ops whose results are kept.

    `freed` is the number of bytes that the derivative of the loose ops keeps and the derivative of
    the group does not, less the price of the work that is repeated.
    """

    inputs: tuple[SSAValue, ...]
    ops: tuple[PdOp, ...]
    freed: int


def choose_kept(
    ops: Sequence[PdOp], kinds: Mapping[PdOp, GroupKind], price: Callable[[SSAValue], int]
) -> KeptValues:
    """Choose the values to keep for a group of these ops, in program order, at the least cost.

    `price` returns the bytes that keeping a value costs.
    """
    flow = Flow(ops, kinds)
    cost = {
        unit: price(unit) if isinstance(unit, SSAValue) else sum(map(price, unit.results))
        for unit in flow.units
    }
    work = {op: work_of(op, kinds[op]) for op in ops}
    kept, repeated = _cheapest(flow, cost, work)
    freed = sum(cost[unit] for unit in flow.kept_by_loose_ops()) - sum(cost[unit] for unit in kept)
    inputs = tuple(unit for unit in kept if isinstance(unit, SSAValue))
    freed -= sum(work[op] or 0 for op in repeated)
    return KeptValues(inputs, tuple(op for op in ops if op in kept), freed)


class Flow:
    """The data flow of a group: the units that each op reads, and that derivatives need."""

    def __init__(self, ops: Sequence[PdOp], kinds: Mapping[PdOp, GroupKind]) -> None:
        self.ops, self.kinds = ops, kinds
        inside = set[Operation](ops)
        self.read: dict[Unit, list[Unit]] = {op: [] for op in ops}
        for op in ops:
            for value in op.operands:
                owner = value.owner
                inner = isinstance(owner, Operation) and owner in inside
                self.read[op].append(cast(Operation, owner) if inner else value)
        self.units = dict.fromkeys([*ops, *(unit for read in self.read.values() for unit in read)])
        needing = [op for op in ops if needs_operands(op)]
        self.needed = dict.fromkeys(unit for op in needing for unit in self.read[op])

    def before(self, units: Iterable[Unit], ends: Callable[[Unit], bool]) -> list[Unit]:
        """Collect these units and the units that they are computed from, up to the ends."""
        waiting = list(dict.fromkeys(units))
        found = dict.fromkeys(waiting)
        while waiting:
            unit = waiting.pop()
            if not ends(unit):
                missing = [other for other in self.read.get(unit, ()) if other not in found]
                found.update(dict.fromkeys(missing))
                waiting += missing
        return list(found)

    def kept_by_loose_ops(self) -> set[Unit]:
        """Collect the units that the derivatives of the ops keep without the group.

        XLA repeats short chains of elementwise ops by itself, from the values in memory.
        """
        depth: dict[Unit, int] = {}
        for op in self.ops:
            if self.kinds[op].always:
                below = max((depth.get(unit, 0) for unit in self.read[op]), default=0)
                depth[op] = below + (self.kinds[op].work != 0)
        loops = [op for op in self.ops if not self.kinds[op].always]
        stored = {unit for op in loops for unit in self.read[op]}

        def in_memory(unit: Unit) -> bool:
            return unit in stored or not 0 < depth.get(unit, 0) <= REPEATED_BY_XLA

        return {unit for unit in self.before(self.needed, in_memory) if in_memory(unit)}


def _cheapest(
    flow: Flow, cost: Mapping[Unit, int], work: Mapping[PdOp, int | None]
) -> tuple[list[Unit], list[PdOp]]:
    """Find the units to keep and the ops to compute again, by a minimum cut."""
    edges: dict[tuple[CutNode, CutNode], int] = {(("value", u), SINK): UNCUT for u in flow.needed}
    for unit in flow.units:
        again = work[unit] if isinstance(unit, PdOp) else None
        edges[SOURCE, ("computed", unit)] = UNCUT if again is None else again
        edges[("computed", unit), ("value", unit)] = cost[unit]
        for other in flow.read.get(unit, ()):
            edges[("value", other), ("computed", unit)] = UNCUT
    # units on the side of the source are not recomputed
    side = source_side(edges, SOURCE, SINK)
    used = flow.before(flow.needed, lambda unit: ("computed", unit) in side)
    kept = [unit for unit in used if ("computed", unit) in side]
    return kept, [unit for unit in used if isinstance(unit, PdOp) and unit not in kept]
