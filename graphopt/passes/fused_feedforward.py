"""linear + activation + linear, with dropouts, residual and layer norm -> fused_feedforward.

A superset of Paddle's pattern: any activation of one tensor; each of the dropouts, the residual,
the biases and the norm (before or behind) may be missing, though not all of them; the residual may
be added from either side, and the dropouts keep their seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphopt.ir.op import PdOp, default_attrs
from graphopt.ir.ops import activation
from graphopt.ir.ops.activation import AlongAxis
from graphopt.ir.ops.base import FloatUnary
from graphopt.ir.ops.math import Add
from graphopt.ir.ops.norm import LayerNorm
from graphopt.ir.ops.random import Dropout
from graphopt.ir.ops.transformer import FusedFeedforward
from graphopt.passes.fusion import Fusion, FusionPass, Match, Node, Reason, Value
from graphopt.passes.numerics import Numerics
from graphopt.passes.transformer_parts import (
    LinearPart,
    check_dropouts,
    check_norm,
    check_residual,
    draw_attrs,
    dropout_attrs,
    norm_attrs,
    norm_vectors,
)

ACTIVATIONS: tuple[type[PdOp], ...] = tuple(
    op
    for op in vars(activation).values()
    if isinstance(op, type)
    and issubclass(op, FloatUnary)
    and "name" in vars(op)
    and not issubclass(op, AlongAxis)
)


class FeedForward(Fusion):
    """x + dropout2(linear2(dropout1(act(linear1(x))))), with the norm in front, behind or nowhere.

    The norm is required where `norm` says; without it this is the picture for "none".
    """

    def __init__(self, norm: str) -> None:
        self.where = norm
        self.x = Value("full", name="x")
        self.pre = Node(LayerNorm, self.x, name="norm")
        self.linear1 = LinearPart("linear1", self.pre if norm == "pre" else self.x)
        self.activation = Node(ACTIVATIONS, self.linear1.add, name="activation")
        self.dropout1 = Node(Dropout, self.activation, optional=True, name="dropout1")
        self.linear2 = LinearPart("linear2", self.dropout1)
        self.dropout2 = Node(Dropout, self.linear2.add, optional=True, name="dropout2")
        self.residual = Node(
            Add, self.dropout2, self.x, commutes=True, optional=True, name="residual"
        )
        self.post = Node(LayerNorm, self.residual, name="norm")
        self.root = self.post if norm == "post" else self.residual

    def check(self, match: Match) -> Reason | None:
        return (
            self.linear1.check(match)
            or self.linear2.check(match)
            or check_norm(self._norm(match))
            or check_residual(match, self.residual, self.x, self.linear2.out(match))
            or check_dropouts(match, self.dropout1, self.dropout2)
            or self._check_surroundings(match)
        )

    def _check_surroundings(self, match: Match) -> Reason | None:
        """Two linear layers alone are an end of a network as often as half of a layer."""
        around = (self.pre, self.dropout1, self.dropout2, self.residual, self.post)
        if any(match.get(node) is not None for node in around):
            return None
        return Reason(
            "bare-layers",
            "without norm, dropout and residual these are two linear layers; fuse_gemm_epilogue "
            "takes them",
        )

    def _norm(self, match: Match) -> PdOp | None:
        return match.get(self.pre) or match.get(self.post)

    def build(self, match: Match) -> PdOp:
        act, norm = match[self.activation], self._norm(match)
        defaults = default_attrs(type(act))
        changed = {
            name: act.properties[name] for name in defaults if act.attr(name) != defaults[name]
        }
        return FusedFeedforward.make(
            match.value(self.x),
            match.value(self.linear1.weight),
            self.linear1.bias_in(match),
            match.value(self.linear2.weight),
            self.linear2.bias_in(match),
            *norm_vectors(norm),
            act_method=act.name.removeprefix("pd."),
            act_attrs=changed,
            add_residual=match.get(self.residual) is not None,
            **norm_attrs(norm, self.where),
            **dropout_attrs(match.get(self.dropout1), "dropout1_rate", "dropout1_implementation"),
            **dropout_attrs(match.get(self.dropout2), "dropout2_rate", "dropout2_implementation"),
            **draw_attrs(match, self.dropout1, self.dropout2),
        )


@dataclass(frozen=True)
class FuseFeedForward(FusionPass):
    """The position-wise half of a Transformer layer."""

    name = "fused-feedforward"
    numerics = Numerics.REASSOCIATING
    RULES = (FeedForward("post"), FeedForward("pre"), FeedForward("none"))
