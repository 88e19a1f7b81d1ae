"""Repetition in a program: the same ops again and again, each time after the last.

Ops are alike when kind, properties (but for the numbers of random ops) and types are; `candidates`
finds where they come in periods, `layers_at` checks how values flow from one to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue

from graphopt.ir.dialect.ops.base import DataSizedOp, PureOp
from graphopt.ir.dialect.ops.comm import Collective
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.ops.dynamic import Dynamic, draws
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.passes.engine.naming import how_used
from graphopt.passes.engine.pattern import Reason

_NUMBERS = ("rng_id", "other_rng_id")
# a result of an op of a layer: which op of the layer, and which of its results
Made = tuple[int, int]


@dataclass(frozen=True)
class Span:
    """`count` layers of `period` ops each, from position `start` of a block."""

    start: int
    period: int
    count: int

    @property
    def end(self) -> int:
        """The position after the last op."""
        return self.start + self.period * self.count


@dataclass
class Wiring:
    """The values that the layers of a span read: by operand (op of the layer, position)."""

    span: Span
    carried: dict[Made, SSAValue] = field(default_factory=dict[Made, SSAValue])
    """The values from layer to layer, with those that the first layer reads in their place."""
    reads: dict[tuple[int, int], Made] = field(default_factory=dict[tuple[int, int], Made])
    """The operands that read what is carried."""
    items: dict[tuple[int, int], tuple[SSAValue, ...]] = field(
        default_factory=dict[tuple[int, int], tuple[SSAValue, ...]]
    )
    """The operands that read other state in each layer, with that of each layer."""
    rng_stride: int = 0


@dataclass(frozen=True)
class Wrong:
    """The reason why a span is not a row of layers; `layer` is the one in the way, if known."""

    reason: Reason
    layer: int | None = None


def candidates(ops: Sequence[Operation], fewest: int) -> Iterator[Span]:
    """The spans of at least `fewest` periods of like ops, most ops first."""
    kinds: dict[Any, int] = {}
    ids = np.array([kinds.setdefault(_likeness(op), len(kinds)) for op in ops], dtype=np.int64)
    found: list[Span] = []
    for period in range(1, len(ops) // fewest + 1):
        same = np.concatenate([[False], ids[:-period] == ids[period:], [False]])
        (edges,) = np.nonzero(same[1:] != same[:-1])
        for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            count = (end - begin) // period + 1
            span = Span(begin, period, count)
            if count >= fewest and _in_a_row(ops, span):
                found.append(span)
    found.sort(key=lambda span: (-span.period * span.count, span.period, span.start))
    yield from found


def _in_a_row(ops: Sequence[Operation], span: Span) -> bool:
    """True when the second period reads what the first one makes."""
    middle = span.start + span.period
    first = set(ops[span.start : middle])
    second = ops[middle : middle + span.period]
    return any(value.owner in first for op in second for value in op.operands)


def _likeness(op: Operation) -> Any:
    """The key that like ops share; an op that cannot be in a layer equals no other."""
    if not isinstance(op, PureOp) or isinstance(
        op, (RegionOp, Grad, Update, Dynamic, DataSizedOp, Collective)
    ):
        return id(op)
    if "sync" in op.properties and op.attr("sync"):
        return id(op)
    properties = frozenset((n, a) for n, a in op.properties.items() if n not in _NUMBERS)
    types = tuple(v.type for v in op.operands), tuple(v.type for v in op.results)
    return type(op), properties, types


def layers_at(
    ops: Sequence[Operation], span: Span, state: Mapping[SSAValue, str]
) -> Wiring | Wrong:
    """The flow of values through the layers of a span; `state` may be other in each layer."""
    place = {op: at for at, op in enumerate(ops[: span.end]) if at >= span.start}
    found = Wiring(span)
    for at in range(span.period):
        for position in range(len(ops[span.start + at].operands)):
            wrong = _operand(ops, place, found, (at, position), state)
            if wrong is not None:
                return wrong
    return _escape(ops, place, found) or _numbers(ops, found) or found


def _operand(
    ops: Sequence[Operation],
    place: Mapping[Operation, int],
    found: Wiring,
    key: tuple[int, int],
    state: Mapping[SSAValue, str],
) -> Wrong | None:
    """Enter what an operand of all layers is."""
    span = found.span
    begins = range(span.start, span.end, span.period)
    values = [ops[begin + key[0]].operands[key[1]] for begin in begins]
    sources = [
        _source(value, place, begin, span.period)
        for value, begin in zip(values, begins, strict=True)
    ]
    first, rest = sources[0], set(sources[1:])
    if len(rest) == 1:
        (other,) = rest
        if other is not None and other[0] == 0 and first == other:
            return None
        if other is not None and other[0] == -1 and first is None:
            return _carry(found, key, other[1:], values[0], values[1])
        if other is None and first is None:
            return _outside(found, key, values, state)
    text = f"operand {key[1]} of {ops[span.start + key[0]].name} comes from another place"
    return Wrong(Reason("different-wiring", text))


def _source(
    value: SSAValue, place: Mapping[Operation, int], begin: int, period: int
) -> tuple[int, int, int] | None:
    """The number of layers ahead that makes a value, the op and the result; None: outside."""
    owner = value.owner
    at = place.get(owner) if isinstance(owner, Operation) else None
    if at is None:
        return None
    layer, number = divmod(at - begin, period)
    return layer, number, cast(OpResult, value).index


def _carry(
    found: Wiring, key: tuple[int, int], made: Made, first: SSAValue, second: SSAValue
) -> Wrong | None:
    if found.carried.setdefault(made, first) is not first or first.type != second.type:
        text = "the first layer reads several values where the others read one, or another type"
        return Wrong(Reason("different-start", text))
    found.reads[key] = made
    return None


def _outside(
    found: Wiring,
    key: tuple[int, int],
    values: Sequence[SSAValue],
    state: Mapping[SSAValue, str],
) -> Wrong | None:
    if all(value is values[0] for value in values):
        return None
    if all(value in state for value in values) and len(set(values)) == len(values):
        found.items[key] = tuple(values)
        return None
    text = "each layer reads another value there, and these are not parameters of their own"
    return Wrong(Reason("different-inputs", text))


def _escape(
    ops: Sequence[Operation], place: Mapping[Operation, int], found: Wiring
) -> Wrong | None:
    """A value inside the layers that an op outside reads."""
    span = found.span
    for at in range(span.start, span.end):
        layer, number = divmod(at - span.start, span.period)
        last = layer == span.count - 1
        for result in ops[at].results:
            if last and (number, result.index) in found.carried:
                continue
            for use in result.uses:
                if use.operation not in place:
                    how = how_used(use.operation, use.index)
                    text = f"%{result.name_hint} of layer {layer} is {how}"
                    return Wrong(Reason("interior-used", text), layer)
    return None


def _numbers(ops: Sequence[Operation], found: Wiring) -> Wrong | None:
    """Enter by how much the numbers of random ops grow from layer to layer."""
    span = found.span
    steps: set[int] = set()
    for number in range(span.period):
        first = draws(ops[span.start + number])
        for layer in range(1, span.count):
            other = draws(ops[span.start + layer * span.period + number])
            for (_, a), (_, b) in zip(first, other, strict=True):
                quotient, left = divmod(b - a, layer)
                steps.add(quotient if not left else -1)
    if len(steps) > 1 or -1 in steps:
        text = "its random ops are not numbered evenly, so the layers would draw other numbers"
        return Wrong(Reason("random-numbers", text))
    found.rng_stride = steps.pop() if steps else 0
    return None
