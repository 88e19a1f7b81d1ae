"""batch_norm + add + activation -> fused_bn_add_activation, the residual block.

On by default, and for every float dtype and layout. The other operand of the add must have the
batch_norm's own shape; Paddle does not check that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.fused import FusedBnAddActivation
from graphopt.ir.dialect.ops.math import Add
from graphopt.ir.dialect.ops.norm import BatchNorm
from graphopt.ir.dialect.types import show
from graphopt.passes.engine.fusion import Fusion, FusionPass, Match, Node, Reason, Value
from graphopt.passes.fusions.activations import ACTIVATIONS, activation_attrs, activation_name
from graphopt.passes.fusions.fuse_bn_act import check_not_synchronised, norm_operands, norm_results


class BatchNormAddActivation(Fusion):
    """activation(batch_norm(x) + z), with the operands of the add in either order."""

    x, z = Value(), Value("full")
    batch_norm = Node(BatchNorm, x)
    add = Node(Add, batch_norm, z, commutes=True)
    root = activation = Node(ACTIVATIONS, add)
    defining = (batch_norm,)

    def check(self, match: Match) -> Reason | None:
        norm, z = match[self.batch_norm], match.value(self.z)
        if z.type != norm.results[0].type:
            return Reason(
                "broadcast",
                f"`z` should be {show(norm.results[0].type)} like the result of `batch_norm`, "
                f"found {show(z.type)}",
                f"expand `z` to {show(norm.results[0].type)}",
            )
        return check_not_synchronised(norm)

    def build(self, match: Match) -> PdOp:
        norm = match[self.batch_norm]
        x, *rest = norm_operands(norm)
        return FusedBnAddActivation.make(
            x,
            match.value(self.z),
            *rest,
            activation=activation_name(match[self.activation]),
            **activation_attrs(match[self.activation]),
            **norm.attr_values(),
        )

    def results(self, match: Match, fused: PdOp) -> Mapping[SSAValue, SSAValue]:
        return norm_results(match[self.root], match[self.batch_norm], fused)


@dataclass(frozen=True)
class FuseBnAddAct(FusionPass):
    """Fuse batch normalization, the residual add after it, and the activation."""

    name = "fuse-bn-add-act"
    RULES = (BatchNormAddActivation(),)
