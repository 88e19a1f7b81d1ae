"""Activations: floating-point tensors in, one floating-point tensor out."""

from __future__ import annotations

from abc import ABC
from functools import partial

from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, number, string
from graphopt.ir.dialect.ops.base import FloatUnary, OneTensor, OpaqueOp, PureOp, declare
from graphopt.ir.dialect.traits import AlongAxis, Rowwise
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Shape,
    Tensor,
    like,
    normalize_axis,
    product,
    rank_of,
    same_dtype,
    shape_of,
)

elementwise = partial(declare, __name__)


Relu = elementwise(FloatUnary, "relu", "max(x, 0).")
Relu6 = elementwise(FloatUnary, "relu6", "min(max(x, 0), 6).")


@irdl_op_definition
class Gelu(FloatUnary):
    """x * Phi(x), exactly or by the tanh formula. Paddle: gelu."""

    name = "pd.gelu"
    approximate = flag(False)


Sigmoid = elementwise(FloatUnary, "sigmoid", "1 / (1 + exp(-x)).")
Silu = elementwise(FloatUnary, "silu", "x * sigmoid(x).", paddle="silu, and swish with beta 1")
Tanh = elementwise(FloatUnary, "tanh", "Hyperbolic tangent.")


@irdl_op_definition
class Hardsigmoid(FloatUnary):
    """min(max(slope * x + offset, 0), 1). Paddle: hard_sigmoid."""

    name = "pd.hardsigmoid"
    slope = number(0.2)
    offset = number(0.5)


Hardswish = elementwise(FloatUnary, "hardswish", "x * relu6(x + 3) / 6.", paddle="hard_swish")


@irdl_op_definition
class LeakyRelu(FloatUnary):
    """x where positive, negative_slope * x elsewhere. Paddle: leaky_relu."""

    name = "pd.leaky_relu"
    negative_slope = number(0.02)


@irdl_op_definition
class Elu(FloatUnary):
    """x where positive, alpha * (exp(x) - 1) elsewhere. Paddle: elu."""

    name = "pd.elu"
    alpha = number(1.0)


@irdl_op_definition
class Selu(FloatUnary):
    """scale * elu(x, alpha). Paddle: selu."""

    name = "pd.selu"
    scale = number(1.0507009873554805)
    alpha = number(1.6732632423543772)


@irdl_op_definition
class Celu(FloatUnary):
    """x where positive, alpha * (exp(x / alpha) - 1) elsewhere. Paddle: celu."""

    name = "pd.celu"
    alpha = number(1.0)


@irdl_op_definition
class Softplus(FloatUnary):
    """log(1 + exp(beta * x)) / beta; x where beta * x is above the threshold. Paddle: softplus."""

    name = "pd.softplus"
    beta = number(1.0)
    threshold = number(20.0)


Softsign = elementwise(FloatUnary, "softsign", "x / (1 + |x|).")


@irdl_op_definition
class Softshrink(FloatUnary):
    """x moved towards 0 by the threshold, 0 within it. Paddle: softshrink."""

    name = "pd.softshrink"
    threshold = number(0.5)


@irdl_op_definition
class Hardshrink(FloatUnary):
    """x, but 0 within the threshold. Paddle: hard_shrink."""

    name = "pd.hardshrink"
    threshold = number(0.5)


@irdl_op_definition
class Hardtanh(FloatUnary):
    """x kept in [t_min, t_max]. Paddle: brelu."""

    name = "pd.hardtanh"
    t_min = number(0.0)
    t_max = number(24.0)


Tanhshrink = elementwise(FloatUnary, "tanhshrink", "x - tanh(x).", paddle="tanh_shrink")
LogSigmoid = elementwise(FloatUnary, "log_sigmoid", "log(1 / (1 + exp(-x))).", paddle="logsigmoid")
Mish = elementwise(FloatUnary, "mish", "x * tanh(softplus(x)).")


@irdl_op_definition
class Swish(FloatUnary):
    """x * sigmoid(beta * x). Paddle: swish."""

    name = "pd.swish"
    beta = number(1.0)


@irdl_op_definition
class ThresholdedRelu(FloatUnary):
    """x above the threshold, `value` elsewhere. Paddle: thresholded_relu."""

    name = "pd.thresholded_relu"
    threshold = number(1.0)
    value = number(0.0)


@irdl_op_definition
class Prelu(PureOp):
    """x where positive, alpha * x elsewhere; one alpha, one per channel or element. Paddle: prelu.

    `mode` is `all`, `channel` (axis 1, or the last when `data_format` is NHWC) or `element`.
    """

    name = "pd.prelu"
    traits = traits_def(Rowwise())
    x = operand_def(TENSOR)
    alpha = operand_def(TENSOR)
    out = result_def(TENSOR)
    mode = string("all", of=("all", "channel", "element"))
    data_format = string("NCHW", of=("NCHW", "NHWC"))

    @staticmethod
    def infer(x: Tensor, alpha: Tensor, mode: str, data_format: str) -> Tensor:
        same_dtype(x, alpha)
        wanted = prelu_alpha_shape(shape_of(x), mode, data_format)
        count, have = product(wanted), product(shape_of(alpha))
        if UNKNOWN not in (count, have) and count != have:
            raise ProgramError(f"alpha should have {count} elements for mode '{mode}'")
        return FloatUnary.infer(x)


def prelu_alpha_shape(shape: Shape, mode: str, data_format: str) -> Shape:
    """Compute the shape in which the alpha of a prelu broadcasts against x."""
    if mode == "element":
        return (1, *shape[1:])
    if mode == "channel":
        channel = len(shape) - 1 if data_format == "NHWC" else 1
        if len(shape) < 2:
            raise ProgramError("a prelu by channel needs a tensor of rank 2 or more")
        return tuple(dim if i == channel else 1 for i, dim in enumerate(shape))
    if mode != "all":
        raise ProgramError(f"mode should be all, channel or element, found '{mode}'")
    return (1,) * len(shape)


@irdl_op_definition
class Maxout(OneTensor, OpaqueOp):
    """The largest of every `groups` neighbors along an axis. Paddle: maxout."""

    name = "pd.maxout"
    groups = integer()
    axis = integer(1)

    @staticmethod
    def infer(x: Tensor, groups: int, axis: int) -> Tensor:
        shape = list(shape_of(FloatUnary.infer(x)))
        at = normalize_axis(axis, len(shape))
        if groups < 2 or (shape[at] != UNKNOWN and shape[at] % groups):
            raise ProgramError(f"axis {axis} of size {shape[at]} does not split into {groups}")
        shape[at] = UNKNOWN if shape[at] == UNKNOWN else shape[at] // groups
        return like(x, shape=shape)


class SoftmaxBase(OneTensor, PureOp, ABC):
    """A normalization along one axis; the result has the operand's type."""

    traits = traits_def(AlongAxis())
    axis = integer(-1)

    @staticmethod
    def infer(x: Tensor, axis: int = -1) -> Tensor:
        normalize_axis(axis, max(rank_of(x), 1))
        return FloatUnary.infer(x)


@irdl_op_definition
class Softmax(SoftmaxBase):
    """exp(x) divided by its sum along `axis`. Paddle: softmax."""

    name = "pd.softmax"


@irdl_op_definition
class LogSoftmax(SoftmaxBase):
    """log(softmax(x)) along `axis`. Paddle: log_softmax."""

    name = "pd.log_softmax"
