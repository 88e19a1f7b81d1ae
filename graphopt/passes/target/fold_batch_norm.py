"""Batch normalization in inference becomes part of the layer before it.

With fixed statistics it multiplies each channel by a number and adds another, which the weights of
a convolution or a linear layer can do. The new weights are computed from the parameters inside the
program, so parameters do not change in the scope and in saved files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import BlockArgument, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.conv import (
    Conv2d,
    Conv2dTranspose,
    Conv3d,
    Conv3dTranspose,
    ConvTransposeBase,
    DepthwiseConv2d,
)
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add, Multiply, Rsqrt, Scale, Subtract
from graphopt.ir.dialect.ops.norm import BatchNorm, channel_axis
from graphopt.ir.dialect.ops.shape import Reshape
from graphopt.ir.dialect.types import rank_of, shape_of, show
from graphopt.passes.engine.fusion import Fusion, FusionPass, Match, Node, Reason, Value
from graphopt.passes.engine.inserting import Before
from graphopt.passes.engine.numerics import Numerics

CONVOLUTIONS: tuple[type[PdOp], ...] = (
    Conv2d,
    DepthwiseConv2d,
    Conv3d,
    Conv2dTranspose,
    Conv3dTranspose,
)


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
                "`batch_norm` takes its statistics from the batch: is_test = "
                f"{norm.attr('is_test')}, trainable_statistics = "
                f"{norm.attr('trainable_statistics')}, use_global_stats = "
                f"{norm.attr('use_global_stats')}",
                "clone the program with for_test=True",
            )
        if any(result.uses for result in norm.results[3:]):
            return Reason(
                "statistics-read",
                "another op or a fetch reads the saved statistics of `batch_norm`",
                "do not fetch or read the saved statistics in inference",
            )
        weight = match.value(self.weight)
        if not isinstance(weight, BlockArgument):
            return Reason(
                "weight-not-parameter",
                "`weight` is a computed value, not a parameter",
                "store the computed value in a parameter",
            )
        axis, rank = _channels(norm), rank_of(norm.operands[0].type)
        if isinstance(layer, Matmul) and rank_of(weight.type) != 2:
            return Reason(
                "weight-not-matrix",
                f"`weight` should be 2-D, found {show(weight.type)}",
                "multiply by a 2-D weight",
            )
        made = _made_axis(layer, rank)
        if axis != made:
            formats = sorted({norm.attr("data_format"), layer.attr_values().get("data_format", "")})
            return Reason(
                "other-axis",
                f"the channels are axis {made} for `layer` and axis {axis} for `batch_norm` "
                f"(data_format {', '.join(filter(None, formats))})",
                "give `layer` and `batch_norm` the same data_format"
                if not isinstance(layer, Matmul)
                else "let `batch_norm` normalize the last axis",
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
                "reshape the bias to one number for each channel",
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
        scaled = _scale_weight(new, layer, new.cast(weight, factor), factor)
        operands = (layer.operands[0], new.cast(scaled, weight))
        product = new(type(layer).make(*operands, **layer.attr_values()))
        product.name_hint = layer.results[0].name_hint
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


def _made_axis(layer: PdOp, rank: int) -> int:
    """Return the axis of the result along which the layer's weight makes channels."""
    return rank - 1 if isinstance(layer, Matmul) else channel_axis(rank, layer.attr("data_format"))


def _scale_weight(new: _Before, layer: PdOp, weight: SSAValue, factor: SSAValue) -> SSAValue:
    """Multiply each part of the weight by the factor of the channel that it makes."""
    shape = shape_of(weight.type)
    if isinstance(layer, ConvTransposeBase):  # filters are [in, out / groups, ...]
        groups, (into, out, *kernel) = layer.attr("groups"), shape
        if groups == 1:
            return new(Multiply.make(weight, new.along(factor, len(shape), 1)))
        parted = (groups, into // groups, out, *kernel)
        factors = (groups, 1, out, *(1 for _ in kernel))
        product = Multiply.make(
            new(Reshape.make(weight, shape=parted)), new(Reshape.make(factor, shape=factors))
        )
        return new(Reshape.make(new(product), shape=shape))
    columns = isinstance(layer, Matmul) and not layer.attr("transpose_y")
    return new(
        Multiply.make(weight, new.along(factor, len(shape), len(shape) - 1 if columns else 0))
    )


class _Before(Before):
    """Arithmetic on weights."""

    def negative(self, value: SSAValue) -> SSAValue:
        """Negate a value."""
        return self(Scale.make(value, scale=-1.0))

    def along(self, vector: SSAValue, rank: int, axis: int) -> SSAValue:
        """Reshape a vector to one axis of a tensor of this rank."""
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
    defining = (batch_norm,)


class ConvolutionBiasNorm(_Folded):
    """batch_norm(conv(x, w) + bias)."""

    x, weight, bias = Value(), Value(), Value()
    layer = Node(CONVOLUTIONS, x, weight)
    add = Node(Add, layer, bias, commutes=True)
    root = batch_norm = Node(BatchNorm, add)
    defining = (batch_norm,)


class LinearNorm(_Folded):
    """batch_norm(matmul(x, w))."""

    x, weight = Value(), Value()
    layer = Node(Matmul, x, weight)
    root = batch_norm = Node(BatchNorm, layer)
    defining = (batch_norm,)


class LinearBiasNorm(_Folded):
    """batch_norm(matmul(x, w) + bias)."""

    x, weight, bias = Value(), Value(), Value("vector")
    layer = Node(Matmul, x, weight)
    add = Node(Add, layer, bias, commutes=True)
    root = batch_norm = Node(BatchNorm, add)
    defining = (batch_norm,)


@dataclass(frozen=True)
class FoldBatchNorm(FusionPass):
    """Fold batch norms with fixed statistics into convolutions and linear layers before them."""

    name = "fold-batch-norm"
    RULES = (ConvolutionBiasNorm(), ConvolutionNorm(), LinearBiasNorm(), LinearNorm())
    numerics = Numerics.REASSOCIATING
