"""From "the results differ" to the rewrite: a binary search over `--opt-bisect-limit`.

The search keeps two limits, one with right results and one with wrong ones, and ends when they are
neighbors; so it finds *a* rewrite that makes right results wrong, even if a later rewrite hides an
earlier one. Both limits are tried again at the end.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from graphopt.debug.compare import Array
from graphopt.debug.differences import (
    Difference,
    DifferenceKind,
    Evaluate,
    RunOutcome,
    Tolerance,
    difference,
    outcome_of,
)
from graphopt.debug.reduce import Interesting
from graphopt.display.units import several
from graphopt.errors import GraphoptError, PassError
from graphopt.ir.dialect.signature import STATE, prepare_function, signature_of
from graphopt.passes.engine import bisect
from graphopt.passes.engine.crash import PassStep
from graphopt.passes.engine.fusion import FusionPass
from graphopt.passes.engine.naming import show_op, source_line
from graphopt.passes.engine.replay_file import lines_text
from graphopt.passes.table.manager import apply_steps


@dataclass(frozen=True)
class LimitedRun:
    """The program after the passes, under some limit, and its results."""

    module: ModuleOp
    asked: tuple[str, ...]
    """The rewrites in order, as `--opt-bisect-limit` reports them."""
    outcome: RunOutcome
    failed: int = -1
    """The step whose pass failed; -1 if none did."""


@dataclass(frozen=True)
class Suspect:
    """A program, the steps that should not change its results, and how they are checked.

    `against` computes the reference results, by default by the program without the steps.
    """

    module: ModuleOp
    steps: tuple[PassStep, ...]
    inputs: Mapping[str, Array]
    evaluate: Evaluate
    against: Evaluate
    tolerance: Tolerance = Tolerance()  # noqa: RUF009
    verify_each: bool = True
    trials: dict[str, RunOutcome] = field(default_factory=dict[str, RunOutcome])

    def compute_reference(self) -> RunOutcome:
        """Compute the reference results once; raise GraphoptError if that fails."""
        found = self._once("wanted", self.module, self.against)
        if found.error is not None:
            name = type(found.error).__name__
            raise GraphoptError(
                f"the program fails without any pass, so there is nothing to compare with: {name}: "
                f"{found.error}"
            ) from found.error
        return found

    def trial(self, limit: int = -1, *, without: Sequence[int] = (), steps: int = -1) -> LimitedRun:
        """Run the first `steps` steps (all of them when negative) under a limit of rewrites."""
        passed = self.run_passes(limit, without=without, steps=steps)
        if passed.failed >= 0:
            return passed
        found = self._once(str(passed.module), passed.module, self.evaluate)
        return replace(passed, outcome=self._with_kept(found))

    def run_passes(
        self, limit: int = -1, *, without: Sequence[int] = (), steps: int = -1
    ) -> LimitedRun:
        """Run only the passes of a trial."""
        module = self.module.clone()
        lines: list[str] = []
        chosen = self.steps if steps < 0 else self.steps[:steps]
        with bisect.limit_rewrites(limit, lines.append, without=without):
            for number, step in enumerate(chosen):
                try:
                    apply_steps(module, [step], verify_each=self.verify_each)
                except Exception as error:
                    cause = error.__cause__ if isinstance(error, PassError) else None
                    shown = cause if isinstance(cause, Exception) else error
                    return LimitedRun(module, _rewrites(lines), RunOutcome({}, shown, True), number)
        return LimitedRun(module, _rewrites(lines), RunOutcome({}))

    def judge(self, trial: LimitedRun) -> Difference | None:
        """Compare a trial's results with the right ones."""
        if trial.outcome.in_pass:
            return difference(trial.outcome, trial.outcome, self.tolerance)
        return difference(self.compute_reference(), trial.outcome, self.tolerance)

    def _with_kept(self, found: RunOutcome) -> RunOutcome:
        """Add the state that the program returns, if its passes did not change the storage."""
        if found.error is not None:
            return found
        writes = signature_of(self.module).writes
        kept = {f"{STATE} {name}": self.inputs[name] for name in writes if name in self.inputs}
        return replace(found, results={**kept, **found.results})

    def _once(self, key: str, module: ModuleOp, evaluate: Evaluate) -> RunOutcome:
        if key not in self.trials:
            self.trials[key] = outcome_of(module, self.inputs, evaluate)
        return self.trials[key]


