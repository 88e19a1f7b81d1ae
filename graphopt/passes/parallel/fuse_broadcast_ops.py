"""fuse_broadcast_ops: with reduce_strategy=Reduce, small parameters are gathered together.

Every replica has updated its part of each parameter; one `pd.all_gather` brings the parts of all
small parameters to all replicas. (Paddle broadcasts each parameter from its owner.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.comm import AllGather
from graphopt.ir.dialect.signature import main_function
from graphopt.ir.dialect.types import dtype_of
from graphopt.passes.engine.fusion import Outcome
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass
from graphopt.passes.parallel.joining import join, small


@dataclass(frozen=True)
class FuseBroadcastOps(RewritePass):
    """Join the `pd.all_gather`s of one dtype."""

    name = "fuse-broadcast-ops"
    numerics = Numerics.BIT_EXACT

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name)
        groups: dict[tuple[Any, ...], list[PdOp]] = {}
        for op in main_function(module).body.block.ops:
            if isinstance(op, AllGather) and len(op.operands) == 1 and not op.attr("again"):
                key = (dtype_of(op.operands[0].type), op.attr("parts"))
                groups.setdefault(key, []).append(op)
        for group in groups.values():
            join(small(group, log), log, _properties)
        return log.outcomes


def _properties(ops: Sequence[PdOp]) -> Mapping[str, Any]:
    sizes = [dim for op in ops for dim in op.attr("sizes")]
    ranks = [rank for op in ops for rank in op.attr("ranks")]
    return {"parts": ops[0].attr("parts"), "sizes": sizes, "ranks": ranks}
