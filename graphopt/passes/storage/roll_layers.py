"""Layers that repeat -> `pd.layers`: one layer in a region, with the parameters of all in stacks.

So the code that XLA compiles does not grow with the depth of a model. `stack-state` stores the
stacks in the scope, so that a step stacks no state.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import Layers, Yield
from graphopt.ir.dialect.ops.shape import Stack
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.ops.update.fused import FUSED
from graphopt.ir.dialect.ops.update.plain import Dpsgd
from graphopt.ir.dialect.signature import main_function
from graphopt.ir.dialect.types import byte_count
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.naming import joined_location, show_op
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass
from graphopt.passes.storage.repeats import (
    LayerSpan,
    Wiring,
    Wrong,
    beginnings,
    find_repeats,
    layers_at,
    layers_in,
)
from graphopt.passes.storage.repetitions import Repetition
from graphopt.passes.storage.stacked_state import state_arguments

BEGINNINGS = 32
"""The most layer beginnings to try; each is tried on all layers."""
LARGE = 4 << 20
"""The most bytes of a layer's parameters in a loop, which copies them in each step.

With more, a loop took 1.1 to 1.3 times as long, and up to 1.7 times for few rows with a derivative.
"""
MANY = 48
"""The number of layers from which the time to compile them one by one counts more."""


@dataclass(frozen=True)
class RollLayers(RewritePass):
    """Roll up at least `fewest` like layers in a row, of at least `fewest_ops` ops together.

    With `recompute`, derivatives keep only the values that go from layer to layer. `apart` is the
    reason why state cannot be in stacks, if there is one.
    """

    name = "roll-layers"
    numerics = Numerics.BIT_EXACT
    fewest: int = 12
    fewest_ops: int = 32
    recompute: bool = False
    apart: str = ""

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        block = main_function(module).body.block
        state = state_arguments(module)
        ops = list(block.ops)
        rows = _RepeatedRows(ops, self.fewest, self.fewest_ops)
        for span in rows:
            found = best_layers(ops, span, state, self.fewest)
            if isinstance(found, list):
                rows.add(found)
                continue
            if isinstance(found, Wiring) and not found.items:
                continue
            if isinstance(found, Wiring) and (update := _single_update(found)) is not None:
                text = f"{show_op(update)} cannot update stacks of parameters"
                found = Wrong(Reason("update-of-one", text, "use sgd, momentum, adam or adamw"))
            if isinstance(found, Wiring) and (why := _why_slow(found)) is not None:
                found = Wrong(why)
            if self.apart:
                found = Wrong(Reason("state-apart", self.apart))
            if isinstance(found, Wrong):
                log.declined(ops[span.start], found.reason)
                rows.mark_staying(span)
            elif self._roll(ops, found, log):
                rows.mark_rolled(found.span)
            else:
                rows.mark_staying(span)
        return log.outcomes

    def _roll(self, ops: Sequence[Operation], wiring: Wiring, log: RewriteLog) -> bool:
        """Put `pd.layers` in place of the layers; False when they must stay."""
        span = wiring.span
        inside = ops[span.start : span.end]
        if not log.allow(inside[0]):
            return False
        log.applied(inside[0], *inside[1:])
        made = roll(ops, wiring, recompute=self.recompute)
        last = inside[-span.period :]
        values: dict[SSAValue, SSAValue] = {
            last[number].results[index]: result
            for (number, index), result in zip(wiring.carried, made.results, strict=True)
        }
        if log.undo_if_wrong(inside, values):
            return False
        replace_uses(values)
        for op in reversed(inside):
            op.detach()
            op.erase()
        return True


class _RepeatedRows:
    """The rows of repeated ops that may still be rolled up, the longest first.

    Rows of fewer than `fewest` periods or `fewest_ops` ops are left out; parts of a row may have
    fewer ops.
    """

    def __init__(self, ops: Sequence[Operation], fewest: int, fewest_ops: int) -> None:
        self._ops = ops
        self._fewest = fewest
        self._rolled = bytearray(len(ops))
        self._staying = bytearray(len(ops))
        self._queue: list[tuple[tuple[int, int, int], LayerSpan, Repetition]] = []
        for run in find_repeats(ops, fewest):
            self._add(run, fewest_ops)

    def __iter__(self) -> Iterator[LayerSpan]:
        while self._queue:
            _, span, run = heappop(self._queue)
            if 1 in self._rolled[run.begin : run.end]:
                for begin, end in _zeros(self._rolled, run.begin, run.end):
                    self._add(Repetition(begin, end, run.period))
            elif 1 not in self._staying[span.start : span.end]:
                yield span

    def add(self, spans: Iterable[LayerSpan]) -> None:
        """Enter parts of a row that has to be divided."""
        for span in spans:
            self._add(Repetition(span.start, span.end, span.period))

    def _add(self, run: Repetition, fewest_ops: int = 0) -> None:
        span = layers_in(self._ops, run, self._fewest)
        length = 0 if span is None else span.period * span.count
        if span is not None and length >= fewest_ops:
            heappush(self._queue, ((-length, span.period, span.start), span, run))

    def mark_rolled(self, span: LayerSpan) -> None:
        """Mark these ops as rolled up."""
        self._rolled[span.start : span.end] = b"\1" * (span.end - span.start)

    def mark_staying(self, span: LayerSpan) -> None:
        """Mark these ops as staying unchanged."""
        self._staying[span.start : span.end] = b"\1" * (span.end - span.start)


def _zeros(marks: bytearray, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the unmarked stretches between two positions."""
    while (begin := marks.find(0, begin, end)) >= 0:
        until = marks.find(1, begin, end)
        until = end if until < 0 else until
        yield begin, until
        begin = until