@dataclass(frozen=True)
class WrongRewrite:
    """The rewrite that made the results wrong.

    `number` is 0 when the wrong pass reports no rewrites. `alone` is True when the results are
    right if only this rewrite is disabled, False when others are wrong too.
    """

    number: int
    total: int
    pass_name: str
    where: str
    line: str
    difference: Difference
    step: int
    alone: bool
    before: ModuleOp
    focus: tuple[Operation, ...]
    """The ops of `before` that the rewrite removed."""
    change: tuple[str, ...]
    """A diff of the program's text before and after the rewrite."""


def find_wrong_rewrite(suspect: Suspect, *, check: Suspect | None = None) -> WrongRewrite | None:
    """Find the rewrite that makes the results wrong; None when all of them together do not.

    The rewrite found is tried again with `check`, by default the same suspect. Raises GraphoptError
    when the program fails without any pass, or when the same limit gives right results once and
    wrong ones another time.
    """
    whole = suspect.trial()
    seen = suspect.judge(whole)
    if seen is None:
        return None
    total = len(whole.asked)
    low, high, at_high = 0, total, seen
    none = suspect.judge(suspect.trial(0))
    if none is not None:
        return _wrong_step(suspect, none, total)
    while high - low > 1:
        middle = (low + high) // 2
        found = suspect.judge(suspect.trial(middle))
        low, high = (middle, high) if found is None else (low, middle)
        at_high = found or at_high
    _confirm(check or suspect, low, high)
    good, bad = suspect.trial(low), suspect.trial(high)
    pass_name, _, where = whole.asked[high - 1].partition(" on ")
    focus = _list_gone(good.module, bad.module) if not bad.outcome.in_pass else []
    focus = focus or [op for op in good.module.walk() if show_op(op) == where]
    located = [op for op in good.module.walk() if show_op(op) == where] + focus
    return WrongRewrite(
        high,
        total,
        pass_name,
        where,
        next((line for op in located if (line := source_line(op.location))), ""),
        at_high,
        _step_named(suspect.steps, pass_name),
        suspect.judge(suspect.trial(without=[high])) is None,
        good.module,
        tuple(focus),
        _change(good.module, bad.module) if not bad.outcome.in_pass else (),
    )


def isolate(suspect: Suspect, found: WrongRewrite) -> Suspect:
    """Isolate the wrong rewrite in a smaller program; return `suspect` if there is none.

    That is the program just before the rewrite and the one pass, if this is wrong too. Where
    earlier passes have changed the storage of state, the inputs fit only the program before these
    passes, and only later steps are left out.
    """
    if not _stores_variables(found.before):
        shorter = replace(suspect, steps=suspect.steps[: found.step + 1], trials={})
        seen = shorter.judge(shorter.trial())
        return shorter if seen is not None and seen.like(found.difference) else suspect
    step = suspect.steps[found.step]
    ours = [m for m in step.passes if not found.number or m.name == found.pass_name]
    for passes in (*((made,) for made in ours), step.passes):
        steps = (replace(step, passes=passes),)
        smaller = replace(suspect, module=found.before, steps=steps, trials={})
        try:
            seen = smaller.judge(smaller.trial())
        except GraphoptError:
            continue
        if seen is not None and seen.like(found.difference):
            return smaller
    return suspect


def _stores_variables(module: ModuleOp) -> bool:
    """True when a program takes its state variable by variable, each in its declared form."""
    ports = signature_of(module).arguments
    return prepare_function(module) is None and not any(p.stack_of or p.order for p in ports)


