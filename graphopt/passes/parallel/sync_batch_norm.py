"""sync_batch_norm: every batch normalization takes its statistics over all devices.

Unlike Paddle's it works on every backend and for uneven shards.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from graphopt.ir.dialect.definition import encode_attrs
from graphopt.ir.dialect.ops.norm import BatchNorm
from graphopt.passes.engine.numerics import Numerics


@dataclass(frozen=True)
class SyncBatchNorm(ModulePass):
    """Mark every batch_norm as synchronized."""

    name = "sync-batch-norm"
    numerics = Numerics.REASSOCIATING

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, BatchNorm):
                inner.properties |= encode_attrs(BatchNorm, {"sync": True})
