"""Activations in half precision are in memory where casts make and read them.

XLA computes with half precision on CPUs as casts to float32 and back, which look cheap to it. So it
computes an activation again in each kernel that reads it, with the casts, norms and sums before it,
compiles all of these as often, and skips the rounding between two casts. A fence at the half side
of a cast keeps the value, and the gradient that comes back through it.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.ops.control import Fence, FusionGroup
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.ops.rearrange import Unbind
from graphopt.ir.dialect.types import dtype_of
from graphopt.passes.engine.fusion import Outcome
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass

HALF, WIDE = ("float16", "bfloat16"), ("float32", "float64")


@dataclass(frozen=True)
class FenceCasts(RewritePass):
    """Insert a `pd.fence` after casts of activations to half precision and before casts back."""

    name = "fence-casts"
    numerics = Numerics.BIT_EXACT

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name)
        for op in list(module.walk()):
            if not isinstance(op, Cast) or isinstance(op.parent_op(), FusionGroup):
                continue
            value, dtype = op.operands[0], dtype_of(op.operands[0].type)
            if _is_argument(value) or isinstance(value.owner, Fence):
                continue
            wanted = dtype_of(op.results[0].type)
            if dtype in WIDE and wanted in HALF and not _is_fenced(op.results[0]) and log.allow(op):
                log.applied(op)
                _fence_result(op)
            elif dtype in HALF and wanted in WIDE and log.allow(op):
                log.applied(op)
                fence = Fence.make([value], [], location=op.location)
                _block(op).insert_op_before(fence, op)
                op.operands[0] = fence.results[0]
        return log.outcomes


def _fence_result(op: Cast) -> None:
    fence = Fence.make([op.results[0]], [], location=op.location)
    op.results[0].replace_uses_with_if(fence.results[0], lambda use: use.operation is not fence)
    fence.results[0].name_hint = op.results[0].name_hint
    _block(op).insert_op_after(fence, op)


def _is_fenced(value: SSAValue) -> bool:
    return any(isinstance(use.operation, Fence) for use in value.uses)


def _is_argument(value: SSAValue) -> bool:
    """True for a parameter or a feed, which each kernel reads and casts itself."""
    owner = value.owner
    if isinstance(owner, Unbind):
        owner = owner.operands[0].owner
    return isinstance(owner, Block)


def _block(op: Operation) -> Block:
    assert op.parent is not None
    return op.parent
