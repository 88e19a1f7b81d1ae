"""Multi-head attention with its projections -> fused_attention.

A superset of Paddle's pattern: separate projections (nn.MultiHeadAttention) as well as a joint one
divided in any equivalent way, attention to another sequence, layer norm in front, after or nowhere,
and each of mask, dropouts, biases and residual may be missing. What Paddle assumes is checked:
axes, permutations, scale and transposes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add
from graphopt.ir.dialect.ops.norm import LayerNorm
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.shape import Flatten, Reshape, ReshapeLike, Transpose
from graphopt.ir.dialect.ops.transformer import LAYOUTS, FusedAttention
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, rank_of, shape_of
from graphopt.passes.engine.fusion import (
    Fusion,
    FusionPass,
    Match,
    Node,
    Reason,
    Value,
    wrong_attrs,
)
from graphopt.passes.engine.inserting import Before
from graphopt.passes.engine.naming import show_op
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.fusions.fuse_dot_product_attention import Core, DotProductAttention
from graphopt.passes.fusions.head_layout import (
    ROWS,
    Edit,
    edits,
    heads_of,
    origin,
    source_indices,
    trace,
)
from graphopt.passes.fusions.projections import KINDS, Projections
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

# attention without its linear layers
CORE = DotProductAttention()


class HeadLayout(NamedTuple):
    """The division of the projections' columns among q, k and v."""

    heads: int
    kv_heads: int
    name: str


