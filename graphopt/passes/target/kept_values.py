"""The values that the derivative of a group keeps: a minimum cut (Zheng et al., 2022).

A result inside of a group is kept, computed again, or not needed. Keeping costs its bytes, or
nothing if something else keeps it anyway; computing it again costs work, and everything that it is
computed from. The cheapest choice is the minimum cut between what the group reads and what its
derivative needs, as in PyTorch's `min_cut_rematerialization_partition`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.passes.engine.min_cut import UNCUT, source_side
from graphopt.passes.target.group_costs import needs_operands

Unit = Operation | SSAValue
"""An op of the group, or a value that the group reads."""
Node = tuple[str, Unit | None]
SOURCE: Node = ("source", None)
SINK: Node = ("sink", None)


@dataclass(frozen=True)
class Kept:
    """The choice for one group: the values read and the inner ops whose results are kept.

    `freed` are the bytes that the derivative of the loose ops keeps and that of the group does not,
    less the price of the work that is repeated.
    """

    inputs: tuple[SSAValue, ...]
    ops: tuple[PdOp, ...]
    freed: int


def choose_kept(
    ops: Sequence[PdOp], work: Callable[[PdOp], int | None], price: Callable[[SSAValue], int]
) -> Kept:
    """The cheapest choice for a group of these ops, in program order.

    `work` is the price of computing an op again, None for one that must not be; `price` that of
    keeping a value.
    """
    inside = set[Operation](ops)

    def unit(value: SSAValue) -> Unit:
        return value.owner if value.owner in inside else value  # pyright: ignore

    def cost(kept: Unit) -> int:
        return price(kept) if isinstance(kept, SSAValue) else sum(map(price, kept.results))

    read = {op: [unit(value) for value in op.operands] for op in ops}
    needed = dict.fromkeys(u for op in ops if needs_operands(op) for u in read[op])
    edges: dict[tuple[Node, Node], int] = {(("value", u), SINK): UNCUT for u in needed}
    for each in dict.fromkeys([*ops, *(u for units in read.values() for u in units)]):
        again = work(each) if isinstance(each, PdOp) else None
        edges[SOURCE, ("computed", each)] = UNCUT if again is None else again
        edges[("computed", each), ("value", each)] = cost(each)
        for other in read.get(each, ()):  # pyright: ignore
            edges[("value", other), ("computed", each)] = UNCUT
    before = source_side(edges, SOURCE, SINK)
    kept: list[Unit] = []
    repeated = 0
    waiting, seen = list(needed), set[Unit](needed)
    while waiting:
        each = waiting.pop()
        if ("computed", each) in before:
            kept.append(each)
            continue
        assert isinstance(each, PdOp)
        repeated += work(each) or 0
        found = [u for u in read[each] if u not in seen]
        seen.update(found)
        waiting += found
    freed = sum(map(cost, needed)) - sum(map(cost, kept)) - repeated
    inputs = tuple(u for u in kept if isinstance(u, SSAValue))
    return Kept(inputs, tuple(op for op in ops if op in kept), freed)
