"""batch_norm + activation -> fused_batch_norm_act.

A superset of Paddle's pattern: any float dtype, both layouts, training and inference, and any
activation of one tensor. Forward and backward are one rewrite, because the backward is derived from
the fused op.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.fused import FusedBatchNormAct
from graphopt.ir.dialect.ops.norm import BatchNorm
from graphopt.passes.engine.fusion import Fusion, FusionPass, Match, Node, Reason, Value
from graphopt.passes.fusions.activations import ACTIVATIONS, activation_attrs, activation_name


class BatchNormActivation(Fusion):
    """activation(batch_norm(x)); the statistics stay results of the fused op."""

    x = Value()
    batch_norm = Node(BatchNorm, x)
    root = activation = Node(ACTIVATIONS, batch_norm)
    defining = (batch_norm,)

    def check(self, match: Match) -> Reason | None:
        return check_not_synchronised(match[self.batch_norm])

    def build(self, match: Match) -> PdOp:
        norm = match[self.batch_norm]
        x, mean, variance, scale, bias = norm_operands(norm)
        return FusedBatchNormAct.make(
            x,
            mean,
            variance,
            scale,
            bias,
            activation=activation_name(match[self.activation]),
            **activation_attrs(match[self.activation]),
            **norm.attr_values(),
        )

    def results(self, match: Match, fused: PdOp) -> Mapping[SSAValue, SSAValue]:
        return norm_results(match[self.root], match[self.batch_norm], fused)


def check_not_synchronised(norm: PdOp) -> Reason | None:
    """Return a reason to leave a synchronized batch_norm alone, as Paddle does."""
    if norm.attr("sync"):
        return Reason(
            "synchronised",
            "`batch_norm` has sync = True, so its statistics are combined over devices",
            "switch off sync_batch_norm",
        )
    return None


def norm_operands(norm: PdOp) -> list[SSAValue | None]:
    """List x, mean, variance, scale and bias; absent ones are None."""
    return [group[0] if group else None for group in norm.operand_groups()]


def norm_results(root: PdOp, norm: PdOp, fused: PdOp) -> Mapping[SSAValue, SSAValue]:
    """Map the root's output and the batch_norm's statistics to the fused op's results."""
    statistics = zip(norm.results[1:], fused.results[1:], strict=True)
    return {root.results[0]: fused.results[0], **dict(statistics)}


@dataclass(frozen=True)
class FuseBnAct(FusionPass):
    """Fuse batch normalization with the activation that follows it."""

    name = "fuse-bn-act"
    RULES = (BatchNormActivation(),)
