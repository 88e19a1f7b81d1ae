"""add and activation, in either order -> fused_elemwise_add_activation.

`functor_list` is [outer, inner] as in Paddle. A `scale` joins only without a bias: Paddle's fused
kernel drops the bias and computes wrong numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.fused import FusedElemwiseAddActivation
from graphopt.ir.dialect.ops.math import Add, Scale
from graphopt.ir.dialect.types import dtype_of
from graphopt.passes.engine.fusion import (
    Fusion,
    FusionPass,
    Match,
    Node,
    Reason,
    Value,
    wrong_attr,
)
from graphopt.passes.fusions.activations import ACTIVATIONS, activation_attrs, activation_name

JOINED: tuple[type[PdOp], ...] = (Scale, *ACTIVATIONS)


def check_activation(node: Node, op: PdOp) -> Reason | None:
    """Check that an op can be the activation of a fused add."""
    if isinstance(op, Scale):
        if op.attr("bias") != 0:
            return wrong_attr("scale-has-bias", node, op, "bias", 0.0)
        if not dtype_of(op.results[0].type).is_floating:
            return Reason(
                "scale-of-integers",
                f"`{node.name}` scales integers, for which its factor is rounded",
                "cast to a floating-point type before the pattern",
            )
    return None


def functor(op: PdOp) -> tuple[str, dict[str, Any]]:
    """Return the name of an activation in `functor_list`, and its properties in the fused op."""
    if isinstance(op, Scale):
        return "scale", {"scale": op.attr("scale")}
    return activation_name(op), dict(activation_attrs(op, "approximate"))


class ActivationOfAdd(Fusion):
    """activation(x + y)."""

    x, y = Value(), Value()
    add = Node(Add, x, y)
    root = activation = Node(JOINED, add)
    defining = (add, activation)

    def check(self, match: Match) -> Reason | None:
        return check_activation(self.activation, match[self.activation])

    def build(self, match: Match) -> PdOp:
        return _join(self, match, 0)


class AddOfActivation(Fusion):
    """x + activation(y); the activation's operand becomes the second one."""

    x, y = Value(), Value()
    activation = Node(JOINED, y)
    root = add = Node(Add, x, activation, commutes=True)
    defining = (add, activation)

    def check(self, match: Match) -> Reason | None:
        return check_activation(self.activation, match[self.activation])

    def build(self, match: Match) -> PdOp:
        return _join(self, match, 1)


def _join(fusion: ActivationOfAdd | AddOfActivation, match: Match, at: int) -> PdOp:
    """Build the fused op, with the activation `at` this place of its functors."""
    name, attrs = functor(match[fusion.activation])
    functors = ["elementwise_add"]
    functors.insert(at, name)
    operands = match.value(fusion.x), match.value(fusion.y)
    return FusedElemwiseAddActivation.make(*operands, functor_list=functors, **attrs)


@dataclass(frozen=True)
class FuseElewiseAddAct(FusionPass):
    """Fuse adds with the activation before or after them."""

    name = "fuse-elewise-add-act"
    RULES = (ActivationOfAdd(), AddOfActivation())
