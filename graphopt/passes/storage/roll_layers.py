"""Layers that repeat -> `pd.layers`: one of them in a region, with the parameters of all in stacks.

What XLA compiles then no longer grows with the depth of a model. `stack-state` stores the stacks in
the scope, so that a step stacks no state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

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
from graphopt.passes.storage.repeats import Span, Wiring, Wrong, candidates, layers_at
from graphopt.passes.storage.stacked_state import state_arguments


@dataclass(frozen=True)
class RollLayers(RewritePass):
    """Roll up at least `fewest` like layers in a row, of at least `fewest_ops` ops together.

    With `recompute` derivatives keep only what goes from layer to layer. `apart` says, where it is
    so, why state cannot be in stacks.
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
        refused: set[Operation] = set()
        while self._one(block, state, log, refused):
            pass
        return log.outcomes

    def _one(
        self, block: Block, state: Mapping[SSAValue, str], log: RewriteLog, refused: set[Operation]
    ) -> bool:
        """Roll up the longest remaining row of layers; False when there is none."""
        ops = list(block.ops)
        for span in candidates(ops, self.fewest):
            inside = ops[span.start : span.end]
            if len(inside) < self.fewest_ops or not refused.isdisjoint(inside):
                continue
            wiring = best_layers(ops, span, state, self.fewest)
            if isinstance(wiring, Wiring) and not wiring.items:
                continue
            if isinstance(wiring, Wiring) and (update := _single_update(wiring)) is not None:
                text = f"{show_op(update)} cannot update stacks of parameters"
                wiring = Wrong(Reason("update-of-one", text, "use sgd, momentum, adam or adamw"))
            if self.apart:
                wiring = Wrong(Reason("state-apart", self.apart))
            if isinstance(wiring, Wrong):
                log.declined(inside[0], wiring.reason)
                refused.update(inside)
            elif self._roll(ops, wiring, log):
                return True
            else:
                refused.update(inside)
        return False

    def _roll(self, ops: Sequence[Operation], wiring: Wiring, log: RewriteLog) -> bool:
        """Put `pd.layers` in place of the layers; False when they must stay."""
        span = wiring.span
        inside = ops[span.start : span.end]
        if not log.allow(inside[0]):
            return False
        log.applied(inside[0], *inside[1:])
        made = rolled(ops, wiring, recompute=self.recompute)
        last = inside[-span.period :]
        values: dict[SSAValue, SSAValue] = {
            last[number].results[index]: result
            for (number, index), result in zip(wiring.carried, made.results, strict=True)
        }
        if log.vetoed(inside, values):
            return False
        replace_uses(values)
        for op in reversed(inside):
            op.detach()
            op.erase()
        return True


def _single_update(wiring: Wiring) -> Operation | None:
    """An update of a parameter of the layers that has no form for stacks."""
    for values in wiring.items.values():
        for use in values[0].uses:
            if isinstance(use.operation, (Update, Dpsgd)) and type(use.operation) not in FUSED:
                return use.operation
    return None


def best_layers(
    ops: Sequence[Operation], span: Span, state: Mapping[SSAValue, str], fewest: int
) -> Wiring | Wrong:
    """The layers of a span, begun where the least goes from one to the next.

    Layers with values that are read elsewhere are left out. The reason is the one for the first
    beginning when there is none.
    """
    best: Wiring | Wrong | None = None
    for shift in range(span.period):
        moved = Span(span.start + shift, span.period, span.count - (shift > 0))
        if moved.count < fewest:
            break
        found = _longest(ops, moved, state, fewest)
        if isinstance(found, Wiring):
            if not isinstance(best, Wiring) or _cost(found) < _cost(best):
                best = found
            if len(found.carried) == 1:
                break
        best = best or found
    assert best is not None
    return best


def _longest(
    ops: Sequence[Operation], span: Span, state: Mapping[SSAValue, str], fewest: int
) -> Wiring | Wrong:
    found = layers_at(ops, span, state)
    if isinstance(found, Wiring) or found.layer is None:
        return found
    before = replace(span, count=found.layer)
    skipped = (found.layer + 1) * span.period
    after = Span(span.start + skipped, span.period, span.count - found.layer - 1)
    for part in sorted((before, after), key=lambda part: -part.count):
        if part.count >= fewest:
            other = _longest(ops, part, state, fewest)
            if isinstance(other, Wiring):
                return other
    return found


def _cost(wiring: Wiring) -> tuple[int, int]:
    """Bytes that go from layer to layer, then how few layers there are."""
    return sum(abs(byte_count(v.type)) for v in wiring.carried.values()), -wiring.span.count


def rolled(ops: Sequence[Operation], wiring: Wiring, *, recompute: bool) -> Layers:
    """The `pd.layers`, with stacks of what its layers read, in front of the first of these."""
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
    """The first layer as a block."""
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
