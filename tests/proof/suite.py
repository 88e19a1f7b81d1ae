"""The checks that judge a pass: generated programs, hand-made programs, and the pages of examples.

For a pass that is wrong on purpose, `verdict` names the check that notices it. The right pass has
run on the same programs before, so only programs with another outcome have to be computed.
Programs are generated for a pass once the pages miss one of its mutants. Passes without generated
programs are judged by the pages alone.
"""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from types import FrameType

from hypothesis.internal.conjecture.data import ConjectureData
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from graphopt.ir.dialect.ops.grad import Grad, Vjp
from graphopt.ir.dialect.signature import signature_of
from graphopt.ir.dialect.verify_ssa import verify_ssa
from graphopt.passes.engine.fusion import Applied, Outcome, sweep
from graphopt.passes.engine.measured import KernelTime, Measure
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.table.registry import own_passes
from graphopt.passes.target.choose_group_kernel import ChooseGroupKernel
from graphopt.testing import Case, load_page, parse
from graphopt.testing.mutations import TWISTS
from graphopt_tests.proof import changed, judge, told, undone
from graphopt_tests.proof.corpus import FUSIONS, collect, planted_for
from graphopt_tests.proof.shape import Fingerprint, fingerprint
from graphopt_tests.proof.transforms import Transform, one_pass

PAGES = sorted((Path(__file__).parents[1] / "passes").glob("*.md"))
# all fusions together, as the pipeline runs them
TOGETHER = "all fusions"
# rewrites under validation
UNDONE = "undone rewrites"
# a mutant that takes longer for a program than this hangs
SECONDS = 5
# the same for the near misses of all pages of a pass
WORDS_SECONDS = 30
# the checks of a suite: by pages, by near misses, by changed ops, by programs
KINDS = 4
# the tests pin how often a pass fires, with room for other examples
ENOUGH = 0.75
# what a measurement says of each kernel and group: its time as a part of XLA's, or that it has none
RATIOS = (0.5, 1.5, None)
EXACT = Numerics.BIT_EXACT


@cache
def cases(name: str) -> list[Case]:
    """List the cases of the pages of a pass."""
    found = [case for page in PAGES for case in load_page(page)]
    return [case for case in found if name in (case.pass_name, TOGETHER)]


def transform_of(name: str) -> Transform:
    """Return the transform of the pass alone, or of all fusions."""
    if name != TOGETHER:
        return one_pass(own_passes()[name]()())
    return lambda module: sweep(module, told.rules_together())


@dataclass
class Program:
    """A program, the right pass's outcome on it, and its results, computed on demand."""

    module: ModuleOp
    right: Fingerprint
    exact: bool
    """The bits are compared: the pass claims it, and there is no derivative, which may round."""
    wanted: list[judge.Results] = field(default_factory=list[judge.Results])

    def check(self, changed: ModuleOp) -> str:
        """Describe the fault of a changed program; "" for none."""
        changed.verify()
        verify_ssa(changed)
        if signature_of(changed) != signature_of(self.module):
            return "signature"
        try:
            if not self.wanted:
                self.wanted = self._computed(self.module)
        except judge.Unknown:
            return ""
        found = self._computed(changed)
        if judge.difference(self.wanted[0], found[0]):
            return "numbers"
        pairs = zip(self.wanted[1:], found[1:], strict=True)
        return "bits" if any(judge.other_bits(a, b) for a, b in pairs) else ""

    def _computed(self, module: ModuleOp) -> list[judge.Results]:
        inputs = judge.inputs_of(self.module)
        found = [judge.results(module, inputs)]
        if self.exact:
            special = judge.special_inputs_of(self.module)
            found += [judge.results(module, each, "declared") for each in (inputs, special)]
        return found


@dataclass
class Programs:
    """The programs for one pass, and the right pass's outcomes on all of them."""

    every: list[Program] = field(default_factory=list[Program])
    fired: Counter[str] = field(default_factory=Counter[str])
    reasons: Counter[str] = field(default_factory=Counter[str])


@dataclass
class Suite:
    """The pages of one pass, `count` generated programs, and the right pass's outcomes on each."""

    name: str
    count: int
    number: int
    texts: dict[str, str]

    def checks(self) -> Iterator[Callable[[], str]]:
        """Yield the checks, the quickest first; the right pass has to be in force between them.

        Each names the fault that it notices: "same" if no program changes, "" for no fault.
        """
        yield self.by_pages
        yield self.by_words
        yield self.by_changes
        yield partial(self.by_properties, programs(self.name, self.count, self.number))

    def by_properties(self, programs: Programs) -> str:
        """Name the fault: crash, signature, numbers, bits, again, fires less, lost reason."""
        if not programs.every:
            return "same"
        transform = transform_of(self.name)
        fired, reasons, same = Counter[str](), Counter[str](), True
        for program in programs.every:
            module = program.module.clone()
            try:
                with limit(SECONDS):
                    outcomes = transform(module)
                    if fingerprint(module) != program.right:
                        same = False
                        wrong = self._judged(program, module, transform)
                        if wrong:
                            return wrong
                    fired.update(_fired(outcomes))
                    reasons.update(_reasons(outcomes))
            except Exception as error:
                return f"crash: {type(error).__name__}"
        less = [op for op, count in programs.fired.items() if fired[op] < ENOUGH * count]
        gone = programs.reasons.keys() - reasons.keys()
        if less or gone:
            return f"fires less: {less[0]}" if less else f"reason gone: {min(gone)}"
        return "same" if same and reasons == programs.reasons else ""

    def _judged(self, program: Program, module: ModuleOp, transform: Transform) -> str:
        wrong = program.check(module)
        if not wrong and self.name in FUSIONS and _fired(transform(module)):
            return "again"
        return wrong

    def by_words(self) -> str:
        """Name the first line whose reasons differ, as "words: LINE"."""
        if self.name not in (*FUSIONS, TOGETHER):
            return "same"
        try:
            with limit(WORDS_SECONDS):
                lines = told.together() if self.name == TOGETHER else told.near_misses(self.name)
        except Exception as error:
            return f"crash: {type(error).__name__}"
        kept = told.kept_together() if self.name == TOGETHER else told.kept(self.name)
        other = set(lines).symmetric_difference(kept)
        return f"words: {min(other)}" if other else "same"

    def by_changes(self) -> str:
        """Name the first program with a changed op and another outcome; see `changed`."""
        if self.name not in changed.TITLES:
            return "same"
        try:
            with limit(WORDS_SECONDS):
                lines = changed.outcomes(self.name)
        except Exception as error:
            return f"crash: {type(error).__name__}"
        other = set(lines).symmetric_difference(changed.kept(self.name))
        return f"changed: {min(other)}" if other else "same"

    def by_pages(self) -> str:
        """Name the first case with another outcome; try it first for the next mutant."""
        outcomes = shown(self.name)
        for title, text in self.texts.items():
            if _text(outcomes[title]) != text:
                self.texts = {title: text, **self.texts}
                return f"page: {title}"
        return "same"


