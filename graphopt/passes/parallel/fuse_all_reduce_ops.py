"""fuse_all_reduce_ops: the gradients of a group of parameters travel in one collective.

Paddle's rules make the groups: one for each layer (the part of a parameter's name before the first
dot), or several layers until they reach FLAGS_fuse_parameter_memory_size megabytes or
FLAGS_fuse_parameter_groups_size gradients, or all for 0 megabytes; each of one dtype. In a group,
gradients below the size of `joining.py` share a buffer; Paddle joins the larger ones too. All
gradients are dense, so none is left out for being sparse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.comm import AllReduce
from graphopt.ir.dialect.signature import STATE, main_function, signature_of
from graphopt.ir.dialect.types import byte_count, dtype_of
from graphopt.passes.engine.fusion import Outcome
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass
from graphopt.passes.parallel.joining import join, small
from graphopt.passes.parallel.reduce_owners import derivatives, parameters_of

MEGABYTE = 1 << 20
Member = tuple[str, AllReduce]


@dataclass(frozen=True)
class FuseAllReduceOps(RewritePass):
    """Join the sums of gradients over the replicas by Paddle's groups."""

    name = "fuse-all-reduce-ops"
    numerics = Numerics.BIT_EXACT
    memory_size: float = -1.0
    groups_size: int = 1

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name)
        names = _parameter_names(module)
        for grad in derivatives(module):
            members: list[Member] = []
            for parameter, local in parameters_of(grad):
                total = _total(local)
                if total is None:
                    continue
                members.append((names.get(parameter, parameter.name_hint or ""), total))
            for group in self._groups(members):
                join(small(group, log), log)
        return log.outcomes

    def _groups(self, members: Sequence[Member]) -> list[list[PdOp]]:
        """Make the groups, each of one dtype and in the order of the block."""
        layers: dict[str, list[AllReduce]] = {}
        for name, total in members:
            layers.setdefault(name.partition(".")[0], []).append(total)
        merged: list[list[AllReduce]] = []
        for layer in layers.values():
            if merged and self._takes_more(merged[-1]):
                merged[-1] += layer
            else:
                merged.append(list(layer))
        found: dict[tuple[int, Any], list[PdOp]] = {}
        place = {op: number for number, op in enumerate(_block_of(members))}
        for number, group in enumerate(merged):
            for total in sorted(group, key=place.__getitem__):
                found.setdefault((number, dtype_of(total.operands[0].type)), []).append(total)
        return list(found.values())

    def _takes_more(self, group: Sequence[AllReduce]) -> bool:
        """True when another layer goes into a group."""
        if self.memory_size == 0:
            return True
        if self.memory_size < 0:
            return False
        if 1 < self.groups_size <= len(group):
            return False
        held = sum(byte_count(total.operands[0].type) for total in group)
        return held < self.memory_size * MEGABYTE


def _parameter_names(module: ModuleOp) -> dict[SSAValue, str]:
    block, ports = main_function(module).body.block, signature_of(module).arguments
    return {a: p.name for a, p in zip(block.args, ports, strict=True) if p.kind == STATE}


def _total(local: SSAValue) -> AllReduce | None:
    """Find the op that sums a local gradient over the replicas; None unless there is just one."""
    users = {use.operation for use in local.uses}
    totals = [op for op in users if isinstance(op, AllReduce) and len(op.operands) == 1]
    return totals[0] if len(totals) == 1 else None


def _block_of(members: Sequence[Member]) -> list[Operation]:
    block = members[0][1].parent if members else None
    return list(block.ops) if block is not None else []
