"""relu + depthwise convolution -> the convolution with `fuse_relu_before_depthwise_conv`.

As in Paddle there is no new op. The relu's result is not kept for the derivative, which computes
it from the relu's operand; forward and backward are one rewrite.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Relu
from graphopt.ir.dialect.ops.conv import DepthwiseConv2d
from graphopt.passes.engine.fusion import (
    Fusion,
    FusionPass,
    Match,
    Node,
    Reason,
    Value,
    wrong_attr,
)


class ReluDepthwiseConv(Fusion):
    """depthwise_conv2d(relu(x), w)."""

    x, w = Value(), Value()
    relu = Node(Relu, x)
    root = convolution = Node(DepthwiseConv2d, relu, w)
    defining = (convolution,)

    def check(self, match: Match) -> Reason | None:
        convolution, name = match[self.convolution], "fuse_relu_before_depthwise_conv"
        if convolution.attr(name):
            return wrong_attr("has-relu", self.convolution, convolution, name, False)
        return None

    def build(self, match: Match) -> PdOp:
        attrs = match[self.convolution].attr_values()
        return DepthwiseConv2d.make(
            match.value(self.x),
            match.value(self.w),
            **{**attrs, "fuse_relu_before_depthwise_conv": True},
        )


@dataclass(frozen=True)
class FuseReluDepthwiseConv(FusionPass):
    """Fuse depthwise convolutions with the relu before them."""

    name = "fuse-relu-depthwise-conv"
    RULES = (ReluDepthwiseConv(),)
