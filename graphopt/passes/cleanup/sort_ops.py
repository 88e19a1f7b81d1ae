"""fix_op_run_order: order the ops by their computations alone.

Programs that differ only in the order of independent ops become one program. An op comes as soon as
its latest operand is there; among several, the name, the properties and the operands decide. Ops
that print or check values keep their order.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.regions import values_read
from graphopt.ir.dialect.signature import main_function, signature_of
from graphopt.passes.engine import bisect
from graphopt.passes.engine.fusion import Applied, Outcome
from graphopt.passes.engine.grouping import waits_for
from graphopt.passes.engine.naming import show_op
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewritePass

Number = tuple[Any, ...]


@dataclass(frozen=True)
class SortOps(RewritePass):
    """Bring the ops of the program into one canonical order.

    Partial gradients of one value may be added in another order.
    """

    name = "sort-ops"
    numerics = Numerics.REASSOCIATING

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        block = main_function(module).body.block
        ops = list(block.ops)
        wanted = sorted_ops(module)
        moved = [b for a, b in zip(ops, wanted, strict=True) if a is not b]
        if not moved or not bisect.take(self.name, "the program"):
            return []
        for op in ops:
            op.detach()
        block.add_ops(wanted)
        return [Applied(self.name, "the program", tuple(map(show_op, moved)), "")]


def sorted_ops(module: ModuleOp) -> list[Operation]:
    """Sort the ops of the program into canonical order; the last op stays last.

    Each value has a number: the position of its op in this order, or the name of the feed or state.
    """
    block = main_function(module).body.block
    ports = signature_of(module).arguments
    number: dict[SSAValue, Number] = {
        argument: (-1, port.kind, port.name)
        for argument, port in zip(block.args, ports, strict=True)
    }
    *ops, last = block.ops
    waits = waits_for(ops)
    readers: dict[Operation, list[Operation]] = {}
    for op, others in waits.items():
        for other in others:
            readers.setdefault(other, []).append(op)
    position = {op: index for index, op in enumerate(ops)}
    ready = [(_key(op, number), position[op]) for op in ops if not waits[op]]
    heapq.heapify(ready)
    found: list[Operation] = []
    while ready:
        op = ops[heapq.heappop(ready)[1]]
        number |= {result: (len(found), index) for index, result in enumerate(op.results)}
        found.append(op)
        for reader in readers.get(op, ()):
            waits[reader].discard(op)
            if not waits[reader]:
                heapq.heappush(ready, (_key(reader, number), position[reader]))
    return [*found, last]


def _key(op: Operation, number: dict[SSAValue, Number]) -> tuple[Any, ...]:
    """Compute the sort key of a ready op; the op with the newest latest operand comes first."""
    assert isinstance(op, PdOp)
    read = [number[value] for value in values_read(op)]
    properties = sorted((name, str(value)) for name, value in op.properties.items())
    latest = max((entry[0] for entry in read), default=-1)
    inside = [str(region) for region in op.regions]
    return (-latest, op.name, tuple(properties), tuple(map(str, read)), tuple(inside))
