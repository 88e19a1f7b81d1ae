"""softmax(scale * q k^T + mask) v -> fused_dot_product_attention.

A superset of Paddle's pattern: any float dtype and rank, the scale before or after the product or
the masks, as `scale`, multiplication or division, one or two additive masks, a boolean one or none,
dropout or none, the softmax of half types in float32 or not. The fused op never holds all scores
when sequences are long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.ir import Attribute, SSAValue

from graphopt.ir.dialect.known import constant
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Softmax
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import (
    Add,
    Cast,
    Divide,
    LogicalNot,
    Multiply,
    Scale,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.shape import Expand, Reshape, Transpose
from graphopt.ir.dialect.ops.transformer import FusedDotProductAttention
from graphopt.ir.dialect.types import UNKNOWN, compatible, dtype_of, like, rank_of, shape_of, show
from graphopt.passes.engine.fusion import (
    Fusion,
    FusionPass,
    Hole,
    Match,
    Node,
    Reason,
    Value,
    wrong_attr,
)
from graphopt.passes.engine.inserting import Before
from graphopt.passes.engine.naming import show_op
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.fusions.attention_kernels import (
    KERNELS,
    Asked,
    Kernel,
    drops,
    keys_of,
    refusal_by,
)
from graphopt.passes.fusions.transformer_parts import (
    ScaledPart,
    draw_attrs,
    dropout_attrs,
)


class Core:
    """The pattern between q, k, v and the weighted sum.

    The scale may be in any of four places, also after the masks. Two masks may be added, a third
    one where the scores are divided into windows, and one may be subtracted after the scale. Half
    types may be cast to float32 for the masks, the softmax and the dropout.
    """

    def __init__(self, q: Hole, k: Hole, v: Hole, *, swaps_keys: bool = False) -> None:
        self.mask, self.other_mask = Value(name="mask"), Value(name="other_mask")
        self.seen, self.fill = Value(name="mask"), Value(name="fill")
        self.unseen, self.blank = Value(name="mask"), Value(name="fill")
        self.taken = Value(name="mask")
        if swaps_keys:
            k = Node(Transpose, k, optional=True, name="transposed_k")
        self.scaled_q, self.scaled_k = ScaledPart("scaled_q", q), ScaledPart("scaled_k", k)
        self.product = Node(Matmul, self.scaled_q.top, self.scaled_k.top, name="scores")
        self.scaled = ScaledPart("scaled_scores", self.product)
        wide = Node(Cast, self.scaled.top, optional=True, name="wide_scores")
        self.hidden = Node(Where, self.seen, wide, self.fill, optional=True, name="hidden_scores")
        self.blanked = Node(
            Where, self.unseen, self.blank, self.hidden, optional=True, name="blanked_scores"
        )
        self.first = Node(
            Add, self.blanked, self.other_mask, commutes=True, optional=True, name="half_masked"
        )
        self.masked = Node(
            Add,
            self.first,
            self.mask,
            commutes=True,
            optional=True,
            instead=self.blanked,
            name="masked_scores",
        )
        self.windows = WindowMask(self.masked)
        self.rescaled = ScaledPart("scaled_masked_scores", self.windows.out)
        self.lowered = Node(
            Subtract, self.rescaled.top, self.taken, optional=True, name="lowered_scores"
        )
        wider = Node(Cast, self.lowered, optional=True, name="wider_scores")
        self.softmax = Node(Softmax, wider, name="softmax")
        narrow = Node(Cast, self.softmax, optional=True, name="narrow_weights")
        self.dropout = Node(Dropout, narrow, optional=True, name="attention_dropout")
        narrower = Node(Cast, self.dropout, optional=True, name="narrower_weights")
        self.casts = (wide, wider, narrow, narrower)
        self.out = Node(Matmul, narrower, v, name="weighted_sum")

    def check(self, match: Match) -> Reason | None:
        """Check that this is attention, apart from the layout of q, k and v."""
        softmax = match[self.softmax]
        if softmax.attr("axis") not in (-1, rank_of(softmax.results[0].type) - 1):
            return wrong_attr("softmax-axis", self.softmax, softmax, "axis", -1)
        for node, names in (
            (self.product, ("transpose_x",)),
            (self.out, ("transpose_x", "transpose_y")),
        ):
            for name in names:
                if match[node].attr(name):
                    return wrong_attr("product-transposed", node, match[node], name, False)
        for part in (self.scaled_q, self.scaled_k, self.scaled, self.rescaled):
            reason = part.check(match)
            if reason is not None:
                return reason
        return self._check_casts(match) or self._check_mask(match)

    def _check_casts(self, match: Match) -> Reason | None:
        """Check that the casts only compute a softmax of a half type in float32."""
        own = dtype_of(match[self.product].results[0].type)
        for node in self.casts:
            cast = match.get(node)
            if cast is None:
                continue
            dtype = dtype_of(cast.results[0].type)
            if own not in _HALVES or dtype not in (own, "float32"):
                text = f"`{node.name}` should cast a half type to float32 or back, found "
                text += f"{dtype_of(cast.operands[0].type)} to {dtype} on scores of {own}"
                return Reason("other-cast", text, f"remove `{node.name}`")
        return None

    def _check_mask(self, match: Match) -> Reason | None:
        whether = [node for node in (self.hidden, self.blanked) if match.get(node) is not None]
        summed = (self.first, self.masked, self.windows.masked, self.lowered)
        added = [node for node in summed if match.get(node) is not None]
        if len(whether) > 1 or (whether and added):
            return Reason(
                "two-masks",
                "the scores have a boolean mask and another mask",
                f"make one mask of the two, and one op of "
                f"{' and '.join(f'`{node.name}`' for node in (*whether, *added))}",
            )
        scores = match[self.product].results[0].type
        reason = self.windows.check(match, scores)
        if reason is not None:
            return reason
        for node in (*whether, *added):
            if node is not self.windows.masked and not _same_shape(match[node], scores):
                return Reason(
                    "mask-shape",
                    f"`mask` should broadcast to the scores {show(scores)}, but `{node.name}` is "
                    f"{show(match[node].results[0].type)}",
                    "give the mask no more dimensions and no larger ones than the scores",
                )
        if whether and self._fill(match) is None:
            return Reason(
                "fill-not-constant",
                "`fill` should be one constant number",
                "mask scores with a constant such as -1e9",
            )
        return None

    def _fill(self, match: Match) -> float | None:
        """Return the score where a boolean mask hides; None without a mask or if unknown."""
        if match.get(self.hidden):
            return constant(match.value(self.fill))
        return constant(match.value(self.blank)) if match.get(self.blanked) else None

    def mask_in(self, match: Match, before: Before, *, in_windows: bool = False) -> SSAValue | None:
        """Build the mask, boolean or additive; None if there is none.

        It fits the scores, or with `in_windows` the scores divided into images and windows.
        """
        if match.get(self.hidden):
            return match.value(self.seen)
        if match.get(self.blanked):
            return before(LogicalNot.make(match.value(self.unseen)))
        holes = ((self.first, self.other_mask), (self.masked, self.mask))
        masks = [match.value(hole) for node, hole in holes if match.get(node)]
        if match.get(self.windows.masked):
            masks.append(self.windows.mask_in(match, before, in_windows=in_windows))
        total: SSAValue | None = None
        for mask in masks:
            total = mask if total is None else before(Add.make(total, mask))
        factor = self.rescaled.factor(match)
        if total is not None and factor != 1:
            total = before(Scale.make(total, scale=factor))
        if not match.get(self.lowered):
            return total
        taken = match.value(self.taken)
        if total is None:
            return before(Scale.make(taken, scale=-1.0))
        return before(Subtract.make(total, taken))

    def whole_masks(self, match: Match) -> list[SSAValue]:
        """List the program's masks of scores that are not divided into windows."""
        holes = (
            (self.hidden, self.seen),
            (self.blanked, self.unseen),
            (self.first, self.other_mask),
            (self.masked, self.mask),
            (self.lowered, self.taken),
        )
        return [match.value(hole) for node, hole in holes if match.get(node)]

    def mask_type(self, match: Match) -> Attribute | None:
        """Return the type of one of the masks; None without masks."""
        windows = [match.value(self.windows.mask)] if match.get(self.windows.masked) else []
        return next((mask.type for mask in (*self.whole_masks(match), *windows)), None)

    def attrs(self, match: Match) -> Mapping[str, Any]:
        """Collect the fused op's scaling factor and fill from the ops between the products."""
        behind = self.rescaled.factor(match)
        factor = behind
        for part in (self.scaled_q, self.scaled_k, self.scaled):
            factor *= part.factor(match)
        attrs: dict[str, Any] = {"scaling_factor": factor}
        fill = self._fill(match)
        if fill is not None:
            attrs["fill"] = fill * behind
        return attrs


