"""Activations: one floating-point tensor in, one of the same type out."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition

from graphopt.ir.attrs import flag, integer, number
from graphopt.ir.ops.base import FloatUnary
from graphopt.ir.types import Tensor, normalize_axis, rank_of


@irdl_op_definition
class Relu(FloatUnary):
    """max(x, 0). Paddle: relu."""

    name = "pd.relu"


@irdl_op_definition
class Relu6(FloatUnary):
    """min(max(x, 0), 6). Paddle: relu6."""

    name = "pd.relu6"


@irdl_op_definition
class Gelu(FloatUnary):
    """x * Phi(x), exactly or by the tanh formula. Paddle: gelu."""

    name = "pd.gelu"
    approximate = flag(False)


@irdl_op_definition
class Sigmoid(FloatUnary):
    """1 / (1 + exp(-x)). Paddle: sigmoid."""

    name = "pd.sigmoid"


@irdl_op_definition
class Silu(FloatUnary):
    """x * sigmoid(x). Paddle: silu, and swish with beta 1."""

    name = "pd.silu"


@irdl_op_definition
class Tanh(FloatUnary):
    """Hyperbolic tangent. Paddle: tanh."""

    name = "pd.tanh"


@irdl_op_definition
class Hardsigmoid(FloatUnary):
    """min(max(slope * x + offset, 0), 1). Paddle: hard_sigmoid."""

    name = "pd.hardsigmoid"
    slope = number(0.2)
    offset = number(0.5)


@irdl_op_definition
class Hardswish(FloatUnary):
    """x * relu6(x + 3) / 6. Paddle: hard_swish."""

    name = "pd.hardswish"


@irdl_op_definition
class LeakyRelu(FloatUnary):
    """x where positive, negative_slope * x elsewhere. Paddle: leaky_relu."""

    name = "pd.leaky_relu"
    negative_slope = number(0.02)


class AlongAxis(FloatUnary):
    """A normalisation along one axis; the result has the operand's type."""

    axis = integer(-1)

    @staticmethod
    def infer(x: Tensor, axis: int = -1) -> Tensor:
        if rank_of(x):
            normalize_axis(axis, rank_of(x))
        return FloatUnary.infer(x)


@irdl_op_definition
class Softmax(AlongAxis):
    """exp(x) divided by its sum along `axis`. Paddle: softmax."""

    name = "pd.softmax"


@irdl_op_definition
class LogSoftmax(AlongAxis):
    """log(softmax(x)) along `axis`. Paddle: log_softmax."""

    name = "pd.log_softmax"