class Attention(Fusion):
    """Attention as half of a Transformer layer; `norm` says where its layer norm must be."""

    part = CORE

    def __init__(self, kind: str, norm: str) -> None:
        self.kind, self.where = kind, norm
        self.x = Value("full", name="x")
        self.pre = Node(LayerNorm, self.x, name="norm")
        self.parts = Projections(kind, self.pre if norm == "pre" else self.x)
        self.core = Core(self.parts.q, self.parts.k, self.parts.v, swaps_keys=True)
        transposed = Node(Transpose, self.core.out, name="joined_transpose")
        self.joined = Node((Reshape, ReshapeLike, Flatten), transposed, name="joined")
        self.linear = LinearPart("out", self.joined)
        self.dropout = Node(Dropout, self.linear.add, optional=True, name="dropout")
        self.residual = Node(
            Add, self.dropout, self.x, commutes=True, optional=True, name="residual"
        )
        self.post = Node(LayerNorm, self.residual, name="norm")
        self.root = self.post if norm == "post" else self.residual
        self.defining = (self.core.product, self.core.softmax)

    def lacking(self, part: Match) -> Reason:
        """Name the missing projection: of q, k or v, or at the end."""
        fix = "none: only fuse_dot_product_attention takes the core of such attention"
        for hole in (CORE.q, CORE.k, CORE.v):
            found = origin(part.value(hole))
            if not isinstance(found, (Matmul, Add)):
                text = f"`{hole.name}` should be a projection in heads, found "
                text += show_op(found) if isinstance(found, PdOp) else "an argument"
                return Reason("only-the-core", text, fix)
        text = "the heads do not come from projections, or no projection joins them"
        return Reason("only-the-core", text, fix)

    def check(self, match: Match) -> Reason | None:
        for layer in (*self.parts.layers, self.linear):
            reason = layer.check(match)
            if reason is not None:
                return reason
        return (
            self.core.check(match)
            or self.core.windows.check_sizes(match)
            or self.parts.check(match)
            or self._check_heads(match)
            or self._check_rows(match)
            or check_norm(self._norm(match))
            or check_residual(match, self.residual, self.x, self.linear.out(match))
            or check_dropouts(match, self.core.dropout, self.dropout)
        )

    def _check_heads(self, match: Match) -> Reason | None:
        """Check that q, k and v are split from the projections, and merged again."""
        for name, fits, text in (
            (
                "heads",
                self._layout,
                "q, k and v are not the projections in the layout [n, heads, length, size]",
            ),
            (
                "not-joined",
                self._joins,
                "`joined` does not have the heads of each position side by side",
            ),
        ):
            if not fits(match):
                return _edit_that_helps(name, match, partial(fits, match)) or Reason(
                    name, text, "reshape to [0, 0, heads, size] and transpose with [0, 2, 1, 3]"
                )
        return None

    def _layout(self, match: Match, edit: Edit | None = None) -> HeadLayout | None:
        """Find the layout of q, k and v in the projections; None if it is an unknown one."""
        product = match[self.core.product]
        values = (*product.operands, match[self.core.out].operands[1])
        swapped = (False, not product.attr("transpose_y"), False)
        q, k, v = (
            self._layouts(match, part, value, edit, swapped=swapped[part])
            for part, value in enumerate(values)
        )
        common = [layout for layout in k if layout in v]
        heads = {(layout.heads, layout.name) for layout in q}
        return next((at for at in common if (at.heads, at.name) in heads), None)

    def _layouts(
        self, match: Match, part: int, value: SSAValue, edit: Edit | None, *, swapped: bool
    ) -> tuple[HeadLayout, ...]:
        """List the layouts in which `value` is q, k or v; `part` is its number."""
        joint = len(self.parts.layers) == 1
        start = self.parts.layer(part).out(match)
        if rank_of(start.type) != 3 or shape_of(start.type)[-1] == UNKNOWN:
            return ()
        indices = source_indices(shape_of(start.type)[-1])
        found = trace(value, start, indices, edit, self.parts.passed_operands(match))
        if found is None or found.ndim != 4 or not found.size:
            return ()
        found = found.swapaxes(2, 3) if swapped else found
        heads = found.shape[1]
        own = indices.shape[-1] // ((3 if joint else 1) * found.shape[3])
        if own == 0 or indices.shape[-1] % own:
            return ()
        if joint:
            if indices.shape[-1] % (3 * heads):
                return ()
            ways = {n: heads_of(indices, heads, part, n) for n in LAYOUTS}
        else:
            each = indices.reshape(*ROWS, own, -1).transpose(0, 2, 1, 3)
            ways = {LAYOUTS[0]: np.repeat(each, heads // own, 1)}
        fitting = (name for name, wanted in ways.items() if np.array_equal(wanted, found))
        return tuple(HeadLayout(heads, own, name) for name in fitting)

    def _joins(self, match: Match, edit: Edit | None = None) -> bool:
        """True when the heads are joined again in the order of their division."""
        core = match[self.core.out].results[0]
        _, heads, _, size = shape_of(core.type)
        if UNKNOWN in (heads, size):
            return False
        indices = source_indices(heads * size)
        divided = indices.reshape(*ROWS, heads, size).transpose(0, 2, 1, 3)
        found = trace(match[self.joined].results[0], core, divided, edit)
        return found is not None and np.array_equal(found, indices)

    def _rows(self, match: Match) -> SSAValue | None:
        """Return the tensor that `joined` takes sizes of, if any.

        The fused op removes a norm before the projections, so `x` takes its place.
        """
        joined = match[self.joined]
        if not isinstance(joined, ReshapeLike):
            return None
        norm, like = match.get(self.pre), joined.operands[1]
        return match.value(self.x) if norm is not None and like is norm.results[0] else like

    def _check_rows(self, match: Match) -> Reason | None:
        """Check that `joined` takes no sizes of an inner value, which the fusion removes."""
        rows = self._rows(match)
        owner = None if rows is None else rows.owner
        if not isinstance(owner, PdOp) or owner not in match.ops.values():
            return None
        inside = f"{show_op(owner)}, a value inside the pattern"
        text = f"`{self.joined.name}` takes sizes from {inside}"
        return Reason("part-of-itself", text, f"take the sizes from `{self.x.name}`")

    def _biases(self, match: Match, before: Before) -> list[SSAValue]:
        """Collect the biases of the projections; where only some have one, the others get zeros."""
        layers = self.parts.layers
        if all(layer.bias_in(match) is None for layer in layers):
            return []
        return [
            layer.bias_in(match) or before(_zeros(layer.columns(match), layer.out(match)))
            for layer in layers
        ]

    def _norm(self, match: Match) -> PdOp | None:
        return match.get(self.pre) or match.get(self.post)

    def build(self, match: Match) -> PdOp:
        layout, norm = self._layout(match), self._norm(match)
        assert layout is not None
        memory = [match.value(source) for source in self.parts.memory]
        layers, before = self.parts.layers, Before(match.root)
        joined, rows = match[self.joined], self._rows(match)
        return FusedAttention.make(
            match.value(self.x),
            memory[:1] if len(set(memory)) == 1 else memory,
            [layer.weight_in(match, before) for layer in layers],
            self._biases(match, before),
            self.core.mask_in(match, before),
            self.linear.weight_in(match, before),
            self.linear.bias_in(match),
            *norm_vectors(norm),
            self.parts.rotary(match, before),
            self.parts.cache(match),
            rows,
            num_heads=layout.heads,
            num_kv_heads=0 if layout.kv_heads == layout.heads else layout.kv_heads,
            layout=layout.name,
            add_residual=match.get(self.residual) is not None,
            cache_by_time=self.parts.is_by_time(match, cache=True),
            like_axes=1 if rows is not None and -1 in joined.attr("shape") else 2,
            **self.core.attrs(match),
            **norm_attrs(norm, self.where),
            **dropout_attrs(
                match.get(self.core.dropout), "attn_dropout_rate", "attn_dropout_implementation"
            ),
            **dropout_attrs(match.get(self.dropout), "dropout_rate", "dropout_implementation"),
            **draw_attrs(match, self.core.dropout, self.dropout),
        )

    def inner_results(self, match: Match) -> Collection[SSAValue]:
        """List the keys and values that the next step takes for its cache."""
        return self.parts.kept_cache(match)

    def results(self, match: Match, fused: PdOp) -> Mapping[SSAValue, SSAValue]:
        kept = zip(self.parts.kept_cache(match), fused.results[1:], strict=False)
        return {match.root.results[0]: fused.results[0], **dict(kept)}


def _edit_that_helps(name: str, match: Match, fits: Callable[[Edit], object]) -> Reason | None:
    """Find other properties of one op for which `fits` holds, and name the op in a reason."""
    for node, op in match.ops.items():
        for edit in edits(op):
            if fits(edit):
                return wrong_attrs(name, node, op, edit.attrs)
    return None


def _zeros(columns: int, like: SSAValue) -> PdOp:
    return Full.make(shape=(columns,), value=0.0, dtype=dtype_of(like.type))


@dataclass(frozen=True)
class FuseAttention(FusionPass):
    """Fuse the attention half of a Transformer layer."""

    name = "fused-attention"
    numerics = Numerics.REASSOCIATING
    RULES = tuple(Attention(kind, norm) for kind in KINDS for norm in ("post", "pre", "none"))
