"""Batch normalisation in inference becomes part of the layer before it.

With fixed statistics it multiplies each channel by a number and adds another, which the weights of
a convolution or a linear layer can do. The new weights are computed from the parameters inside the
program, so parameters stay as they are in the scope and in saved files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import BlockArgument, SSAValue

from graphopt.ir.op import PdOp
from graphopt.ir.ops.conv import Conv2d, Conv3d, DepthwiseConv2d
from graphopt.ir.ops.linear import Matmul
from graphopt.ir.ops.math import Add, Cast, Multiply, Rsqrt, Scale, Subtract
from graphopt.ir.ops.norm import BatchNorm, channel_axis
from graphopt.ir.ops.shape import Reshape
from graphopt.ir.types import dtype_of, rank_of, shape_of, show
from graphopt.passes.fusion import Fusion, FusionPass, Match, Node, Reason, Value
from graphopt.passes.numerics import Numerics

CONVOLUTIONS: tuple[type[PdOp], ...] = (Conv2d, DepthwiseConv2d, Conv3d)


class _Folded(Fusion):
    """A layer, maybe a bias, and a batch_norm. The layer's weight gets the factors."""

    layer: Node
    weight: Value
    bias: Value | None = None

    def check(self, match: Match) -> Reason | None:
        norm, layer = match[self.root], match[self.layer]
        assert isinstance(norm, BatchNorm)
        if not norm.keeps_statistics:
            return Reason(
                "training",
                "`batch_norm` takes its statistics from the batch",
                "clone the program with for_test=True",
            )
        if any(result.uses for result in norm.results[3:]):
            return Reason("statistics-read", "the saved statistics of `batch_norm` are read")
        weight = match.value(self.weight)
        if not isinstance(weight, BlockArgument):
            return Reason("weight-not-parameter", "the weight is computed, not a parameter")
        axis, rank = _channels(norm), rank_of(norm.operands[0].type)
        if isinstance(layer, Matmul) and (axis != rank - 1 or rank_of(weight.type) != 2):
            return Reason(
                "other-axis", f"the product's columns are axis {rank - 1}, the channels axis {axis}"
            )
        return self._check_bias(match, rank, axis)

    def _check_bias(self, match: Match, rank: int, axis: int) -> Reason | None:
        if self.bias is None:
            return None
        bias = match.value(self.bias)
        shape = (*(1,) * (rank - rank_of(bias.type)), *shape_of(bias.type))
        channels = shape_of(match[self.root].operands[0].type)[axis]
        if len(shape) != rank or any(
            dim != (channels if position == axis else 1) for position, dim in enumerate(shape)
        ):
            return Reason(
                "bias-not-per-channel",
                f"`bias` should have one number for each of {channels} channels, "
                f"found {show(bias.type)}",
            )
        return None

    def build(self, match: Match) -> PdOp:
        norm, layer = match[self.root], match[self.layer]
        x, mean, variance, scale, bias = (g[0] if g else None for g in norm.operand_groups())
        assert x is not None
        assert mean is not None
        assert variance is not None
        new = _Before(norm)
        factor = new(Rsqrt.make(new(Scale.make(variance, bias=norm.attr("epsilon")))))
        if scale is not None:
            factor = new(Multiply.make(factor, scale))
        shift = new(Multiply.make(mean, factor))
        if self.bias is not None:
            channels = shape_of(mean.type)[0]
            old = new(Reshape.make(match.value(self.bias), shape=[channels]))
            shift = new(Subtract.make(shift, new(Multiply.make(new.cast(old, mean), factor))))
        shift = new(Subtract.make(bias, shift)) if bias is not None else new.negative(shift)
        weight = match.value(self.weight)
        aligned = new.along(factor, rank_of(weight.type), _weight_axis(layer, weight))
        scaled = new(Multiply.make(new.cast(weight, factor), aligned))
        operands = (layer.operands[0], new.cast(scaled, weight))
        product = new(type(layer).make(*operands, **layer.attr_values()))
        added = new.along(shift, rank_of(x.type), _channels(norm))
        return Add.make(product, new.cast(added, product))

    def results(self, match: Match, fused: PdOp) -> Mapping[SSAValue, SSAValue]:
        norm = match[self.root]
        _, mean, variance = norm.operands[:3]
        return {
            norm.results[0]: fused.results[0],
            norm.results[1]: mean,
            norm.results[2]: variance,
        }


def _channels(norm: PdOp) -> int:
    return channel_axis(rank_of(norm.operands[0].type), norm.attr("data_format"))


def _weight_axis(layer: PdOp, weight: SSAValue) -> int:
    """The axis of the weight that makes the channels of the result."""
    if isinstance(layer, Matmul):
        return 0 if layer.attr("transpose_y") else rank_of(weight.type) - 1
    return 0


class _Before:
    """Puts ops in front of another one; gives their first results."""

    def __init__(self, op: PdOp) -> None:
        self.op = op

    def __call__(self, op: PdOp) -> SSAValue:
        assert self.op.parent is not None
        op.location = self.op.location
        self.op.parent.insert_op_before(op, self.op)
        return op.results[0]

    def cast(self, value: SSAValue, like: SSAValue) -> SSAValue:
        """The value in the dtype of another."""
        dtype = dtype_of(like.type)
        return value if dtype_of(value.type) == dtype else self(Cast.make(value, dtype=dtype))

    def negative(self, value: SSAValue) -> SSAValue:
        """The value with the other sign."""
        return self(Scale.make(value, scale=-1.0))

    def along(self, vector: SSAValue, rank: int, axis: int) -> SSAValue:
        """A vector along one axis of a tensor of this rank."""
        if axis == rank - 1:
            return vector
        length = shape_of(vector.type)[0]
        shape = [length if position == axis else 1 for position in range(rank)]
        return self(Reshape.make(vector, shape=shape))


class ConvolutionNorm(_Folded):
    """batch_norm(conv(x, w))."""

    x, weight = Value(), Value()
    layer = Node(CONVOLUTIONS, x, weight)
    root = batch_norm = Node(BatchNorm, layer)


class ConvolutionBiasNorm(_Folded):
    """batch_norm(conv(x, w) + bias)."""

    x, weight, bias = Value(), Value(), Value()
    layer = Node(CONVOLUTIONS, x, weight)
    add = Node(Add, layer, bias, commutes=True)
    root = batch_norm = Node(BatchNorm, add)


class LinearNorm(_Folded):
    """batch_norm(matmul(x, w))."""

    x, weight = Value(), Value()
    layer = Node(Matmul, x, weight)
    root = batch_norm = Node(BatchNorm, layer)


class LinearBiasNorm(_Folded):
    """batch_norm(matmul(x, w) + bias)."""

    x, weight, bias = Value(), Value(), Value("vector")
    layer = Node(Matmul, x, weight)
    add = Node(Add, layer, bias, commutes=True)
    root = batch_norm = Node(BatchNorm, add)


@dataclass(frozen=True)
class FoldBatchNorm(FusionPass):
    """Batch norms with fixed statistics into the convolutions and linear layers before them."""

    name = "fold-batch-norm"
    RULES = (ConvolutionBiasNorm(), ConvolutionNorm(), LinearBiasNorm(), LinearNorm())
    numerics = Numerics.REASSOCIATING
