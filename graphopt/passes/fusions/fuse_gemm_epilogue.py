"""matmul + bias (+ activation) -> fused_gemm_epilogue.

A superset of Paddle's pattern: `static.nn.fc` (Paddle's mul) as well as linear layers, transposed
operands, any activation of one tensor, either operand order of the add, and no divisibility limits.
The bias must be a vector along the last axis, which Paddle does not check.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.fused import FusedGemmEpilogue
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add
from graphopt.ir.dialect.types import rank_of, shape_of, show
from graphopt.passes.engine.fusion import Fusion, FusionPass, Match, Node, Reason, Value
from graphopt.passes.fusions.activations import ACTIVATIONS, activation_attrs, activation_name


def check_linear(match: Match, matmul: Node, bias: Value) -> Reason | None:
    """Check that a matmul and an add are a linear layer."""
    product, vector = match[matmul], match.value(bias)
    if rank_of(product.operands[0].type) < 2 or rank_of(product.operands[1].type) != 2:
        found = " and ".join(show(operand.type) for operand in product.operands[:2])
        return Reason(
            "weight-not-matrix",
            f"`matmul` should multiply an input of rank 2 or more by a 2-D weight, found {found}",
            "multiply by a 2-D weight",
        )
    columns = shape_of(product.results[0].type)[-1]
    if shape_of(vector.type) != (columns,):
        return Reason(
            "bias-not-vector",
            f"`bias` should be 1-D of length {columns}, found {show(vector.type)}",
            f"reshape the bias to [{columns}]",
        )
    return None


class LinearActivation(Fusion):
    """activation(matmul(x, w) + bias)."""

    x, w, bias = Value(), Value(), Value("vector")
    matmul = Node(Matmul, x, w)
    add = Node(Add, matmul, bias, commutes=True)
    root = activation = Node(ACTIVATIONS, add)
    defining = (matmul,)

    def check(self, match: Match) -> Reason | None:
        return check_linear(match, self.matmul, self.bias)

    def build(self, match: Match) -> PdOp:
        activation = match[self.activation]
        return FusedGemmEpilogue.make(
            match.value(self.x),
            match.value(self.w),
            match.value(self.bias),
            activation=activation_name(activation),
            **match[self.matmul].attr_values(),
            **activation_attrs(activation, "approximate"),
        )


class Linear(Fusion):
    """matmul(x, w) + bias."""

    x, w, bias = Value(), Value(), Value("vector")
    matmul = Node(Matmul, x, w)
    root = add = Node(Add, matmul, bias, commutes=True)
    defining = (matmul,)

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
    """Fuse linear layers with their activations."""

    name = "fuse-gemm-epilogue"
    RULES = (LinearActivation(), Linear())
