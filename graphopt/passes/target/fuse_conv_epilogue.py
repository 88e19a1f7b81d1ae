"""A convolution, its bias, a residual and a relu -> fused_conv2d_add_act, for kernels of oneDNN.

XLA computes the sum in a loop of its own after the convolution, and needs no such op. A kernel
adds while it has the result in registers.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Relu
from graphopt.ir.dialect.ops.conv import Conv2d
from graphopt.ir.dialect.ops.fused import FusedConv2dAddAct, FusedElemwiseAddActivation
from graphopt.ir.dialect.ops.math import Add
from graphopt.ir.dialect.types import UNKNOWN, rank_of, shape_of, show
from graphopt.passes.engine.fusion import Fusion, FusionPass, Match, Node, Reason, Value, wrong_attr

_KEPT = (
    *("strides", "paddings", "padding_algorithm", "dilations"),
    *("algorithm", "filter_format", "kernel"),
)


class _Epilogue(Fusion):
    """A convolution and its bias; subclasses add a residual, a relu or both."""

    convolution: Node
    bias: Value
    residual: Value | None = None
    has_relu = False

    def check(self, match: Match) -> Reason | None:
        convolution = match[self.convolution]
        if convolution.attr("data_format") != "NHWC":
            return wrong_attr(
                "channels-first", self.convolution, convolution, "data_format", "NHWC"
            )
        if convolution.attr("groups") != 1:
            return wrong_attr("in-groups", self.convolution, convolution, "groups", 1)
        out, bias = convolution.results[0], match.value(self.bias)
        if not _is_for_channels(bias, out):
            return Reason(
                "bias-shape",
                f"`bias` is {show(bias.type)}, not one number for each channel of {show(out.type)}",
                "none: the sum is not with a bias",
            )
        residual = None if self.residual is None else match.value(self.residual)
        if residual is not None and residual.type != out.type:
            return Reason(
                "residual-shape",
                f"`residual` is {show(residual.type)}, not {show(out.type)}",
                "none: the sum is not with a residual",
            )
        name, wanted = "functor_list", ("relu", "elementwise_add")
        if isinstance(match.root, FusedElemwiseAddActivation) and match.root.attr(name) != wanted:
            return wrong_attr("not-relu", self.root, match.root, name, wanted)
        return None

    def build(self, match: Match) -> PdOp:
        convolution = match[self.convolution]
        return FusedConv2dAddAct.make(
            *convolution.operands,
            match.value(self.bias),
            None if self.residual is None else match.value(self.residual),
            activation="relu" if self.has_relu else "none",
            **{name: convolution.attr(name) for name in _KEPT},
        )


def _is_for_channels(bias: SSAValue, out: SSAValue) -> bool:
    """True for a tensor that has one number for each of the last dimension of `out`."""
    *others, channels = shape_of(bias.type) or (0,)
    known = channels != UNKNOWN and channels == shape_of(out.type)[-1]
    return known and rank_of(bias.type) in (1, 4) and all(size == 1 for size in others)


class ReluOfResidual(_Epilogue):
    """relu(conv2d(x, w) + bias + residual)."""

    x, w, bias, residual = Value(), Value(), Value(), Value()
    convolution = Node(Conv2d, x, w)
    biased = Node(Add, convolution, bias, commutes=True)
    add = Node(Add, biased, residual, commutes=True)
    root = relu = Node(Relu, add)
    defining = (convolution,)
    has_relu = True


class FusedReluOfResidual(_Epilogue):
    """The pattern of ReluOfResidual after fuse-elewise-add-act has fused its last two ops."""

    x, w, bias, residual = Value(), Value(), Value(), Value()
    convolution = Node(Conv2d, x, w)
    biased = Node(Add, convolution, bias, commutes=True)
    root = fused = Node(FusedElemwiseAddActivation, biased, residual, commutes=True)
    defining = (convolution,)
    has_relu = True


class Residual(_Epilogue):
    """conv2d(x, w) + bias + residual."""

    x, w, bias, residual = Value(), Value(), Value(), Value()
    convolution = Node(Conv2d, x, w)
    biased = Node(Add, convolution, bias, commutes=True)
    root = add = Node(Add, biased, residual, commutes=True)
    defining = (convolution,)


class ReluOfBias(_Epilogue):
    """relu(conv2d(x, w) + bias)."""

    x, w, bias = Value(), Value(), Value()
    convolution = Node(Conv2d, x, w)
    biased = Node(Add, convolution, bias, commutes=True)
    root = relu = Node(Relu, biased)
    defining = (convolution,)
    has_relu = True


class FusedReluOfBias(_Epilogue):
    """The pattern of ReluOfBias after fuse-elewise-add-act has fused its last two ops."""

    x, w, bias = Value(), Value(), Value()
    convolution = Node(Conv2d, x, w)
    root = fused = Node(FusedElemwiseAddActivation, convolution, bias, commutes=True)
    defining = (convolution,)
    has_relu = True


class Bias(_Epilogue):
    """conv2d(x, w) + bias."""

    x, w, bias = Value(), Value(), Value()
    convolution = Node(Conv2d, x, w)
    root = biased = Node(Add, convolution, bias, commutes=True)
    defining = (convolution,)


@dataclass(frozen=True)
class FuseConvEpilogue(FusionPass):
    """Fuse convolutions with a bias, and with a residual and a relu where present."""

    name = "fuse-conv-epilogue"
    RULES = (
        *(ReluOfResidual(), FusedReluOfResidual(), Residual()),
        *(ReluOfBias(), FusedReluOfBias(), Bias()),
    )
