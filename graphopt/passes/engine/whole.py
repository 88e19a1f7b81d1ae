"""The changes that a pass made, found by comparing the program before it with the program after it.

A pass may report other changes than it made, or none. So a copy is taken before it. An op that
remains in the program, with the same properties, corresponds to its op of the copy; where such an
op now reads another value, the two values have to be equal as functions of values that both
programs have. Each group of ops that came, went or changed makes an `Instance`. If all are right,
so is the program: by induction from its inputs to its results.

Where parts cannot be compared (a derivative or the signature changed), the two programs are
compared as wholes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.traits import is_side_effect_free

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import Yield
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.regions import values_read
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.undo import KeptModule
from graphopt.passes.engine.validation import FAILED, Instance, Programs, Proof, Verdict, form_of

Pair = tuple[SSAValue, SSAValue]


@dataclass(frozen=True)
class Changes:
    """The changes of a pass: instances to compare, or a verdict without comparison."""

    instances: tuple[Instance | Programs, ...] = ()
    verdict: Verdict | None = None

    def __bool__(self) -> bool:
        return bool(self.instances) or self.verdict is not None


class ProgramBefore:
    """A program before a pass: a copy to compare with, and a snapshot to restore."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.kept = KeptModule(module)
        self._values: dict[SSAValue, SSAValue] = {}
        self.copy = module.clone(self._values)
        self._copies = dict(zip(module.walk(), self.copy.walk(), strict=True))

    def changes(self, rule: str, numerics: Numerics) -> Changes:
        """Find the changes since the start of the pass."""
        there = self._there()
        lost = _effects(self.copy, there.values()) - _effects(self.module, there)
        if lost:
            return Changes(verdict=Verdict(FAILED, f"{next(iter(lost))[0]} is gone or changed"))
        same = {
            self._values[value]: value for op in there for value in (*op.results, *_arguments(op))
        }
        pairs = [
            (before, now)
            for op, copy in there.items()
            for before, now in zip(copy.operands, op.operands, strict=True)
            if same.get(before) is not now
        ]
        still = set(there.values())
        old = frozenset(op for op in self.copy.walk() if op not in still)
        new = frozenset(op for op in self.module.walk() if op not in there)
        if _is_one(there, old | new, pairs):
            return Changes((Programs(rule, numerics, self.copy, self.module),))
        groups = _groups(dict.fromkeys(pairs), old | new)
        return Changes(
            tuple(
                Instance(
                    rule,
                    numerics,
                    tuple(op for op in ops if op in old),
                    tuple(found),
                    False,
                    new,
                    same,
                )
                for found, ops in groups
            )
        )

    def proven(self, change: Instance, proofs: Mapping[SSAValue, Proof]) -> bool:
        """True when this change is a validated rewrite that has not changed since."""
        for before, now in change.values:
            proof = proofs.get(now)
            if proof is None or self._values.get(proof.old) is not before:
                return False
            if proof.numerics is not change.numerics:
                return False
            reached = list(
                _changed_inputs(
                    (before, now), frozenset(change.old) | (change.new or frozenset[Operation]())
                )
            )
            forms = {self._copies.get(op, op): form for op, form in proof.forms.items()}
            for op in reached:
                properties, operands = form_of(op)
                then = forms.get(op)
                if then is None or op.regions or then[0] != properties:
                    return False
                if tuple(operands) != then[1] and (
                    tuple(operands) != tuple(self._values.get(v, v) for v in then[1])
                ):
                    return False
        return True

    def _there(self) -> dict[Operation, Operation]:
        """Map the unchanged ops to their copies; their parents are unchanged too."""
        found: dict[Operation, Operation] = {}
        for op in self.module.walk():
            copy, parent = self._copies.get(op), op.parent_op()
            if copy is not None and (parent is None or parent in found) and _alike(op, copy):
                found[op] = copy
        return found


def _alike(op: Operation, copy: Operation) -> bool:
    return (
        op.properties == copy.properties
        and len(op.operands) == len(copy.operands)
        and list(op.result_types) == list(copy.result_types)
        and [value.type for value in _arguments(op)] == [v.type for v in _arguments(copy)]
    )


def _arguments(op: Operation) -> Iterator[SSAValue]:
    return (value for region in op.regions for block in region.blocks for value in block.args)


def _effects(module: ModuleOp, but: Iterable[Operation]) -> Counter[tuple[str, int]]:
    """Count the ops, without `but`, that are needed even if unread, for their effects."""
    left_out = set(but)
    return Counter(
        (op.name, hash(frozenset(op.properties.items())))
        for op in module.walk()
        if op not in left_out
        and isinstance(op, PdOp)
        and not (op.regions or isinstance(op, Yield) or is_side_effect_free(op))
    )


def _is_one(
    there: Mapping[Operation, Operation], changed: Iterable[Operation], pairs: Iterable[Pair]
) -> bool:
    """True when the program has to be compared as a whole."""
    if any(isinstance(op, (Grad, FuncOp)) for op in changed):
        return True
    wanted = {before for before, _ in pairs}
    return any(
        isinstance(copy, Grad) and not wanted.isdisjoint((*copy.wrt, *copy.no_grad))
        for copy in there.values()
    )


def _groups(
    pairs: Iterable[Pair], changed: frozenset[Operation]
) -> list[tuple[list[Pair], dict[Operation, None]]]:
    """Group the pairs that share changed ops; each group has its pairs and these ops."""
    group_of: dict[Operation, int] = {}
    groups: dict[int, tuple[list[Pair], dict[Operation, None]]] = {}
    for number, pair in enumerate(pairs):
        found: list[Pair] = []
        ops = dict.fromkeys(_changed_inputs(pair, changed))
        for other in {group_of[op] for op in ops if op in group_of}:
            others, theirs = groups.pop(other)
            found += others
            ops |= theirs
        groups[number] = [*found, pair], ops
        group_of.update(dict.fromkeys(ops, number))
    return list(groups.values())


def _changed_inputs(pair: Pair, changed: frozenset[Operation]) -> Iterator[Operation]:
    """Yield the changed ops that compute a pair of values."""
    waiting, seen = list(pair), set(pair)
    while waiting:
        op = waiting.pop().owner
        if isinstance(op, Operation) and op in changed:
            yield op
            found = [value for value in values_read(op) if value not in seen]
            seen.update(found)
            waiting += found
