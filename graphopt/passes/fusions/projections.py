"""Queries, keys and values of attention, from their source to the products: parts of its pattern.

A projection is divided into heads. Heads of queries and keys may be rotated by rotary positions.
Keys and values may be appended to a cache, and each of their heads may serve several query heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.math import Add, Multiply, Scale
from graphopt.ir.dialect.ops.rearrange import RepeatInterleave, Tile, Unbind
from graphopt.ir.dialect.ops.shape import (
    Concat,
    Expand,
    Reshape,
    Slice,
    Split,
    Squeeze,
    Transpose,
    Unsqueeze,
)
from graphopt.ir.dialect.types import UNKNOWN, compatible, normalize_axis, rank_of, shape_of, show
from graphopt.passes.engine.fusion import Hole, Match, Node, Reason, Value, wrong_attr, wrong_attrs
from graphopt.passes.engine.inserting import Before
from graphopt.passes.fusions.head_layout import axes_of, source_indices, trace
from graphopt.passes.fusions.transformer_parts import LinearPart

PARTS = ("q", "k", "v")
KINDS = ("self", "split", "slices", "cross")


class Rotary:
    """heads * cos + [-second half, first half] * sin, or the heads unchanged."""

    def __init__(self, name: str, heads: Hole, cosine: Value, sine: Value) -> None:
        self.name, self.cosine, self.sine = name, cosine, sine
        self.first = Node(Slice, heads, name=f"{name}_first_half")
        self.second = Node(Slice, heads, name=f"{name}_second_half")
        self.negated = Node(Scale, self.second, name=f"{name}_negated")
        self.swapped = Node(Concat, self.negated, self.first, name=f"{name}_swapped")
        straight = Node(Multiply, heads, cosine, commutes=True, name=f"{name}_by_cosine")
        across = Node(Multiply, self.swapped, sine, commutes=True, name=f"{name}_by_sine")
        self.out = Node(
            Add,
            straight,
            across,
            commutes=True,
            optional=True,
            instead=heads,
            name=f"{name}_rotated",
        )

    def source(self, match: Match) -> SSAValue:
        """Return the heads before the rotation."""
        return match[self.first].operands[0]

    def check(self, match: Match) -> Reason | None:
        """Check that this rotates the two halves of the last axis."""
        if match.get(self.out) is None:
            return None
        heads = self.source(match)
        rank, size = rank_of(heads.type), shape_of(heads.type)[-1]
        last, negated = rank - 1, match[self.negated]
        for node, start in ((self.first, 0), (self.second, size // 2)):
            cut, end = match[node], start + size // 2
            axes, ends = [normalize_axis(a, rank) for a in cut.attr("axes")], cut.attr("ends")
            ends = tuple(size if axes == [last] and e > size else e for e in ends)
            found = (*axes, *cut.attr("starts"), *ends, *cut.attr("decrease_axis"))
            if size % 2 or found != (last, start, end):
                return wrong_attrs(
                    "rotary-halves",
                    node,
                    cut,
                    {"axes": (last,), "starts": (start,), "ends": (end,)},
                )
        if (negated.attr("scale"), negated.attr("bias")) != (-1, 0):
            return wrong_attrs("rotary-sign", self.negated, negated, {"scale": -1.0, "bias": 0.0})
        swapped = match[self.swapped]
        if normalize_axis(swapped.attr("axis"), rank) != last or len(swapped.operands) != 2:
            return wrong_attr("rotary-halves", self.swapped, swapped, "axis", last)
        return self._check_positions(match, heads)

    def _check_positions(self, match: Match, heads: SSAValue) -> Reason | None:
        rotated = match[self.out].results[0].type
        if compatible(rotated, heads.type):
            return None
        text = f"`cosine` and `sine` should broadcast to the heads {show(heads.type)}, found a "
        fix = "give both the axes of the heads, with size 1 where all elements are rotated alike"
        return Reason("rotary-shape", f"{text}sum of {show(rotated)}", fix)

    def numbers(self, match: Match, by_time: bool, before: Before) -> list[SSAValue]:
        """Build the cosines and sines for heads [n, heads, t, d]; empty without rotation."""
        if match.get(self.out) is None:
            return []
        found: list[SSAValue] = []
        for hole in (self.cosine, self.sine):
            value, perm = match.value(hole), (0, 2, 1, 3)
            rank = rank_of(value.type)
            if by_time and rank > 2:
                order = [axis - 4 + rank for axis in perm[4 - rank :]] if rank == 4 else (1, 0, 2)
                value = before(Transpose.make(value, perm=order))
            found.append(value)
        return found


class InHeads:
    """One of q, k and v on its way from a projection, or a part of one, to the products."""

    def __init__(self, name: str, x: Hole, rotary: tuple[Value, Value] | None) -> None:
        self.name = name
        reshape = Node(Reshape, x, optional=True, name=f"{name}_reshape")
        top: Hole = Node(Transpose, reshape, optional=True, name=f"{name}_transpose")
        self.rotary = None
        if rotary is not None:
            self.rotary = Rotary(name, top, *rotary)
            top = self.rotary.out
        self.cached = None
        if name != "q":
            self.before, self.new = Value(name=f"{name}_cache"), top
            self.cached = Node(
                Concat, self.before, top, optional=True, instead=top, name=f"{name}_cached"
            )
            top = Node(RepeatInterleave, self.cached, optional=True, name=f"{name}_repeated")
            wider = Node(Unsqueeze, self.cached, name=f"{name}_unsqueeze")
            repeated = Node((Tile, Expand), wider, name=f"{name}_repeated")
            top = Node(Reshape, repeated, optional=True, instead=top, name=f"{name}_merged")
        self.out = Node(Transpose, top, optional=True, name=f"{name}_heads")

    def passed_operand(self, match: Match) -> Mapping[PdOp, SSAValue]:
        """Map ops to the operand whose elements they keep in place, for `trace`."""
        found: dict[PdOp, SSAValue] = {}
        if self.rotary is not None and (rotated := match.get(self.rotary.out)) is not None:
            found[rotated] = self.rotary.source(match)
        if self.cached is not None and (cached := match.get(self.cached)) is not None:
            found[cached] = cached.operands[1]
        return found


class Projections:
    """q, k and v, computed from their sources.

    "self": three layers on one source; "cross": keys and values from other sources; "split" and
    "slices": one layer whose result is divided by one op, or by three.
    """

    def __init__(self, kind: str, source: Hole) -> None:
        self.memory: tuple[Value, ...] = ()
        self.turns = (Value(name="cosine"), Value(name="sine"))
        if kind in ("self", "cross"):
            sources: Sequence[Hole] = (source,) * 3
            if kind == "cross":
                self.memory = (Value(name="key"), Value(name="value"))
                sources = (source, *self.memory)
            self.layers = tuple(map(LinearPart, PARTS, sources))
            tops: Sequence[Hole] = [layer.add for layer in self.layers]
        else:
            self.layers = (LinearPart("qkv", source),)
            reshape = Node(Reshape, self.layers[0].add, optional=True, name="qkv_reshape")
            whole = Node(Transpose, reshape, optional=True, name="qkv_transpose")
            if kind == "split":
                apart = Node((Split, Unbind), whole, name="qkv_split")
                parts: Sequence[Hole] = [apart.result(i) for i in range(3)]
            else:
                parts = [Node(Slice, whole, name=f"{name}_slice") for name in PARTS]
            tops = [
                Node(Squeeze, part, optional=True, name=f"{name}_squeeze")
                for name, part in zip(PARTS, parts, strict=True)
            ]
        self.parts = tuple(
            InHeads(name, top, None if name == "v" else self.turns)
            for name, top in zip(PARTS, tops, strict=True)
        )
        self.q, self.k, self.v = (part.out for part in self.parts)

    def layer(self, part: int) -> LinearPart:
        """Return the layer that computes q, k or v, by number."""
        return self.layers[part if len(self.layers) == 3 else 0]

    def passed_operands(self, match: Match) -> Mapping[PdOp, SSAValue]:
        """Merge the `passed_operand` mappings of q, k and v."""
        return {
            op: value for part in self.parts for op, value in part.passed_operand(match).items()
        }

    def check(self, match: Match) -> Reason | None:
        """Check that the fused op supports the rotary positions and the cache."""
        q, k, _ = self.parts
        assert q.rotary is not None and k.rotary is not None
        for rotary in (q.rotary, k.rotary):
            reason = rotary.check(match)
            if reason is not None:
                return reason
        either = [part.rotary for part in (q, k) if part.rotary and match.get(part.rotary.out)]
        if len(either) == 1:
            other = "k" if either[0] is q.rotary else "q"
            text = f"`{either[0].name}` has rotary positions and `{other}` has none"
            return Reason("rotary-of-one", text, "rotate both q and k, or neither")
        return self._check_cache(match) or self._check_axes(match)

    def _check_cache(self, match: Match) -> Reason | None:
        _, k, v = self.parts
        cached = [part for part in (k, v) if part.cached and match.get(part.cached)]
        if len(cached) == 1:
            other = "v" if cached[0] is k else "k"
            text = f"`{cached[0].name}` is joined to a cache and `{other}` is not"
            return Reason(
                "cache-of-one", text, "keep a cache of both the keys and the values, or of neither"
            )
        for part in cached:
            op = match[part.cached] if part.cached else None
            if op is not None and len(op.operands) != 2:
                text = f"`{part.name}_cached` should join two parts, a cache and new values, found "
                return Reason(
                    "cache-parts", f"{text}{len(op.operands)} parts", "join two parts at a time"
                )
        return None

    def _check_axes(self, match: Match) -> Reason | None:
        """Check that rotated and cached heads are [n, t, heads, d] or [n, heads, t, d]."""
        rotary, cache = set[int | None](), set[int | None]()
        for number, part in enumerate(self.parts):
            if part.rotary is not None and match.get(part.rotary.out):
                axes = self._axes(match, number, part.rotary.source(match))
                rotary.add(axes.index("t") if axes.endswith("d") else None)
            if part.cached is not None and (op := match.get(part.cached)):
                axes, at = self._axes(match, number, op.operands[1]), op.attr("axis")
                fits = bool(axes) and axes[normalize_axis(at, 4)] == "t"
                cache.add(axes.index("t") if fits else None)
        for name, found, text in (
            (
                "rotary-axes",
                rotary,
                "the last axis of the rotated value does not have the elements of a head",
            ),
            (
                "cache-axes",
                cache,
                "new keys and values do not follow the cached ones along the time axis",
            ),
        ):
            if len(found) > 1:
                text = "q and k, or k and v, have their axes in different orders"
            if None in found or len(found) > 1:
                fix = "use [n, length, heads, size] or [n, heads, length, size] for all of them"
                return Reason(name, text, fix)
        if rotary == {1} and any(rank_of(match.value(hole).type) == 2 for hole in self.turns):
            text = "`cosine` and `sine` have two axes, which are heads and elements here"
            return Reason("rotary-shape", text, "reshape `cosine` and `sine` to [length, 1, size]")
        return None

    def _axes(self, match: Match, part: int, value: SSAValue) -> str:
        """Return the axes of q, k or v at `value`, "nthd" or "nhtd"; "" for any other axes."""
        start = self.layer(part).out(match)
        columns = shape_of(start.type)[-1]
        if rank_of(start.type) != 3 or columns == UNKNOWN:
            return ""
        found = trace(value, start, source_indices(columns), passed=self.passed_operands(match))
        axes = "" if found is None or found.ndim != 4 else axes_of(found, columns)
        return axes if axes[:1] == "n" and "t" in axes[1:3] else ""

    def is_by_time(self, match: Match, *, cache: bool) -> bool:
        """True when the cache, or the rotated value, is [n, t, heads, d]."""
        part = self.parts[1]
        node = part.cached if cache else part.rotary and part.rotary.out
        op = match.get(node) if node else None
        return op is not None and self._axes(match, 1, self.passed_operands(match)[op])[1] == "t"

    def cache(self, match: Match) -> list[SSAValue]:
        """Return the cached keys and values, before the new ones; empty without a cache."""
        ops = [match.get(part.cached) for part in self.parts if part.cached]
        return [op.operands[0] for op in ops if op is not None]

    def kept_cache(self, match: Match) -> list[SSAValue]:
        """Return all keys and all values of a cache, which other ops may read.

        Values that a `pd.grad` names are left out.
        """
        ops = [match.get(part.cached) for part in self.parts if part.cached]
        return [op.results[0] for op in ops if op is not None and not _is_named(op.results[0])]

    def rotary(self, match: Match, before: Before) -> list[SSAValue]:
        """Build the cosines and sines for heads [n, heads, t, d]; empty without rotation."""
        rotary = self.parts[0].rotary
        assert rotary is not None
        return rotary.numbers(match, self.is_by_time(match, cache=False), before)


def _is_named(value: SSAValue) -> bool:
    """True for a value with respect to which a derivative is taken, or that stops one."""
    return any(
        isinstance(use.operation, Grad) and value in (*use.operation.wrt, *use.operation.no_grad)
        for use in value.uses
    )
