"""Positions and sizes that depend on the rows of a cache, rewritten before masks are added.

A decoder reads `table[past : past + 1]`, counts positions from `past` on, and has masks of `past +
1` columns. These are ops whose attributes are values. Here they become gathers, sums, and concats
of numbers to the rows of the cache, for which padding has rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, SSAValue

from graphopt.ir.dialect.known import KnownValues
from graphopt.ir.dialect.op import PdOp, class_of
from graphopt.ir.dialect.ops.creation import Arange, Full, FullLike
from graphopt.ir.dialect.ops.dynamic import Dynamic, decode_properties
from graphopt.ir.dialect.ops.index import Gather
from graphopt.ir.dialect.ops.math import Add, Cast, Subtract
from graphopt.ir.dialect.ops.reduce import Cumsum
from graphopt.ir.dialect.ops.shape import Concat, Expand, Reshape, ShapeOf, Slice, Squeeze
from graphopt.ir.dialect.signature import FEED, main_function, signature_of
from graphopt.ir.dialect.size_rules import amounts
from graphopt.ir.dialect.sums import Amount, Size, SymbolicSum
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, normalize_axis, rank_of, shape_of
from graphopt.passes.engine.inserting import Before
from graphopt.passes.engine.rewrite import replace


class SizeLimit(NamedTuple):
    """A bound: the size of a feed's axis, plus `more`, must be at most `most`."""

    feed: str
    axis: int
    more: int
    most: int


class _RowCount(NamedTuple):
    """A number of rows: `more` than a cache has, or than 0 without a cache."""

    cache: BlockArgument | None
    more: int


def settle_positions(module: ModuleOp) -> list[SizeLimit]:
    """Rewrite the ops of `@main` whose position or size is a cache's row count plus a number.

    Return the limits that must hold: a slice past the end of a table would have fewer rows.
    """
    block, signature = main_function(module).body.block, signature_of(module)
    names = {
        value: port.name
        for value, port in zip(block.args, signature.arguments, strict=True)
        if port.kind == FEED
    }
    settling = _Settling(_caches(block, names), names)
    for op in list(block.ops):
        made = settling.make_value(op) if isinstance(op, Dynamic) else None
        if made is not None:
            replace(op, {op.results[0]: made})
        elif isinstance(op, PdOp):
            settling.known.see(op)
    return settling.limits


def growing_axes(module: ModuleOp) -> dict[str, int]:
    """Find the feeds that rows are joined to, and for each the axis, which is of open size."""
    block, signature = main_function(module).body.block, signature_of(module)
    ports = dict(zip(block.args, signature.arguments, strict=True))
    names = {value: port.name for value, port in ports.items() if port.kind == FEED}
    return {names[value]: axis for value, axis in _caches(block, names).items()}


def _caches(block: Block, names: dict[BlockArgument, str]) -> dict[BlockArgument, int]:
    """Find the arguments that rows are joined to, and for each the axis of open size."""
    known, found = KnownValues(), dict[BlockArgument, int]()
    for op in block.ops:
        if not isinstance(op, PdOp):
            continue
        known.see(op)
        if isinstance(op, Concat):
            at = normalize_axis(op.attr("axis"), rank_of(op.results[0].type))
            size = known.sizes(op.operands[0])[at]
            only = size.only if isinstance(size, SymbolicSum) else None
            if isinstance(only, Size) and only.value in names:
                found.setdefault(only.value, only.axis)  # pyright: ignore[reportArgumentType]
    return found