@cache
def shown(name: str) -> Mapping[str, Callable[[], str]]:
    """Map the cases of a pass's pages, or the rewrites under validation, to their outcomes."""
    if name == UNDONE:
        return {title: partial(undone.outcome, title) for title in undone.REWRITES}
    found: dict[str, Callable[[], str]] = {}
    for case in cases(name) if name != TOGETHER else []:
        title, made = f"{case.page.name}: {case.title}", case.make_pass()
        found[title] = partial(_outcome, case, made)
        if isinstance(made, ChooseGroupKernel):
            for ratio in RATIOS:
                measured = replace(made, measure=_measure_of(ratio))
                found[f"{title}, kernels take {ratio}"] = partial(_outcome, case, measured)
    return found


def _measure_of(ratio: float | None) -> Measure:
    """Build a measure that returns the same ratio for every op."""
    return lambda op, trained: KernelTime(ratio)


def _text(outcome: Callable[[], str]) -> str:
    try:
        with limit(SECONDS):
            return outcome()
    except Exception as error:
        return f"crash: {type(error).__name__}"


def _outcome(case: Case, made: ModulePass) -> str:
    """Run a pass on the program of a page, and return program and reasons as text."""
    module = parse(case.before)
    outcomes = one_pass(made)(module)
    module.verify()
    told = {str(o.note if isinstance(o, Applied) else o.reason) for o in outcomes}
    return f"{module}\n{sorted(told)}"


def _fired(outcomes: Sequence[Outcome]) -> Counter[str]:
    """Count the rewrites by the name of their op."""
    return Counter(o.anchor.split()[0] for o in outcomes if isinstance(o, Applied))


def _reasons(outcomes: Sequence[Outcome]) -> list[str]:
    return [o.reason.name for o in outcomes if not isinstance(o, Applied)]


@cache
def suite(name: str, count: int, number: int = 0) -> Suite:
    """Build the suite of a pass: its pages, and `count` programs by seeds from `number` on."""
    texts = {title: _text(outcome) for title, outcome in shown(name).items()}
    return Suite(name, count, number, texts)


@cache
def programs(name: str, count: int, number: int) -> Programs:
    """Collect the programs for a pass: generated ones, its pages' and near misses of these."""
    made = Programs()
    plant = planted_for(name) if name != TOGETHER else _small_patterns()
    if not plant:
        return made
    transform = transform_of(name)
    found = collect(plant, count, number)
    if name not in FUSIONS:
        found += collect(plant, count, number + count, ["differentiate", "region", "read again"])
    modules = [generated.module for generated in found]
    modules += [parse(case.before) for case in cases(name)]
    modules += near_misses(name, count)
    exact = name != TOGETHER and getattr(own_passes()[name](), "numerics", None) is EXACT
    for module in modules:
        after = module.clone()
        outcomes = transform(after)
        differentiates = any(isinstance(op, (Grad, Vjp)) for op in module.walk())
        made.every.append(Program(module, fingerprint(after), exact and not differentiates))
        made.fired.update(_fired(outcomes))
        made.reasons.update(_reasons(outcomes))
    return made


NEAR = ("sibling", "sibling", "swap", "property", "property", "share", "read again", "between")


def near_misses(name: str, count: int) -> list[ModuleOp]:
    """Twist each program of the pages that the pass rewrites in `count` ways."""
    found: dict[Fingerprint, ModuleOp] = {}
    for case in cases(name) if name != TOGETHER else []:
        if case.expected_kind != "mlir":
            continue
        for number in range(count):
            module, chooser = parse(case.before), random.Random(number)
            TWISTS[NEAR[number % len(NEAR)]](ConjectureData(random=chooser).draw, module)
            found[fingerprint(module)] = module
    return list(found.values())


def _small_patterns() -> list[Callable[..., object]]:
    return [rule for fusion in FUSIONS.values() for rule in fusion.RULES]  # pyright: ignore


class Hangs(Exception):
    """The computation takes too long."""


@contextmanager
def limit(seconds: int) -> Generator[None]:
    """Raise Hangs when the block computes longer than this."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Hangs(f"longer than {seconds} s")

    old = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, old)
