"""matmul + bias (+ activation) -> fused_gemm_epilogue.

A superset of Paddle's pattern: `static.nn.fc` (Paddle's mul) as well as linear layers, transposed
operands, any activation without properties and both forms of gelu, either operand order of the
add, and no divisibility limits. The bias must be a vector along the last axis, which Paddle does
not check.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphopt.ir.op import PdOp
from graphopt.ir.ops.activation import Gelu, Relu, Relu6, Sigmoid, Silu, Tanh
from graphopt.ir.ops.fused import FusedGemmEpilogue
from graphopt.ir.ops.linear import Matmul
from graphopt.ir.ops.math import Add
from graphopt.ir.types import rank_of, shape_of, show
from graphopt.passes.fusion import Fusion, FusionPass, Match, Node, Reason, Value

ACTIVATIONS: tuple[type[PdOp], ...] = (Relu, Gelu, Relu6, Sigmoid, Silu, Tanh)


def check_linear(match: Match, matmul: Node, bias: Value) -> Reason | None:
    """Why a matmul and an add are not a linear layer, None when they are."""
    product, vector = match[matmul], match.value(bias)
    if rank_of(product.operands[0].type) < 2 or rank_of(product.operands[1].type) != 2:
        return Reason("weight-not-matrix", "the weight must be 2-D and the input 2-D or more")
    columns = shape_of(product.results[0].type)[-1]
    if shape_of(vector.type) != (columns,):
        return Reason(
            "bias-not-vector",
            f"`bias` should be 1-D of length {columns}, found {show(vector.type)}",
        )
    return None


class LinearActivation(Fusion):
    """activation(matmul(x, w) + bias)."""

    x, w, bias = Value(), Value(), Value("vector")
    matmul = Node(Matmul, x, w)
    add = Node(Add, matmul, bias, commutes=True)
    root = activation = Node(ACTIVATIONS, add)

    def check(self, match: Match) -> Reason | None:
        return check_linear(match, self.matmul, self.bias)

    def build(self, match: Match) -> PdOp:
        activation = match[self.activation]
        return FusedGemmEpilogue.make(
            match.value(self.x),
            match.value(self.w),
            match.value(self.bias),
            activation=activation.name.removeprefix("pd."),
            **match[self.matmul].attr_values(),
            **activation.attr_values(),
        )


class Linear(Fusion):
    """matmul(x, w) + bias."""

    x, w, bias = Value(), Value(), Value("vector")
    matmul = Node(Matmul, x, w)
    root = add = Node(Add, matmul, bias, commutes=True)

    def check(self, match: Match) -> Reason | None:
        return check_linear(match, self.matmul, self.bias)

    def build(self, match: Match) -> PdOp:
        return FusedGemmEpilogue.make(
            match.value(self.x),
            match.value(self.w),
            match.value(self.bias),
            **match[self.matmul].attr_values(),
        )


@dataclass(frozen=True)
class FuseGemmEpilogue(FusionPass):
    """Linear layers with their activations."""

    name = "fuse-gemm-epilogue"
    RULES = (LinearActivation(), Linear())