@dataclass
class _Settling:
    caches: dict[BlockArgument, int]
    names: dict[BlockArgument, str]
    known: KnownValues = field(default_factory=KnownValues)
    limits: list[SizeLimit] = field(default_factory=list[SizeLimit])

    def make_value(self, op: Dynamic) -> SSAValue | None:
        """Build the value that replaces the op's result; None for an op that stays."""
        rule = {Slice.name: self._slice, Arange.name: self._range, Full.name: self._full}.get(
            op.attr("op")
        )
        elements = [self.known.elements(value) for value in op.values]
        if rule is None or any(each is None for each in elements):
            return None
        named = zip(op.attr("dynamic"), elements, strict=True)
        attrs = decode_properties(class_of(op.attr("op")), op.attr("attrs"))
        values = {name: amounts(each) for name, each in named if each is not None}
        return rule(op, {**attrs, **values}, Before(op))

    def _slice(self, op: Dynamic, attrs: dict[str, Any], new: Before) -> SSAValue | None:
        """Gather rows by number: some from the end of a cache on, or all up to it."""
        value, shape = op.inputs[0], shape_of(op.inputs[0].type)
        axes: Sequence[int] = attrs["axes"]
        if not len(axes) == len(attrs["starts"]) == len(attrs["ends"]):
            return None
        for number, axis in enumerate(axes):
            at = normalize_axis(axis, len(shape))
            first, last = self._place(attrs["starts"][number]), self._place(attrs["ends"][number])
            if first is None or last is None:
                return None
            if first.cache is last.cache is None:
                bounds = {"axes": [at], "starts": [first.more], "ends": [last.more]}
                value = new(Slice.make(value, **bounds))
                continue
            rows = self._numbers(first, last, new)
            if rows is None or shape[at] == UNKNOWN or last.cache is None:
                return None
            limit = self.caches[last.cache], last.more, shape[at]
            self.limits.append(SizeLimit(self.names[last.cache], *limit))
            value = new(Gather.make(value, rows, axis=at))
        dropped = [normalize_axis(axis, len(shape)) for axis in attrs["decrease_axis"]]
        return new(Squeeze.make(value, axis=dropped)) if dropped else value

    def _range(self, op: Dynamic, attrs: dict[str, Any], new: Before) -> SSAValue | None:
        """Build the integers from the end of a cache on, or up to it."""
        found = [_one(attrs[name]) for name in ("start", "end", "step")]
        first, last, step = (self._place(each) for each in found)
        if first is None or last is None or step != _RowCount(None, 1):
            return None
        rows, dtype = self._numbers(first, last, new), dtype_of(op.results[0].type)
        return rows if rows is None or dtype == "int64" else new(Cast.make(rows, dtype=dtype))

    def _full(self, op: Dynamic, attrs: dict[str, Any], new: Before) -> SSAValue | None:
        """Build a tensor of one value, with an axis as long as a cache's rows plus a number."""
        places = [self._place(size) for size in attrs["shape"]]
        sizes = [-1 if each is None or each.cache is not None else each.more for each in places]
        if sizes.count(-1) != 1 or (place := places[sizes.index(-1)]) is None:
            return None
        if place.cache is None or place.more < 0:
            return None
        dtype = dtype_of(op.results[0].type)
        row = new(FullLike.make(self._row(place.cache, new), value=attrs["value"], dtype=dtype))
        if place.more:
            more = new(Full.make(shape=[place.more], value=attrs["value"], dtype=dtype))
            row = new(Concat.make([row, more], axis=0))
        ones = [1 if size != -1 else -1 for size in sizes]
        return new(Expand.make(new(Reshape.make(row, shape=ones)), shape=sizes))

    def _place(self, amount: Amount | None) -> _RowCount | None:
        """Match a number, or a cache's rows plus a number; None for any other amount."""
        if amount is None or isinstance(amount, int):
            return None if amount is None else _RowCount(None, amount)
        for cache, axis in self.caches.items():
            size = self.known.sizes(cache)[axis]
            more = amount - size
            if isinstance(more, int):
                return _RowCount(cache, more)
        return None

    def _numbers(self, first: _RowCount, last: _RowCount, new: Before) -> SSAValue | None:
        """Build the integers from one position up to another, int64; None if unsupported."""
        if last.cache is None:
            return None
        count = last.more - first.more
        if first.cache is last.cache and first.more >= 0 and count > 0:
            return self._after(last.cache, first.more, count, new)
        if first != _RowCount(None, 0) or last.more < 0:
            return None
        ones = new(FullLike.make(self._row(last.cache, new), value=1.0, dtype="int64"))
        one = new(Full.make(shape=[], value=1.0, dtype="int64"))
        own = new(Subtract.make(new(Cumsum.make(ones, axis=0)), one))
        if not last.more:
            return own
        return new(Concat.make([own, self._after(last.cache, 0, last.more, new)], axis=0))

    def _after(self, cache: BlockArgument, more: int, count: int, new: Before) -> SSAValue:
        """Build `count` integers, starting `more` after the number of rows of a cache."""
        at = self.caches[cache]
        size = new(Slice.make(new(ShapeOf.make(cache)), axes=[0], starts=[at], ends=[at + 1]))
        numbers = new(Arange.make(start=float(more), end=float(more + count), dtype="int64"))
        return new(Add.make(new(Cast.make(size, dtype="int64")), numbers))

    def _row(self, cache: BlockArgument, new: Before) -> SSAValue:
        """Take one element of each row of a cache."""
        others = [axis for axis in range(rank_of(cache.type)) if axis != self.caches[cache]]
        bounds = {"starts": [0] * len(others), "ends": [1] * len(others)}
        return new(Slice.make(cache, axes=others, **bounds, decrease_axis=others))


def _one(value: float | Sequence[Amount | None]) -> Amount | None:
    """Return the integer or sum in a property of one number; None if it holds neither."""
    if isinstance(value, Sequence):
        return value[0] if len(value) == 1 else None
    return int(value) if float(value).is_integer() else None
