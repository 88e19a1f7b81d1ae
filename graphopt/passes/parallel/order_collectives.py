"""enable_sequential_execution, sequential_run: collectives start one after another.

The ops of one replica depend on each other only by their values, and XLA may start, or join, the
sums over replicas as it likes. Here each collective also waits for the previous one, so that they
run in program order; Paddle chains all operators, which has no meaning inside one XLA program.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from graphopt.ir.dialect.families import ALL
from graphopt.ir.dialect.ops import comm
from graphopt.ir.dialect.ops.control import Fence
from graphopt.ir.dialect.ops.norm import BatchNormBase
from graphopt.ir.dialect.signature import main_function
from graphopt.passes.engine.fusion import Outcome
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass

COLLECTIVES = tuple(op for op in ALL if op.__module__ == comm.__name__)


@dataclass(frozen=True)
class OrderCollectives(RewritePass):
    """Insert a `pd.fence` before each collective but the first, to wait for the previous one."""

    name = "order-collectives"
    numerics = Numerics.BIT_EXACT

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name)
        before: Operation | None = None
        for op in list(main_function(module).body.block.ops):
            if not communicates(op):
                continue
            if before is not None and not _waits(op) and log.allow(op):
                log.applied(op)
                _let_wait(op, before)
            before = op
        return log.outcomes


def communicates(op: Operation) -> bool:
    """True when an op combines values of several replicas."""
    return isinstance(op, COLLECTIVES) or (isinstance(op, BatchNormBase) and bool(op.attr("sync")))


def _waits(op: Operation) -> bool:
    return isinstance(op.operands[0].owner, Fence)


def _let_wait(op: Operation, before: Operation) -> None:
    fence = Fence.make([op.operands[0]], [before.results[0]], location=op.location)
    assert op.parent is not None
    op.parent.insert_op_before(fence, op)
    fence.results[0].name_hint = op.operands[0].name_hint
    op.operands[0] = fence.results[0]