class WindowMask:
    """A mask for each window of an image, added to scores split into images and windows.

    [images * windows, ...] becomes [images, windows, ...] and, with the mask, is joined again.
    """

    def __init__(self, scores: Hole) -> None:
        self.mask = Value(name="window_mask")
        self.apart = Node(Reshape, scores, name="scores_in_windows")
        self.masked = Node(Add, self.apart, self.mask, commutes=True, name="window_masked_scores")
        self.out = Node(Reshape, self.masked, optional=True, instead=scores, name="joined_scores")

    def check(self, match: Match, scores: Attribute) -> Reason | None:
        """Check that the reshapes only divide the first axis and join it again."""
        if match.get(self.out) is None:
            return None
        images, windows, *rest = self._shape(match)
        first, *others = shape_of(scores)
        same = UNKNOWN in (images, first) or images * windows == first
        if windows == UNKNOWN or rest != others or not same:
            text = (
                f"`{self.apart.name}` should divide the first axis of {show(scores)} into images "
            )
            text += f"and windows, found {show(match[self.apart].results[0].type)}"
            return Reason("no-windows", text, "reshape to [images, windows, heads, size, size]")
        apart, masked = match[self.apart].results[0].type, match[self.masked].results[0].type
        joined = match[self.out].results[0].type
        if compatible(masked, apart) and compatible(joined, scores):
            return None
        text = f"`{self.mask.name}` should broadcast to {show(apart)} and `{self.out.name}` be "
        text += f"{show(scores)}, found {show(masked)} and {show(joined)}"
        return Reason("no-windows", text, "join the axes of images and windows again")

    def _shape(self, match: Match) -> tuple[int, ...]:
        return shape_of(match[self.apart].results[0].type)

    def mask_in(self, match: Match, before: Before, *, in_windows: bool) -> SSAValue:
        """Build the mask for scores in windows or, without `in_windows`, for joined scores."""
        mask = match.value(self.mask)
        if in_windows:
            return mask
        images, windows, *rest = self._shape(match)
        own = (1,) * (2 + len(rest) - rank_of(mask.type)) + shape_of(mask.type)
        if own[:2] != (images, windows):
            mask = before(Expand.make(mask, shape=(images, windows, *own[2:])))
        return _reshape_value(mask, (images * windows, *own[2:]), before)

    def check_sizes(self, match: Match) -> Reason | None:
        """Check that the sizes to repeat the mask for each image are known at compile time."""
        if match.get(self.out) is None:
            return None
        mask = match.value(self.mask)
        whole = UNKNOWN in (self._shape(match)[0], *shape_of(mask.type))
        return self.unknown(match[self.apart].results[0]) if whole else None

    def unknown(self, value: SSAValue) -> Reason:
        """Build the reason that a required size is known only at run time."""
        text = f"{show(value.type)}, which is divided into images and windows, has unknown sizes"
        return Reason("windows-unknown", text, "declare the data with known sizes")

    def divide_windows(self, match: Match, value: SSAValue, before: Before) -> SSAValue:
        """Divide the first axis of q, k or v into images and windows, as in the scores."""
        images, windows, *_ = self._shape(match)
        return _reshape_value(value, (images, windows, *shape_of(value.type)[1:]), before)


