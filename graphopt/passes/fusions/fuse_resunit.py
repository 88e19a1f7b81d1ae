"""The end of a residual unit: convolution, batch_norm, maybe an add, activation.

Paddle 3 has this for float16 images with channels last, on GPUs with cuDNN's graph interface. Here
it is what fuse_bn_act_ops and fuse_bn_add_act_ops do, for any dtype and layout, where the
batch_norm alone reads a convolution.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.conv import Conv2d
from graphopt.ir.dialect.ops.math import Add
from graphopt.ir.dialect.ops.norm import BatchNorm
from graphopt.passes.engine.fusion import FusionPass, Match, Node, Value
from graphopt.passes.fusions.fuse_bn_act import ACTIVATIONS, BatchNormActivation
from graphopt.passes.fusions.fuse_bn_add_act import BatchNormAddActivation


def same_convolution(match: Match, conv: Node) -> SSAValue:
    """Clone the matched convolution before the pattern's last op, and return its result."""
    copy = match[conv].clone()
    assert match.root.parent is not None
    match.root.parent.insert_op_before(copy, match.root)
    copy.results[0].name_hint = match[conv].results[0].name_hint
    return copy.results[0]


class ResidualUnit(BatchNormAddActivation):
    """activation(batch_norm(conv2d(x, w)) + z), with the operands of the add in either order."""

    x, w, z = Value(), Value(), Value("full")
    conv = Node(Conv2d, x, w)
    batch_norm = Node(BatchNorm, conv)
    add = Node(Add, batch_norm, z, commutes=True)
    root = activation = Node(ACTIVATIONS, add)
    defining = (conv, batch_norm)

    def build(self, match: Match) -> PdOp:
        fused = super().build(match)
        fused.operands[0] = same_convolution(match, self.conv)
        return fused


class PlainUnit(BatchNormActivation):
    """activation(batch_norm(conv2d(x, w)))."""

    x, w = Value(), Value()
    conv = Node(Conv2d, x, w)
    batch_norm = Node(BatchNorm, conv)
    root = activation = Node(ACTIVATIONS, batch_norm)
    defining = (conv, batch_norm)

    def build(self, match: Match) -> PdOp:
        fused = super().build(match)
        fused.operands[0] = same_convolution(match, self.conv)
        return fused


@dataclass(frozen=True)
class FuseResunit(FusionPass):
    """Fuse batch normalization after a convolution with the ops that follow it."""

    name = "fuse-resunit"
    RULES = (ResidualUnit(), PlainUnit())
