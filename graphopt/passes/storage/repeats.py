"""Repetition in a program: the same ops again and again, each time after the last.

Ops are alike when they agree in kind, properties (but for the numbers of random ops) and types.
`find_repeats` finds periodic stretches of like ops, and `layers_at` checks how values flow from one
period to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from xdsl.ir import Operation, OpResult, SSAValue, Use

from graphopt.ir.dialect.ops.base import DataSizedOp, PureOp
from graphopt.ir.dialect.ops.comm import Collective
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.ops.dynamic import Dynamic, draws
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.types import byte_count
from graphopt.passes.engine.naming import how_used
from graphopt.passes.engine.pattern import Reason
from graphopt.passes.storage.repetitions import Numbers, Repetition, runs

_NUMBERS = ("rng_id", "other_rng_id")
# a result in a layer: the position of its op in the layer, and its index
Made = tuple[int, int]


@dataclass(frozen=True, order=True)
class LayerSpan:
    """`count` layers of `period` ops each, from position `start` of a block."""

    start: int
    period: int
    count: int

    @property
    def end(self) -> int:
        """The position after the last op."""
        return self.start + self.period * self.count

    def part(self, first: int, until: int) -> LayerSpan:
        """Return the layers from `first` up to `until`."""
        return LayerSpan(self.start + first * self.period, self.period, until - first)


@dataclass
class Wiring:
    """The values that the layers of a span read: by operand (op of the layer, position)."""

    span: LayerSpan
    carried: dict[Made, SSAValue] = field(default_factory=dict[Made, SSAValue])
    """The values that layers pass on, each with the value that the first layer reads instead."""
    reads: dict[tuple[int, int], Made] = field(default_factory=dict[tuple[int, int], Made])
    """The operands that read carried values."""
    items: dict[tuple[int, int], tuple[SSAValue, ...]] = field(
        default_factory=dict[tuple[int, int], tuple[SSAValue, ...]]
    )
    """The operands that read different state in each layer, with the state of each layer."""
    rng_stride: int = 0


@dataclass(frozen=True)
class Wrong:
    """The reason why a span is not a row of layers, and the rows in it that may be.

    It holds `anywhere` if it also rules out layers that begin with another op of the span.
    """

    reason: Reason
    rows: tuple[LayerSpan, ...] = ()
    anywhere: bool = False


def find_repeats(ops: Sequence[Operation], fewest: int) -> list[Repetition]:
    """Find the runs of at least `fewest` periods of like ops."""
    kinds: dict[Any, int] = {}
    return runs((kinds.setdefault(_likeness(op), len(kinds)) for op in ops), fewest)


def layers_in(ops: Sequence[Operation], run: Repetition, fewest: int) -> LayerSpan | None:
    """Find at least `fewest` layers in a run, each reading the previous one, with the most ops.

    Where no op reads a result of the previous period, several periods are a layer: two networks
    side by side.
    """
    spans = (
        LayerSpan(run.begin, period, (run.end - run.begin) // period)
        for period in _in_a_row(ops, run, (run.end - run.begin) // fewest)
    )
    return max(spans, key=lambda span: (span.end, -span.period), default=None)


def _in_a_row(ops: Sequence[Operation], run: Repetition, longest: int) -> list[int]:
    """List the multiples of the period, up to `longest`, whose second layer reads the first."""
    first = ops[run.begin : run.begin + 2 * longest]
    place = {op: at for at, op in enumerate(first)}
    # by period, the change in the number of values that the second layer reads from the first
    more = np.zeros(longest + 2, np.int64)
    for at, op in enumerate(first):
        for value in op.operands:
            made = place.get(value.owner) if isinstance(value.owner, Operation) else None
            least = None if made is None else max(made, at // 2) + 1
            if least is not None and least <= min(at, longest):
                more[least] += 1
                more[min(at, longest) + 1] -= 1
    read = np.cumsum(more)[run.period : longest + 1 : run.period]
    return ((np.flatnonzero(read) + 1) * run.period).tolist()


def beginnings(ops: Sequence[Operation], span: LayerSpan) -> list[tuple[int, int]]:
    """List the ops with which a layer may begin, with the bytes that enter it; fewest bytes first.

    A layer in the middle shows which values go past an op, and which would go past two layers.
    """
    period = span.period
    middle = span.start + span.count // 2 * period
    around = ops[middle - period : middle + 2 * period]
    place = {op: at for at, op in enumerate(around)}
    reach: dict[SSAValue, tuple[int, int]] = {}
    for at, op in enumerate(around):
        for value in op.operands:
            made = place.get(value.owner) if isinstance(value.owner, Operation) else None
            if made is not None and made < period:
                reach[value] = made + 1, at - made
    bytes_past = _sums(
        period,
        ((at, min(ahead, period), abs(byte_count(v.type))) for v, (at, ahead) in reach.items()),
    )
    too_old = _sums(period, ((at, ahead - period, 1) for at, ahead in reach.values()))
    order = np.argsort(bytes_past, kind="stable")
    return [(int(bytes_past[at]), int(at)) for at in order if not too_old[at]]


def _sums(period: int, stretches: Iterable[tuple[int, int, int]]) -> Numbers:
    """Sum the weights of the stretches (first op, length, weight) over each op of a layer."""
    more = np.zeros(3 * period + 1, np.int64)
    for begin, length, weight in stretches:
        if length > 0:
            more[begin] += weight
            more[begin + length] -= weight
    return np.cumsum(more)[:-1].reshape(3, period).sum(axis=0)


def _likeness(op: Operation) -> Any:
    """Return a key that like ops share; an op that cannot be in a layer has its own."""
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
    ops: Sequence[Operation], span: LayerSpan, state: Mapping[SSAValue, str]
) -> Wiring | Wrong:
    """Check how values flow through the layers of a span; each layer may read its own `state`."""
    place = {op: at for at, op in enumerate(ops[span.start : span.end], span.start)}
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
    """Classify one operand across all layers, and enter it in `found`."""
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
    name = ops[span.start + key[0]].name
    text = f"operand {key[1]} of {name} does not come from the same place in each layer"
    anywhere = len(set(sources[2:-1])) > 1 and len(set(values[2:-1])) > 1
    return Wrong(Reason("different-wiring", text), anywhere=anywhere)


def _source(
    value: SSAValue, place: Mapping[Operation, int], begin: int, period: int
) -> tuple[int, int, int] | None:
    """Locate a value's producer: its layer relative to this one, op and result; None if outside."""
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
        text = "the first layer reads several values, or another type, where others read one value"
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
    if _are_own(values, state):
        found.items[key] = tuple(values)
        return None
    text = "the layers read different values, which are not parameters of one layer each"
    inner = values[1:-1]
    anywhere = len(set(inner)) > 1 and not _are_own(inner, state)
    return Wrong(Reason("different-inputs", text), anywhere=anywhere)


