"""batch_norm + activation -> fused_batch_norm_act (SEMANTICS 8.1).

A superset of Paddle's pattern: any float dtype, both layouts, training and inference. Forward and
backward are one rewrite, because the backward is derived from the fused op.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from graphopt.ir.op import PdOp
from graphopt.ir.ops.activation import Relu, Relu6, Sigmoid, Silu, Tanh
from graphopt.ir.ops.fused import FusedBatchNormAct
from graphopt.ir.ops.norm import BatchNorm
from graphopt.passes.fusion import Fusion, FusionPass, Match, Node, Reason, Value

ACTIVATIONS: tuple[type[PdOp], ...] = (Relu, Relu6, Sigmoid, Silu, Tanh)


class BatchNormActivation(Fusion):
    """activation(batch_norm(x)); the statistics stay results of the fused op."""

    x = Value()
    batch_norm = Node(BatchNorm, x)
    root = activation = Node(ACTIVATIONS, batch_norm)

    def check(self, match: Match) -> Reason | None:
        if match[self.batch_norm].attr("sync"):
            return Reason(
                "synchronised", "`batch_norm` combines its statistics over devices (sync_batch_norm)"
            )
        return None

    def build(self, match: Match) -> PdOp:
        norm = match[self.batch_norm]
        x, mean, variance, scale, bias = norm.operand_groups()
        return FusedBatchNormAct.make(
            x[0],
            mean[0],
            variance[0],
            scale[0] if scale else None,
            bias[0] if bias else None,
            activation=match[self.activation].name.removeprefix("pd."),
            **norm.attr_values(),
        )

    def results(self, match: Match, fused: PdOp) -> Mapping[SSAValue, SSAValue]:
        statistics = zip(match[self.batch_norm].results[1:], fused.results[1:], strict=True)
        return {match[self.root].results[0]: fused.results[0], **dict(statistics)}


@dataclass(frozen=True)
class FuseBnAct(FusionPass):
    """Batch normalisation with the activation that follows it."""

    name = "fuse-bn-act"
    RULES = (BatchNormActivation(),)