def _why_slow(wiring: Wiring) -> Reason | None:
    """Return the reason why a loop over the layers would be slower than the layers one by one."""
    own, count = {values[0] for values in wiring.items.values()}, wiring.span.count
    copied = sum(max(0, byte_count(value.type)) for value in own)
    if copied <= LARGE or count >= MANY:
        return None
    text = f"a loop would copy {copied / 1e6:.1f} MB of parameters in each of {count} steps"
    return Reason("large-parameters", text)


def _single_update(wiring: Wiring) -> Operation | None:
    """Find an update of the layers' parameters that has no form for stacks."""
    for values in wiring.items.values():
        for use in values[0].uses:
            if isinstance(use.operation, (Update, Dpsgd)) and type(use.operation) not in FUSED:
                return use.operation
    return None


def best_layers(
    ops: Sequence[Operation], span: LayerSpan, state: Mapping[SSAValue, str], fewest: int
) -> Wiring | Wrong | list[LayerSpan]:
    """Find the layers of a span, begun where the fewest bytes go from one to the next.

    Where values of some layers are read elsewhere, return the rows of layers between these. If
    there are none, return the reason for layers that begin with the span.
    """
    best: list[LayerSpan] = []
    least = 0
    for carried, shift in beginnings(ops, span)[:BEGINNINGS]:
        moved = LayerSpan(span.start + shift, span.period, span.count - (shift > 0))
        if moved.count < fewest or (best and carried > least):
            continue
        found = layers_at(ops, moved, state)
        if isinstance(found, Wiring):
            return found
        rows = [row for row in found.rows if row.count >= fewest]
        if sum(row.count for row in rows) > sum(row.count for row in best):
            best, least = rows, carried
        if found.anywhere:
            break
    return best or layers_at(ops, span, state)


def roll(ops: Sequence[Operation], wiring: Wiring, *, recompute: bool) -> Layers:
    """Build the `pd.layers` before the first layer, with stacks of the state that layers read."""
    span = wiring.span
    first = ops[span.start]
    block = first.parent
    assert block is not None
    location = joined_location(ops[span.start : span.start + span.period])
    stacks: dict[tuple[SSAValue, ...], SSAValue] = {}
    for values in dict.fromkeys(wiring.items.values()):
        made = Stack.make(list(values), location=location)
        block.insert_op_before(made, first)
        stacks[values] = made.results[0]
    start = list(wiring.carried.values())
    found = Layers.build_with(
        [start, list(stacks.values())],
        [value.type for value in start],
        [_body(ops, wiring, list(stacks))],
        rng_stride=wiring.rng_stride,
        recompute=recompute,
    )
    found.location = location
    block.insert_op_before(found, first)
    return found


def _body(
    ops: Sequence[Operation], wiring: Wiring, stacks: Sequence[tuple[SSAValue, ...]]
) -> Block:
    """Copy the first layer into a block."""
    span = wiring.span
    carried = list(wiring.carried)
    types = [value.type for value in wiring.carried.values()]
    body = Block(arg_types=[*types, *(values[0].type for values in stacks)])
    for argument, values in zip(body.args[len(carried) :], stacks, strict=True):
        argument.name_hint = values[0].name_hint
    copies: dict[SSAValue, SSAValue] = {}
    for number, op in enumerate(ops[span.start : span.start + span.period]):
        assert isinstance(op, PdOp)
        copy = op.clone(copies)
        for position in range(len(op.operands)):
            key = number, position
            if key in wiring.reads:
                copy.operands[position] = body.args[carried.index(wiring.reads[key])]
            elif key in wiring.items:
                at = stacks.index(wiring.items[key])
                copy.operands[position] = body.args[len(carried) + at]
        for old, new in zip(op.results, copy.results, strict=True):
            new.name_hint = old.name_hint
        body.add_op(copy)
    made = [op.results for op in body.ops]
    body.add_op(Yield.make([made[number][index] for number, index in carried]))
    return body
