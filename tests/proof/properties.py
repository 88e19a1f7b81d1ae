"""Every property of every way to optimize, on generated programs; counts the outcomes.

A program is optimized in many ways. After each the module is valid, its signature is the same, and
it computes the same outputs, gradients and state; a second run finds nothing; a pass that claims
to be bit-exact changes no bit of a program without derivatives.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.ops.grad import Grad, Vjp
from graphopt.ir.dialect.signature import signature_of
from graphopt.ir.dialect.verify_ssa import verify_ssa
from graphopt.passes.engine.fusion import Applied, FusionPass, Outcome
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewritePass
from graphopt.passes.table.registry import own_passes
from graphopt.testing.programs import Generated
from graphopt_tests.proof import judge
from graphopt_tests.proof.shape import fingerprint
from graphopt_tests.proof.transforms import (
    Transform,
    everything,
    flags,
    orders,
    pairs,
    passes,
    prefixes,
)

# XLA rounds to the declared dtypes, in an order of its own: float32, and dtypes of fewer bits
XLA_ALIKE, XLA_HALF = 1e-3, 1e-1


@dataclass
class Worst:
    """The largest differences so far, absolute and relative."""

    absolute: float = 0.0
    relative: float = 0.0

    def add(self, wanted: judge.Results, found: judge.Results) -> None:
        """Add the difference of two sets of results."""
        for name, array in wanted.items():
            absolute, relative = judge.deviation(array, found[name])
            self.absolute = max(self.absolute, absolute)
            self.relative = max(self.relative, relative)


@dataclass
class Tally:
    """The outcomes of all programs."""

    programs: int = 0
    runs: int = 0
    compared: int = 0
    compared_by_xla: int = 0
    bits: int = 0
    unknown: Counter[str] = field(default_factory=Counter[str])
    notes: Counter[str] = field(default_factory=Counter[str])
    fired: Counter[str] = field(default_factory=Counter[str])
    refused: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    real: dict[str, Worst] = field(default_factory=dict[str, Worst])
    """In float64, as if numbers were real ones."""
    declared: dict[str, Worst] = field(default_factory=dict[str, Worst])
    """Rounded to the declared dtypes after each op, for float32 programs."""
    by_xla: dict[str, Worst] = field(default_factory=dict[str, Worst])
    """By JAX and XLA, for float32 programs."""
    failures: list[str] = field(default_factory=list[str])


GROUPS = ("pass group-elementwise", "pass group-reductions")


class Prover:
    """Tries the ways to optimize on one program after another."""

    def __init__(self, *, xla_share: float = 0.0, others: int = 6) -> None:
        self.tally = Tally()
        self.xla_share, self.others = xla_share, others
        self.passes = passes()
        self.telling = {
            f"pass {name}"
            for name, load in own_passes().items()
            if issubclass(load(), (FusionPass, RewritePass))
        }
        self.always = {**self.passes, **everything()}
        self.rest = {**flags(), **pairs(), **prefixes(), **orders(20)}
        self.numerics = {
            f"pass {name}": getattr(load(), "numerics", None) for name, load in own_passes().items()
        }

    def prove(self, generated: Generated, number: int) -> None:
        """Try all passes alone and all flags, and a few flags, pairs, prefixes and orders."""
        chooser = random.Random(number)
        chosen = chooser.sample(sorted(self.rest), min(self.others, len(self.rest)))
        ways = {**self.always, **{name: self.rest[name] for name in chosen}}
        by_xla = chooser.random() < self.xla_share
        self.tally.programs += 1
        self.tally.notes.update(generated.notes)
        _Trial(self, generated, number, by_xla=by_xla).run(ways)


class _Trial:
    """One program, optimized in all ways."""

    def __init__(self, prover: Prover, generated: Generated, number: int, *, by_xla: bool) -> None:
        self.prover, self.tally = prover, prover.tally
        self.module, self.notes, self.number = generated.module, generated.notes, number
        self.by_xla = by_xla
        self.inputs = judge.inputs_of(self.module)
        self.alike = judge.alike_of(self.module)
        self.special = judge.special_inputs_of(self.module)
        self.wanted: judge.Results | None = None
        self.wanted_by_xla: judge.Results | None = None
        try:
            self.wanted = judge.results(self.module, self.inputs)
        except judge.Unknown as error:
            self.tally.unknown[str(error)] += 1
        self.differentiates = any(isinstance(op, (Grad, Vjp)) for op in self.module.walk())

    def run(self, ways: Mapping[str, Transform]) -> None:
        seen, fresh = {fingerprint(self.module)}, self.module.clone()
        for name, transform in ways.items():
            self.tally.runs += 1
            try:
                outcomes = transform(fresh)
                if name in self.prover.telling:
                    self._count(outcomes)
                    if not any(isinstance(outcome, Applied) for outcome in outcomes):
                        continue  # nothing happened
                changed, fresh = fresh, self.module.clone()
                text = fingerprint(changed)
                if text not in seen:
                    seen.add(text)
                    self._check(name, transform, changed)
                    self._compare(name, changed)
            except judge.Unknown as error:
                self.tally.unknown[str(error)] += 1
            except Exception as error:
                fresh = self.module.clone()
                self.tally.failures.append(
                    f"program {self.number} ({', '.join(self.notes)}), {name}: "
                    f"{type(error).__name__}: {error}\n{self.module}"
                )

    def _count(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, Applied):
                self.tally.fired[outcome.rule] += 1
            else:
                self.tally.refused[outcome.rule, outcome.reason.name] += 1

    def _check(self, name: str, transform: Transform, changed: ModuleOp) -> None:
        if name not in self.prover.telling and name in self.prover.passes:
            self.tally.fired[name.removeprefix("pass ")] += 1
        changed.verify()
        verify_ssa(changed)
        assert signature_of(changed) == signature_of(self.module), "the signature changed"
        # xDSL's dce takes a loop that nothing reads, and only then what the loop alone read; what a
        # group gains depends on the groups that there are
        if name in self.prover.always and name not in ("pass dce", *GROUPS):
            twice = changed.clone()
            again = [o for o in transform(twice) if isinstance(o, Applied)]
            assert not again, f"found something to do a second time: {again[0]}"

    def _compare(self, name: str, changed: ModuleOp) -> None:
        if self.wanted is None:
            return
        found = judge.results(changed, self.inputs)
        self.tally.compared += 1
        wrong = judge.difference(self.wanted, found, self.alike)
        assert not wrong, wrong
        if name in self.prover.passes:
            self.tally.real.setdefault(name, Worst()).add(self.wanted, found)
            self._compare_rounded(name, changed)
        if self.by_xla and name in self.prover.always:
            self._compare_by_xla(name, changed)

    def _compare_rounded(self, name: str, changed: ModuleOp) -> None:
        exact = self.prover.numerics.get(name) is Numerics.BIT_EXACT
        for inputs in (self.inputs, self.special):
            a = judge.results(self.module, inputs, "declared")
            b = judge.results(changed, inputs, "declared")
            if exact and not self.differentiates:
                self.tally.bits += 1
                other = judge.other_bits(a, b)
                assert not other, f"the bits of {other} changed"
            if inputs is self.inputs and all(v.dtype.name == "float32" for v in a.values()):
                self.tally.declared.setdefault(name, Worst()).add(a, b)

    def _compare_by_xla(self, name: str, changed: ModuleOp) -> None:
        if self.wanted_by_xla is None:
            self.wanted_by_xla = judge.jax_results(self.module, self.inputs)
        found = judge.jax_results(changed, self.inputs)
        single = all(array.dtype.name == "float32" for array in found.values())
        wrong = judge.difference(self.wanted_by_xla, found, XLA_ALIKE if single else XLA_HALF)
        assert not wrong, f"by XLA: {wrong}"
        self.tally.compared_by_xla += 1
        if single:
            self.tally.by_xla.setdefault(name, Worst()).add(self.wanted_by_xla, found)