def _are_own(values: Sequence[SSAValue], state: Mapping[SSAValue, str]) -> bool:
    """True if the values are parameters, a different one in each layer."""
    return all(value in state for value in values) and len(set(values)) == len(values)


def _escape(
    ops: Sequence[Operation], place: Mapping[Operation, int], found: Wiring
) -> Wrong | None:
    """Find inner values that are read outside, and divide the span into rows there.

    A row ends with a layer whose carried value is read outside, and before a layer whose other
    value is.
    """
    span, first = found.span, 0
    reason: Reason | None = None
    rows: list[LayerSpan] = []
    for layer in range(span.count):
        inner, carried = _read_outside(ops, place, found, layer)
        escaped = inner or (carried if layer < span.count - 1 else None)
        if escaped is None:
            continue
        reason = reason or _escape_reason(layer, *escaped)
        rows.append(span.part(first, layer + (inner is None)))
        first = layer + 1
    rows.append(span.part(first, span.count))
    return Wrong(reason, tuple(rows)) if reason is not None else None


def _read_outside(
    ops: Sequence[Operation], place: Mapping[Operation, int], found: Wiring, layer: int
) -> tuple[tuple[OpResult, Use] | None, tuple[OpResult, Use] | None]:
    """Find a layer's first value that is read outside: among its inner and its carried values."""
    span = found.span
    inner = carried = None
    for number in range(span.period):
        for result in ops[span.start + layer * span.period + number].results:
            use = next((use for use in result.uses if use.operation not in place), None)
            if use is not None and (number, result.index) in found.carried:
                carried = carried or (result, use)
            elif use is not None:
                inner = inner or (result, use)
    return inner, carried


def _escape_reason(layer: int, result: OpResult, use: Use) -> Reason:
    how = how_used(use.operation, use.index)
    return Reason("interior-used", f"the value %{result.name_hint} of layer {layer} is {how}")


def _numbers(ops: Sequence[Operation], found: Wiring) -> Wrong | None:
    """Enter the stride of the random ops' numbers from layer to layer."""
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
        text = "the random ops are not numbered evenly, so that a loop would draw other numbers"
        return Wrong(Reason("random-numbers", text))
    found.rng_stride = steps.pop() if steps else 0
    return None
