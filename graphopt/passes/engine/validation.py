"""Translation validation: called for every rewrite while the old and the new ops coexist.

It allows all rewrites, except inside of `validating`: there a validator compares the old values
with the new ones, and a rewrite that changes them is undone and reported as declined, with the
reason `failed-validation`. Nothing is kept between runs: a `Validation` starts and ends with
`validating`. Passes do not know the validator; the caller of `validating` supplies it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation, OpResult, SSAValue

from graphopt.display.units import several, times
from graphopt.ir.dialect.regions import values_read
from graphopt.passes.engine.naming import show_op
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.pattern import Reason
from graphopt.passes.engine.undo import KeptModule, top

FAILED_VALIDATION = "failed-validation"
VALIDATED, NOT_VALIDATED, FAILED = "validated", "not validated", "failed"


@dataclass(frozen=True)
class Instance:
    """One rewrite: the ops that it replaces, first the one that is reported, and the values.

    `values` pairs old values with the new ones that replace them. `complete` means that `old` has
    all ops that the rewrite looked at; otherwise the rewrite may depend on earlier ops. Where the
    old ops belong to a copy of the program, `new` are the ops that replace them, and `same` maps
    the values of the copy that the program still has to the program's values.
    """

    rule: str
    numerics: Numerics
    old: tuple[Operation, ...]
    values: tuple[tuple[SSAValue, SSAValue], ...]
    complete: bool
    new: frozenset[Operation] | None = None
    same: Mapping[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])


@dataclass(frozen=True)
class Programs:
    """A program before a pass and after it, compared as a whole because no part can be."""

    rule: str
    numerics: Numerics
    before: ModuleOp
    after: ModuleOp


@dataclass(frozen=True)
class Verdict:
    """A validator's verdict on a change: VALIDATED, NOT_VALIDATED or FAILED, and the reason."""

    status: str
    text: str = ""


@dataclass(frozen=True)
class Checked:
    """The verdict on one instance, by pass and place."""

    rule: str
    anchor: str
    status: str
    text: str


Form = tuple[dict[str, Attribute], tuple[SSAValue, ...]]


def form_of(op: Operation) -> Form:
    """Capture the form of an op: its properties and operands."""
    return dict(op.properties), tuple(op.operands)


@dataclass(frozen=True)
class Proof:
    """A validated rewrite: the value that was replaced, and the forms of its ops at that time."""

    old: SSAValue
    numerics: Numerics
    forms: Mapping[Operation, Form]


Validator = Callable[[Instance | Programs], Verdict]


@dataclass
class Validation:
    """The result of validating the rewrites of one run.

    `kept` is the program before the rewrite that is under way.
    """

    validator: Validator
    checked: list[Checked] = field(default_factory=list[Checked])
    kept: KeptModule | None = None
    proofs: dict[SSAValue, Proof] = field(default_factory=dict[SSAValue, Proof])
    """The latest validated rewrite that computed each new value."""

    def of(self, status: str) -> list[Checked]:
        """List the instances with this status."""
        return [item for item in self.checked if item.status == status]

    @property
    def failed(self) -> list[Checked]:
        """The rewrites that computed something else, and were undone."""
        return self.of(FAILED)

    def lines(self) -> Iterator[str]:
        """Format the result; equal reports of rewrites not validated share a line."""
        counts = [len(self.of(status)) for status in (VALIDATED, FAILED, NOT_VALIDATED)]
        good, wrong, open_ = counts
        yield (
            f"validation: {several(good, 'rewrite')} validated, {wrong} failed and undone, "
            f"{open_} not validated"
        )
        for item in self.failed:
            yield f"  {FAILED} in {item.rule} at {item.anchor}: {item.text}"
        alike = Counter((item.rule, item.text) for item in self.of(NOT_VALIDATED))
        for (rule, text), number in alike.items():
            yield f"  {NOT_VALIDATED} in {rule}, {times(number)}: {text}"

    def to_json(self) -> dict[str, Any]:
        """Convert the result to plain data."""
        rewrites = [
            {"pass": item.rule, "op": item.anchor, "status": item.status, "text": item.text}
            for item in self.checked
        ]
        counts = {status: len(self.of(status)) for status in (VALIDATED, FAILED, NOT_VALIDATED)}
        return {"counts": counts, "rewrites": rewrites}


_validation: ContextVar[Validation | None] = ContextVar("graphopt_validation", default=None)


@contextmanager
def validating(validator: Validator) -> Generator[Validation]:
    """Validate every rewrite; the verdicts are in the `Validation`."""
    validation = Validation(validator)
    token = _validation.set(validation)
    try:
        yield validation
    finally:
        _validation.reset(token)


def current() -> Validation | None:
    """Return the active validation; None outside of `validating`."""
    return _validation.get()


def veto(
    rule: str,
    numerics: Numerics | None,
    old: Sequence[Operation],
    values: Mapping[SSAValue, SSAValue],
    *,
    complete: bool = False,
) -> Reason | None:
    """Validate a rewrite; return a reason if it computes something else, for the caller to undo it.

    The new ops are in place, and nothing reads them but each other. A pass that does not declare
    its class of numerics must be bit-exact.
    """
    validation = _validation.get()
    if validation is None:
        return None
    pairs = tuple((before, after) for before, after in values.items() if before.uses)
    found = Instance(rule, numerics or Numerics.BIT_EXACT, tuple(old), pairs, complete)
    verdict = validation.validator(found)
    anchor = show_op(old[0])
    validation.checked.append(Checked(rule, anchor, verdict.status, verdict.text))
    if verdict.status == VALIDATED:
        proof = {op: form_of(op) for op in (*old, *_made_ops(values, validation.kept))}
        for before, after in pairs:
            validation.proofs[after] = Proof(before, found.numerics, proof)
    if verdict.status != FAILED:
        return None
    fix = f"none: this is a bug in the pass {rule}; leave the pass out and report the bug"
    return Reason(FAILED_VALIDATION, verdict.text, fix)


def _made_ops(values: Mapping[SSAValue, SSAValue], kept: KeptModule | None) -> Iterator[Operation]:
    """Yield the ops that a rewrite has made."""
    before = kept.before if kept is not None else frozenset[Operation]()
    waiting, seen = list(values.values()), set[Operation]()
    while waiting:
        op = waiting.pop().owner
        if isinstance(op, Operation) and op not in before and op not in seen:
            seen.add(op)
            yield op
            waiting += values_read(op)


def begin(op: Operation) -> None:
    """Take a snapshot of the program of `op` when a rewrite begins, to undo its changes."""
    validation = _validation.get()
    module = top(op) if validation is not None else None
    if validation is not None and module is not None:
        validation.kept = KeptModule(module)


def take_back(values: Mapping[SSAValue, SSAValue]) -> None:
    """Undo a vetoed rewrite: restore the program as it was when the rewrite began.

    New ops older than this snapshot are erased too, if no op reads them.
    """
    validation = _validation.get()
    if validation is not None and validation.kept is not None:
        validation.kept.put_back()
    waiting = [new.op for new in values.values() if isinstance(new, OpResult)]
    while waiting:
        op = waiting.pop()
        if op.parent is None or any(result.uses for result in op.results):
            continue
        before = [value.op for value in op.operands if isinstance(value, OpResult)]
        op.detach()
        op.erase()
        waiting += before
