"""The program after a pass compared with the program before it, while rewrites are validated.

The change that a pass made is checked, whatever it reports. If it computes something else, the
program is restored, and all rewrites of the pass count as declined.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from graphopt.passes.engine.fusion import Applied, Declined, Outcome
from graphopt.passes.engine.naming import show_op
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.pattern import Reason
from graphopt.passes.engine.validation import (
    FAILED,
    FAILED_VALIDATION,
    NOT_VALIDATED,
    Checked,
    Instance,
    Programs,
    Validation,
    Verdict,
    current,
)
from graphopt.passes.engine.whole import ProgramBefore

PROGRAM = "the program"


class Compared:
    """A program before one pass, or before several that run together."""

    def __init__(self, module: ModuleOp, validation: Validation) -> None:
        self.validation = validation
        self.before = ProgramBefore(module)
        self.seen = len(validation.checked)
        validation.kept = self.before.kept
        validation.proofs.clear()

    @classmethod
    def of(cls, module: ModuleOp) -> Compared | None:
        """Take a snapshot of the program if rewrites are being validated; else return None."""
        validation = current()
        return cls(module, validation) if validation is not None else None

    def judge(self, passes: Sequence[ModulePass], outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Check the program and return the outcomes; on failure, undo and decline all rewrites."""
        fired = {outcome.rule for outcome in outcomes if isinstance(outcome, Applied)}
        made = [each for each in passes if each.name in fired] or list(passes)
        rule = ", ".join(each.name for each in made)
        verdicts = self._verdicts(rule, made)
        failed = [each for each in verdicts if each.status == FAILED]
        unsure = [each for each in verdicts if each.status == NOT_VALIDATED]
        reported = len(self.validation.checked) > self.seen
        if failed:
            self.before.kept.put_back()
            self.validation.checked.append(failed[0])
            return [*_declined_first(rule, failed[0], outcomes)]
        # failures that were reported rewrite by rewrite are not repeated
        self.validation.checked += unsure if reported else verdicts
        return list(outcomes)

    def _verdicts(self, rule: str, made: Sequence[ModulePass]) -> list[Checked]:
        across = next((each.name for each in made if getattr(each, "across_replicas", False)), None)
        classes = [getattr(each, "numerics", None) or Numerics.BIT_EXACT for each in made]
        weakest = max(classes, key=list(Numerics).index, default=Numerics.BIT_EXACT)
        changes = self.before.changes(rule, weakest)
        found: list[Checked] = []
        if changes.verdict is not None:
            found.append(_checked_rule(rule, PROGRAM, changes.verdict))
        for each in changes.instances:
            if across is not None:
                words = "one replica alone does not compute what the program computed before"
                found.append(_checked_rule(rule, PROGRAM, Verdict(NOT_VALIDATED, words)))
                break
            one = isinstance(each, Instance)
            if one and self.before.proven(each, self.validation.proofs):
                continue
            verdict = self.validation.validator(each)
            if verdict.status == NOT_VALIDATED and one:
                whole = Programs(rule, weakest, self.before.copy, self.before.module)
                verdict = self.validation.validator(whole)
            where = show_op(each.old[0]) if one and each.old else ""
            found.append(_checked_rule(rule, where or PROGRAM, verdict))
        return found


def _checked_rule(rule: str, where: str, verdict: Verdict) -> Checked:
    return Checked(rule, where, verdict.status, verdict.text)


def _declined_first(rule: str, failed: Checked, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """List the declined instances, then the applied ones, which were undone, as declined too."""
    fix = f"none: this is a bug in the pass {rule}; leave the pass out and report the bug"
    reason = Reason(FAILED_VALIDATION, failed.text, fix)
    undone = [o for o in outcomes if isinstance(o, Applied)]
    kept: list[Outcome] = [o for o in outcomes if isinstance(o, Declined)]
    kept += [Declined(o.rule, o.anchor, reason, o.location) for o in undone]
    return kept if undone else [*kept, Declined(rule, failed.anchor, reason, "")]