def _reshape_value(value: SSAValue, shape: tuple[int, ...], before: Before) -> SSAValue:
    """Reshape a value; skip a reshape that made it, and read its operand."""
    if isinstance(value.owner, Reshape) and 0 not in shape:
        value = value.owner.operands[0]
    return before(Reshape.make(value, shape=shape))


_HALVES = ("float16", "bfloat16")


def _same_shape(op: PdOp, scores: Any) -> bool:
    out = op.results[0].type
    return compatible(out, like(scores, dtype=dtype_of(out)))


class WeighedValues(Fusion):
    """softmax(scores) v, whatever computed the scores: a part of attention, for `explain`."""

    def __init__(self) -> None:
        self.scores = Value(name="scores")
        self.softmax = Node(Softmax, self.scores, name="softmax")
        narrow = Node(Cast, self.softmax, optional=True, name="narrow_weights")
        dropout = Node(Dropout, narrow, optional=True, name="attention_dropout")
        self.root = Node(Matmul, dropout, Value(name="v"), name="weighted_sum")

    def build(self, match: Match) -> PdOp:
        raise AssertionError("it is a part")


WEIGHING = WeighedValues()
# the most ops to search for a product before a softmax
_FARTHEST = 24


def _way_to_product(scores: SSAValue) -> list[PdOp] | None:
    """Find the ops from scores up to the product that computes them; None if there is none.

    A product with a matrix is a linear layer and does not count.
    """
    ways: list[tuple[SSAValue, list[PdOp]]] = [(scores, [])]
    for value, way in ways:  # the list grows in the loop
        op = value.owner
        if not isinstance(op, PdOp) or len(ways) > _FARTHEST:
            continue
        if isinstance(op, Matmul):
            if rank_of(op.y.type) > 2 or rank_of(op.x.type) == 2:
                return way
        else:
            ways += [(operand, [*way, op]) for operand in op.operands]
    return None


