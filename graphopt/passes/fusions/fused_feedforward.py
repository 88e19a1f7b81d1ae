"""linear + activation + linear, with dropouts, residual and layer norm -> fused_feedforward.

A superset of Paddle's pattern: any activation of one tensor; each of the dropouts, the residual,
the biases and the norm (before or after) may be missing, though not all of them; the residual may
be added from either side, and the dropouts keep their seeds.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import Add
from graphopt.ir.dialect.ops.norm import LayerNorm
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.transformer import FusedFeedforward
from graphopt.passes.engine.fusion import Fusion, FusionPass, Match, Node, Reason, Value
from graphopt.passes.engine.inserting import Before
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.fusions.activations import ACTIVATIONS, activation_attrs, activation_name
from graphopt.passes.fusions.transformer_parts import (
    LinearPart,
    check_dropouts,
    check_norm,
    check_residual,
    draw_attrs,
    dropout_attrs,
    norm_attrs,
    norm_vectors,
)


class FeedForward(Fusion):
    """x + dropout2(linear2(dropout1(act(linear1(x))))), with the norm in front, after or nowhere.

    The norm is required at the place that `norm` names; the pattern without a norm is "none".
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
        self.defining = (self.linear1.matmul, self.linear2.matmul)

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
        """Decline two bare linear layers, as often the end of a network as half a layer."""
        around = (self.pre, self.dropout1, self.dropout2, self.residual, self.post)
        if any(match.get(node) is not None for node in around):
            return None
        if self._is_branch(match):
            return None
        return Reason(
            "bare-layers",
            "the two linear layers have no norm, dropout or residual around them",
            "switch on fuse_gemm_epilogue, which fuses the layers one by one",
        )

    def _is_branch(self, match: Match) -> bool:
        """True when the result is added to another value of its shape, a residual from elsewhere.

        This is so when the norm in front is written with other ops than a layer norm.
        """
        out = match.root.results[0]
        readers = [use.operation for use in out.uses]
        return (
            len(readers) == 1
            and type(readers[0]) is Add
            and all(operand.type == out.type for operand in readers[0].operands)
        )

    def _norm(self, match: Match) -> PdOp | None:
        return match.get(self.pre) or match.get(self.post)

    def build(self, match: Match) -> PdOp:
        act, norm, before = match[self.activation], self._norm(match), Before(match.root)
        return FusedFeedforward.make(
            match.value(self.x),
            self.linear1.weight_in(match, before),
            self.linear1.bias_in(match),
            self.linear2.weight_in(match, before),
            self.linear2.bias_in(match),
            *norm_vectors(norm),
            act_method=activation_name(act),
            **activation_attrs(act),
            add_residual=match.get(self.residual) is not None,
            **norm_attrs(norm, self.where),
            **dropout_attrs(match.get(self.dropout1), "dropout1_rate", "dropout1_implementation"),
            **dropout_attrs(match.get(self.dropout2), "dropout2_rate", "dropout2_implementation"),
            **draw_attrs(match, self.dropout1, self.dropout2),
        )


@dataclass(frozen=True)
class FuseFeedForward(FusionPass):
    """Fuse the position-wise half of a Transformer layer."""

    name = "fused-feedforward"
    numerics = Numerics.REASSOCIATING
    RULES = (FeedForward("post"), FeedForward("pre"), FeedForward("none"))
