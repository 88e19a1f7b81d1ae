"""softmax(scale * q k^T + mask) v -> fused_dot_product_attention.

A superset of Paddle's pattern: any float dtype and rank, the scale before or behind the product
and as a scale, a multiplication or a division, an additive or a boolean mask or none, dropout or
none. The fused op never holds all scores when sequences are long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.ir import SSAValue

from graphopt.ir.op import PdOp
from graphopt.ir.ops.activation import Softmax
from graphopt.ir.ops.linear import Matmul
from graphopt.ir.ops.math import Add, Where
from graphopt.ir.ops.random import Dropout
from graphopt.ir.ops.shape import Transpose
from graphopt.ir.ops.transformer import FusedDotProductAttention
from graphopt.ir.types import compatible, rank_of, show
from graphopt.passes.fusion import Fusion, FusionPass, Hole, Match, Node, Reason, Value
from graphopt.passes.numerics import Numerics
from graphopt.passes.transformer_parts import (
    ScaledPart,
    constant,
    draw_attrs,
    dropout_attrs,
)


class Core:
    """The picture between q, k, v and the weighted sum."""

    def __init__(self, q: Hole, k: Hole, v: Hole, *, swaps_keys: bool = False) -> None:
        self.mask, self.seen, self.fill = Value(name="mask"), Value(name="mask"), Value(name="fill")
        if swaps_keys:
            k = Node(Transpose, k, optional=True, name="transposed_k")
        self.scaled_q, self.scaled_k = ScaledPart("scaled_q", q), ScaledPart("scaled_k", k)
        self.product = Node(Matmul, self.scaled_q.top, self.scaled_k.top, name="scores")
        self.scaled = ScaledPart("scaled_scores", self.product)
        self.hidden = Node(
            Where, self.seen, self.scaled.top, self.fill, optional=True, name="hidden_scores"
        )
        self.masked = Node(
            Add, self.hidden, self.mask, commutes=True, optional=True, name="masked_scores"
        )
        self.softmax = Node(Softmax, self.masked, name="softmax")
        self.dropout = Node(Dropout, self.softmax, optional=True, name="attention_dropout")
        self.out = Node(Matmul, self.dropout, v, name="weighted_sum")

    def check(self, match: Match) -> Reason | None:
        """Why this is not attention, apart from how q, k and v are laid out."""
        softmax, out = match[self.softmax], match[self.out]
        rank = rank_of(softmax.results[0].type)
        if softmax.attr("axis") not in (-1, rank - 1):
            return Reason(
                "softmax-axis",
                f"`softmax` should be along the keys, the last axis, not {softmax.attr('axis')}",
            )
        if match[self.product].attr("transpose_x") or any(
            out.attr(name) for name in ("transpose_x", "transpose_y")
        ):
            return Reason("product-transposed", "`scores` or `weighted_sum` transposes an operand")
        for part in (self.scaled_q, self.scaled_k, self.scaled):
            reason = part.check(match)
            if reason is not None:
                return reason
        return self._check_mask(match)

    def _check_mask(self, match: Match) -> Reason | None:
        masked, hidden = match.get(self.masked), match.get(self.hidden)
        if masked is not None and hidden is not None:
            return Reason("two-masks", "the scores have a boolean mask and another one added")
        scores = match[self.product].results[0].type
        for op in (masked, hidden):
            if op is not None and not _same_shape(op, scores):
                return Reason(
                    "mask-shape",
                    f"`mask` should broadcast to the scores {show(scores)}, but makes them "
                    f"{show(op.results[0].type)}",
                )
        if hidden is not None and constant(match.value(self.fill)) is None:
            return Reason("fill-not-constant", "`fill` should be one number that the program fixes")
        return None

    def mask_in(self, match: Match) -> SSAValue | None:
        """The mask, boolean or additive, None when there is none."""
        if match.get(self.hidden):
            return match.value(self.seen)
        return match.value(self.mask) if match.get(self.masked) else None

    def attrs(self, match: Match) -> Mapping[str, Any]:
        """The properties of the fused ops for what is between the products."""
        parts = (self.scaled_q, self.scaled_k, self.scaled)
        factor = 1.0
        for part in parts:
            factor *= part.factor(match)
        attrs: dict[str, Any] = {"scaling_factor": factor}
        if match.get(self.hidden):
            attrs["fill"] = constant(match.value(self.fill))
        return attrs


def _same_shape(op: PdOp, scores: Any) -> bool:
    out = op.results[0].type
    return rank_of(out) == rank_of(scores) and compatible(out, scores)


class DotProductAttention(Fusion):
    """The core alone, on q [..., t, d], k [..., s, d] or [..., d, s] and v [..., s, e]."""

    def __init__(self) -> None:
        self.q, self.k, self.v = Value(name="q"), Value(name="k"), Value(name="v")
        self.core = Core(self.q, self.k, self.v)
        self.root = self.core.out

    def check(self, match: Match) -> Reason | None:
        if min(rank_of(match.value(hole).type) for hole in (self.q, self.k, self.v)) < 2:
            return Reason("not-matrices", "`q`, `k` and `v` should have 2 dimensions or more")
        return self.core.check(match)

    def build(self, match: Match) -> PdOp:
        core = self.core
        return FusedDotProductAttention.make(
            match.value(self.q),
            match.value(self.k),
            match.value(self.v),
            core.mask_in(match),
            transpose_k=not match[core.product].attr("transpose_y"),
            **core.attrs(match),
            **dropout_attrs(
                match.get(core.dropout), "dropout_probability", "dropout_implementation"
            ),
            **draw_attrs(match, core.dropout),
        )


@dataclass(frozen=True)
class FuseDotProductAttention(FusionPass):
    """The weighted sum of values by the likeness of queries and keys."""

    name = "fuse-dot-product-attention"
    numerics = Numerics.REASSOCIATING
    RULES = (DotProductAttention(),)