class DotProductAttention(Fusion):
    """The core alone, on q [..., t, d], k [..., s, d] or [..., d, s] and v [..., s, e]."""

    part: Fusion | None = WEIGHING

    def lacking(self, part: Match) -> Reason | None:
        """Name the op between a product and a softmax that is no part of attention."""
        way = _way_to_product(part.value(WEIGHING.scores))
        if way is None:
            return None
        known = (Add, Scale, Multiply, Divide, Where, Cast)
        other = next((op for op in reversed(way) if not isinstance(op, known)), None)
        text = "`scores` should be a product that is scaled and masked before the softmax, found "
        text += "more than two masks or scales" if other is None else show_op(other)
        return Reason("other-scores", text, "scale the product, then mask it")

    def __init__(self) -> None:
        self.q, self.k, self.v = Value(name="q"), Value(name="k"), Value(name="v")
        self.core = Core(self.q, self.k, self.v)
        self.root = self.core.out
        self.defining = (self.core.product, self.core.softmax)

    def check(self, match: Match) -> Reason | None:
        if min(rank_of(match.value(hole).type) for hole in (self.q, self.k, self.v)) < 2:
            return Reason(
                "not-matrices",
                "`q`, `k` and `v` should have 2 dimensions or more",
                "add a dimension for the rows to each of them",
            )
        return self.core.check(match) or self._check_windows(match)

    def _check_windows(self, match: Match) -> Reason | None:
        """Check that q, k, v and the masks can be divided into windows."""
        core = self.core
        if match.get(core.windows.out) is None:
            return None
        scores = match[core.product].results[0].type
        for hole in (self.q, self.k, self.v):
            shape = shape_of(match.value(hole).type)
            if len(shape) != rank_of(scores) or shape[0] != shape_of(scores)[0]:
                text = f"`{hole.name}` should have the windows as its first axis, as the scores "
                text += f"{show(scores)} have, found {show(match.value(hole).type)}"
                return Reason("windows-of-one", text, f"expand `{hole.name}` to the windows")
            if UNKNOWN in shape[1:]:
                return core.windows.unknown(match.value(hole))
        for mask in core.whole_masks(match):
            if rank_of(mask.type) == rank_of(scores) and shape_of(mask.type)[0] != 1:
                text = f"a mask of all windows, {show(mask.type)}, "
                text += "is added to scores that are not divided into images"
                return Reason("windows-of-one", text, "add this mask where the other mask is added")
        return None

    def build(self, match: Match) -> PdOp:
        core, before = self.core, Before(match.root)
        apart = match.get(core.windows.out) is not None
        parts = [match.value(hole) for hole in (self.q, self.k, self.v)]
        if apart:
            parts = [core.windows.divide_windows(match, part, before) for part in parts]
        fused = FusedDotProductAttention.make(
            *parts,
            core.mask_in(match, before, in_windows=apart),
            transpose_k=not match[core.product].attr("transpose_y"),
            **core.attrs(match),
            **dropout_attrs(
                match.get(core.dropout), "dropout_probability", "dropout_implementation"
            ),
            **draw_attrs(match, core.dropout),
        )
        if not apart:
            return fused
        shape = shape_of(match.root.results[0].type)
        return Reshape.make(before(fused), shape=shape)


