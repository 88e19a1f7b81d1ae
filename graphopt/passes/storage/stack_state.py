"""Parameters and optimizer state of one shape are stored as one array, which one op updates.

A step costs time for every argument and result, and for every small kernel. So parameters that a
`pd.layers` walks over are stored in stacks between steps, with their optimizer state: a stack is
one argument, and a `stacked` update changes the whole stack at once, each parameter separately.
With fuse_adamw or fuse_all_optimizer_ops, so are other small parameters of one shape; their
gradients are stacked in the step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import OpResult, SSAValue

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.definition import operand_names
from graphopt.ir.dialect.ops.control import Layers
from graphopt.ir.dialect.ops.rearrange import Unbind
from graphopt.ir.dialect.ops.shape import Stack
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.ops.update.fused import FUSED, FusedUpdate
from graphopt.ir.dialect.signature import STATE, main_function, signature_of
from graphopt.ir.dialect.types import UNKNOWN, byte_count, shape_of
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.grouping import movable
from graphopt.passes.engine.naming import joined_location
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass
from graphopt.passes.storage.fuse_all_optimizer_ops import fused_properties, read_early
from graphopt.passes.storage.stacked_state import (
    Names,
    fold_stacks,
    stack_at_rest,
    state_arguments,
)

NOT_STATE = Reason(
    "not-state", "the update does not write whole variables of the scope, each of them once"
)
LARGEST = 64 * 1024
"""The most bytes of a parameter whose gradient is worth copying into a stack."""


@dataclass(frozen=True)
class StackState(RewritePass):
    """Stack the parameters that layers walk over, and the state of `fewest` or more like updates.

    With 0 only layers count: taking single parameters out of stacks makes XLA compile longer, as no
    two of these kernels are the same. `apart` is the reason why state cannot be in stacks, if there
    is one.
    """

    name = "stack-state"
    numerics = Numerics.BIT_EXACT
    changes_signature = True
    fewest: int = 0
    apart: str = ""

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        run = _Stacking(module, log, self.fewest)
        groups = run.groups()
        if self.apart:
            for group in groups:
                log.declined(group[-1].op, Reason("state-apart", self.apart))
            return log.outcomes
        run.apply(groups)
        return log.outcomes


@dataclass
class OneUpdate:
    """The update of one parameter: operands and results by the names of the single update."""

    op: Update
    kind: type[FusedUpdate]
    rate: SSAValue
    operands: dict[str, SSAValue]
    results: dict[str, OpResult]
    attrs: dict[str, Any] = field(repr=False)

    @property
    def param(self) -> SSAValue:
        return self.operands["param"]

    def key(self) -> tuple[Any, ...]:
        """Return the key that the updates of one stack share."""
        types = tuple((name, value.type) for name, value in self.operands.items())
        return self.kind, self.op.parent, self.rate, types, frozenset(self.attrs.items())


def ones_of(op: Update) -> list[OneUpdate]:
    """Split an op into updates of one parameter each; empty for a kind without a fused form."""
    fused = isinstance(op, FusedUpdate)
    kind = type(op) if fused else FUSED.get(type(op))
    if kind is None or (fused and op.attr("stacked")):
        return []
    attrs = op.attr_values() if fused else fused_properties(op)
    attrs.pop("stacked", None)
    found: list[OneUpdate] = []
    for single in op.singles():
        operands = {name: op.operands[at] for name, at in single.operands.items()}
        rate = operands.pop("learning_rate")
        results = {name: op.results[at] for name, at in single.results.items()}
        found.append(OneUpdate(op, kind, rate, operands, results, attrs))
    return found


class _Stacking:
    """One run of the pass."""

    def __init__(self, module: ModuleOp, log: RewriteLog, fewest: int) -> None:
        self.module = module
        self.block = main_function(module).body.block
        self.log = log
        self.fewest = fewest
        self.state = state_arguments(module)
        self.layers = self._layers()

    def _layers(self) -> list[Names]:
        """Find the variables of each stack that layers walk over."""
        found: dict[Names, None] = {}
        taken: set[str] = set()
        for op in self.block.ops:
            if not isinstance(op, Stack) or op.attr("axis"):
                continue
            names = tuple(self.state.get(value, "") for value in op.operands)
            walked = any(isinstance(use.operation, Layers) for use in op.results[0].uses)
            fresh = "" not in names and not taken & set(names)
            if walked and fresh and len(set(names)) == len(names) > 1:
                found[names] = None
                taken |= set(names)
        return list(found)

    def groups(self) -> list[list[OneUpdate]]:
        """Group the updates that become one, in the order of the stacks of their parameters."""
        alike: dict[Any, list[OneUpdate]] = {}
        for op in self.block.ops:
            if isinstance(op, Update):
                for one in ones_of(op):
                    alike.setdefault(one.key(), []).append(one)
        found: list[list[OneUpdate]] = []
        for ones in alike.values():
            left = {self.state.get(one.param, ""): one for one in self._free(ones)}
            for names in self.layers:
                if all(name in left for name in names):
                    found.append([left.pop(name) for name in names])
            walked = {name for names in self.layers for name in names}
            rest = [one for name, one in left.items() if name not in walked]
            if rest and self._pays(rest):
                found.append(rest)
        return found

    def _free(self, ones: Sequence[OneUpdate]) -> list[OneUpdate]:
        """Select updates of whole scope variables that can wait for the last update."""
        ends = self._returned_state()
        fit: list[OneUpdate] = []
        for one in ones:
            names = {role: self.state.get(one.operands[role]) for role in one.results}
            kept = all(ends.get(one.results[role]) == names[role] for role in one.results)
            if None not in names.values() and kept:
                fit.append(one)
            elif len(ones) >= self.fewest > 0:
                self.log.declined(one.op, NOT_STATE)
        ops = list(dict.fromkeys(one.op for one in fit))
        stay = set(movable(ops, self.log, read_early)) if len(ops) > 1 else set(ops)
        return [one for one in fit if one.op in stay]

    def _returned_state(self) -> dict[SSAValue, str]:
        """Map the final values of state to the names of the variables."""
        end = self.block.last_op
        assert end is not None
        ports = signature_of(self.module).results
        pairs = zip(end.operands, ports, strict=True)
        return {value: port.name for value, port in pairs if port.kind == STATE}

    def _pays(self, ones: Sequence[OneUpdate]) -> bool:
        """True when stacking the gradients costs less than it saves."""
        first, size = ones[0], byte_count(ones[0].param.type)
        if not self.fewest or UNKNOWN in shape_of(first.param.type):
            return False
        if len(ones) < self.fewest:
            text = (
                f"a stack needs {self.fewest} parameters that are updated alike, found {len(ones)}"
            )
            self.log.declined(ones[-1].op, Reason("few", text))
            return False
        if size > LARGEST:
            text = (
                f"each parameter has {size} bytes, more than the {LARGEST} up to which copying pays"
            )
            self.log.declined(ones[-1].op, Reason("large", text, "none: copying would cost time"))
            return False
        return True

    def apply(self, groups: Sequence[Sequence[OneUpdate]]) -> None:
        """Update the groups as stacks."""
        chosen = [group for group in groups if self.log.allow(group[-1].op)]
        names = dict.fromkeys(self.layers)
        for group in chosen:
            ops = list(dict.fromkeys(one.op for one in group))
            self.log.applied(ops[-1], *ops[:-1])
            for role in group[0].results:
                names[tuple(self.state[one.operands[role]] for one in group)] = None
        for group in chosen:
            self._update(group)
        self._drop([one for group in chosen for one in group])
        stack_at_rest(self.module, list(names))
        fold_stacks(self.module)

    def _update(self, group: Sequence[OneUpdate]) -> None:
        """Insert one op on stacks before the last update, and unbind its results."""
        place = {op: number for number, op in enumerate(self.block.ops)}
        last, first = max((one.op for one in group), key=place.__getitem__), group[0]
        location = joined_location(dict.fromkeys(one.op for one in group))

        def stack(role: str) -> list[SSAValue]:
            made = Stack.make([one.operands[role] for one in group], location=location)
            self.block.insert_op_before(made, last)
            return [made.results[0]]

        fused = made_of(group, stack)
        fused.location = location
        self.block.insert_op_before(fused, last)
        values: dict[SSAValue, SSAValue] = {}
        for role, result in zip(first.results, fused.results, strict=True):
            apart = Unbind.make(result, location=location)
            self.block.insert_op_before(apart, last)
            pairs = zip(group, apart.results, strict=True)
            values |= {one.results[role]: new for one, new in pairs}
        replace_uses(values)

    def _drop(self, taken: Sequence[OneUpdate]) -> None:
        """Remove the updates that stacks replace; ops with other updates keep these."""
        gone = {result for one in taken for result in one.results.values()}
        for op in dict.fromkeys(one.op for one in taken):
            rest = [one for one in ones_of(op) if gone.isdisjoint(one.results.values())]
            if rest:
                fused = made_of(rest, lambda role, rest=rest: [one.operands[role] for one in rest])
                fused.location = op.location
                self.block.insert_op_before(fused, op)
                old = [result for one in rest for result in one.results.values()]
                replace_uses(dict(zip(old, fused.results, strict=True)))
            op.detach()
            op.erase()


def made_of(ones: Sequence[OneUpdate], values: Callable[[str], Sequence[SSAValue]]) -> FusedUpdate:
    """Build the op for these updates; `values` returns the values of an operand by its name.

    One value for several updates is a stack.
    """
    first = ones[0]
    lists = dict(first.kind.SLOTS)
    operands: list[Any] = []
    for name in operand_names(first.kind):
        if name == "learning_rate":
            operands.append(first.rate)
        else:
            operands.append(values(lists[name]) if lists[name] in first.operands else [])
    stacked = len(operands[0]) < len(ones)
    return first.kind.make(*operands, **first.attrs, stacked=stacked)