def still_wrong(suspect: Suspect, seen: Difference) -> Interesting:
    """Build the condition of `reduce_module`: the steps make a program wrong in the same way."""

    def wrong(module: ModuleOp, inputs: Mapping[str, Array]) -> bool:
        tried = replace(suspect, module=module, inputs=inputs, trials={})
        passed = tried.run_passes()
        if passed.failed < 0 and (
            seen.kind is DifferenceKind.PASS or str(passed.module) == str(module)
        ):
            return False  # no pass fails, or nothing was rewritten; that needs no XLA
        found = tried.judge(passed if passed.failed >= 0 else tried.trial())
        return found is not None and found.like(seen)

    return wrong


def steps_named(passes: Sequence[ModulePass]) -> tuple[PassStep, ...]:
    """Build the steps of a pipeline given with `-p`: one pass each."""
    return tuple(PassStep((made,), together=isinstance(made, FusionPass)) for made in passes)


def _wrong_step(suspect: Suspect, seen: Difference, total: int) -> WrongRewrite:
    """Find the step after which results are wrong although no rewrite was allowed."""
    plain = suspect.judge(suspect.trial(steps=0))
    if plain is not None:
        raise GraphoptError(
            f"the results are wrong without any pass, so no pass causes it: {plain}"
        )
    good, bad = 0, len(suspect.steps)
    while bad - good > 1:
        middle = (good + bad) // 2
        found = suspect.judge(suspect.trial(0, steps=middle))
        good, bad = (middle, bad) if found is None else (good, middle)
        seen = found or seen
    before, after = suspect.trial(steps=good), suspect.trial(0, steps=bad)
    if before.outcome.in_pass or suspect.judge(before) is not None:
        before = suspect.trial(0, steps=good)
    gone = [] if after.outcome.in_pass else _list_gone(before.module, after.module)
    change = () if after.outcome.in_pass else _change(before.module, after.module)
    names = suspect.steps[good].names
    line = next((line for op in gone if (line := source_line(op.location))), "")
    return WrongRewrite(
        0, total, names, "", line, seen, good, True, before.module, tuple(gone), change
    )


def _confirm(suspect: Suspect, good: int, bad: int) -> None:
    again = replace(suspect, trials={})
    verdicts = [again.judge(again.trial(limit)) is None for limit in (good, bad)]
    if verdicts != [True, False]:
        raise GraphoptError(
            f"the results were right with {several(good, 'rewrite')} and wrong with {bad}, but not "
            "when tried again: the results are not deterministic, so no search can find the cause"
        )


def _rewrites(lines: Sequence[str]) -> tuple[str, ...]:
    return tuple(line.partition(") ")[2] for line in lines)


def _step_named(steps: Sequence[PassStep], pass_name: str) -> int:
    for number, step in enumerate(steps):
        if any(made.name == pass_name for made in step.passes):
            return number
    return len(steps) - 1


def _list_gone(before: ModuleOp, after: ModuleOp) -> list[Operation]:
    """List the ops of `before` that `after` lacks, compared by op name and value names."""
    left = Counter(_key(op) for op in after.walk())
    gone: list[Operation] = []
    for op in before.walk():
        if left[_key(op)]:
            left[_key(op)] -= 1
        elif op.name.startswith("pd."):
            gone.append(op)
    return gone


def _key(op: Operation) -> tuple[object, ...]:
    hints = tuple(value.name_hint for value in (*op.results, *op.operands))
    return op.name, hints, *sorted((name, str(value)) for name, value in op.properties.items())


def _change(before: ModuleOp, after: ModuleOp) -> tuple[str, ...]:
    old, new = lines_text(before).splitlines(), lines_text(after).splitlines()
    lines = list(difflib.unified_diff(old, new, lineterm="", n=0))[2:]
    return tuple(line for line in lines if not line.startswith("@@"))