@dataclass(frozen=True)
class FuseDotProductAttention(FusionPass):
    """Fuse the sum of values, weighted by the similarity of queries and keys."""

    name = "fuse-dot-product-attention"
    numerics = Numerics.REASSOCIATING
    RULES = (DotProductAttention(),)


# From this many queries and keys on, storing and loading the scores takes longer than computing
# them head by head, even twice for the derivative; measured on a CPU.
LONG = 512


class LongAttention(DotProductAttention):
    """The core on sequences that are so long that one op is faster."""

    part = None

    def check(self, match: Match) -> Reason | None:
        scores = shape_of(match[self.core.product].results[0].type)
        if UNKNOWN in scores[-2:]:
            return Reason(
                "length-unknown",
                "the lengths of the sequences are known only when the program runs",
                "declare the data with known lengths, or set fuse_dot_product_attention",
            )
        if min(scores[-2:]) < LONG:
            text = (
                f"there are {scores[-2]} queries and {scores[-1]} keys; fusing pays from {LONG} on"
            )
            return Reason("short-sequence", text, "set fuse_dot_product_attention")
        return super().check(match)


@dataclass(frozen=True)
class FuseLongAttention(FuseDotProductAttention):
    """Fuse the core of attention over long sequences, with any strategy."""

    name = "fuse-long-attention"
    RULES = (LongAttention(),)


class KernelAttention(DotProductAttention):
    """The core if a library's kernel takes it: without a kernel, XLA's own code is as fast."""

    part = None

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def check(self, match: Match) -> Reason | None:
        reason = super().check(match)
        if reason is not None:
            return reason
        core = self.core
        transposed = not match[core.product].attr("transpose_y")
        dropout = match.get(core.dropout)
        asked = Asked(
            match.value(self.q).type,
            keys_of(match.value(self.k).type, transposed),
            match.value(self.v).type,
            core.mask_type(match),
            core.attrs(match).get("fill", float("-inf")),
            dropout is not None and drops(dropout, "p", "mode"),
        )
        return refusal_by(self.kernel, asked)


@dataclass(frozen=True)
class FuseCudnnAttention(FuseDotProductAttention):
    """Fuse the core of attention where cuDNN has a kernel for it, with any strategy."""

    name = "fuse-cudnn-attention"
    RULES = (KernelAttention(KERNELS["cudnn"]),)


@dataclass(frozen=True)
class FusePallasAttention(FuseDotProductAttention):
    """Fuse the core of attention where JAX has a Pallas kernel for it, on TPUs."""

    name = "fuse-pallas-attention"
    RULES = (KernelAttention(KERNELS["pallas"]),)
