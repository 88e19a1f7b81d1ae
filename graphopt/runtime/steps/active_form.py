"""The form of a step that runs next: a first one, the full one, or one with other kernels.

A step begins with one form. Another form that a thread compiles may take over between two runs.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

import jax

from graphopt.ir.program.location import caller_level
from graphopt.lowering.needs_data import NeedsData
from graphopt.lowering.plan import Replicated
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.disk.known import Arguments, Known
from graphopt.runtime.settings.flags import AUTO, FAST, FULL, HOST, tier_flag
from graphopt.runtime.state.arrays import Results, Step
from graphopt.runtime.state.prepare import Prepare
from graphopt.runtime.steps.challenge import rival_of
from graphopt.runtime.steps.forms import Form, Lowering
from graphopt.runtime.steps.rivals import Made, Rival
from graphopt.runtime.steps.tiers import Successor, Tier, quickly, tier_of

PATIENCE = 0.5
"""The part of the time of compiling that the host form takes before that is done, in a thread."""
# gives the rival of a full form, None where there shall be none
Challenger: TypeAlias = "Callable[[object], Rival | None]"


class ActiveForm:
    """The form that a step runs, and those that may take its place.

    `function` is the form that runs first, `prepare` computes state for it. A host form and a quick
    one have a successor, the full one. `challenger` gives the rival of the full form.
    """

    def __init__(
        self,
        function: Step,
        prepare: Prepare | None,
        tier: Tier | None = None,
        successor: Successor[Step] | None = None,
        challenger: Challenger | None = None,
    ) -> None:
        self.own = Made(function, 0, prepare)
        self.on_host = tier is not None and tier.name == HOST
        """True while NumPy may compute a step, which takes long and must not hold the state."""
        self.state: Tier | Successor[Step] | Rival | None = successor or tier
        """The form and the reason, for reports."""
        self.won: Made | None = None
        """The rival, when it is the quicker one."""
        self.rival: Rival | None = None
        """The rival, until it is known which is quicker."""
        self._successor = successor
        self._challenger = challenger
        if successor is None and tier is not None and tier.name == FULL:
            self._challenge()

    def next(self) -> Made:
        """The form of the next run."""
        if self._successor is not None:
            self._succeed(self._successor)
        rival, made = self.rival, self.won
        if rival is not None:
            settled = rival.settled  # once: another thread may settle it while this one asks
            made = rival.winner() if settled else rival.next()
            if settled:
                self.won, self.rival = made, None
        # from one place, as another thread may change what goes on here
        return self.own if made is None else made

    def ended(self, results: Results) -> None:
        """The run of the form that `next` gave has ended with these results."""
        if self.rival is not None:
            fetches, written = results
            self.rival.ended(fetches or written)

    def _succeed(self, successor: Successor[Step]) -> None:
        """Let the full form take over if it is there."""
        full = successor.take()
        if full is not None:
            self.on_host = full is self.own.step  # NumPy goes on
            self.own, self._successor = Made(full, 0, self.own.prepare), None
            if not successor.said:
                self._challenge()
        elif successor.error is not None:
            self._successor = None
            warnings.warn(
                f"a program stays in its {successor.form()} form, which runs longer: the full one "
                f"did not compile: {successor.error}",
                stacklevel=caller_level(),
            )

    def _challenge(self) -> None:
        """Let a rival of the full form be made when it has run for a while."""
        if self._challenger is not None:
            self.rival = self._challenger(self.state)
            self.state = self.rival or self.state


def first_form(
    compiled: Compiled,
    replicated: Replicated,
    arguments: Arguments,
    sizes: str,
    announced: Callable[[], AbstractContextManager[None]],
    *,
    is_first: bool,
) -> ActiveForm:
    """The form that runs first, for arguments like these; `sizes` are those of the feeds in words.

    It comes from disk if it is there, and is made otherwise, `announced` if it is compiled. Where
    these are the first sizes of the program, and were those of another process, the host form is
    compiled after its first run: another process may begin with them, too.
    """
    options, kept = compiled.options(), compiled.is_kept
    lowering = Lowering(replicated.function, arguments, compiled.parts, sizes)
    known = Known.of(compiled, replicated, arguments)
    full = Form(known, lowering, options, kept=kept)
    quick = Form(known, lowering, quickly(options), "quick form", kept=kept)

    def challenger(form: object) -> Rival | None:
        return rival_of(compiled, replicated, arguments, sizes, form)

    def of(function: Step, tier: Tier, successor: Successor[Step] | None = None) -> ActiveForm:
        rivalled = challenger if replicated.name == "alone" else None
        return ActiveForm(function, compiled.prepare, tier, successor, rivalled)

    if tier_flag() in (AUTO, FULL) and (found := full.load()) is not None:
        return of(found, Tier(FULL, "it was on disk"))
    elements = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(arguments[2]))
    tier = tier_of(compiled, replicated, elements)
    if tier.name == HOST:
        keeps = tier_flag() == AUTO
        again = keeps and is_first and known is not None and known.came_before()
        host, successor = _on_host(compiled, full, quick, announced, at_once=again)
        return of(host, tier, successor if keeps else None)
    with announced():
        if tier.name == FULL:
            return of(full.load() or full.make(), tier)
        function = quick.load() or quick.make()
    return of(function, tier, Successor(full.make) if tier.name == AUTO else None)


def _on_host(
    compiled: Compiled,
    full: Form,
    quick: Form,
    announced: Callable[[], AbstractContextManager[None]],
    *,
    at_once: bool,
) -> tuple[Step, Successor[Step]]:
    """The host form of a step and its successor, which is compiled `at_once` after the first run.

    The quick form, `announced`, takes the place of a host form that gives up.
    """
    from graphopt.runtime.host.form import HostForm, price_of
    from graphopt.runtime.host.op_by_op import op_by_op, op_by_op_or_host

    def make() -> Step:
        try:
            return full.make()
        except NeedsData:
            step, successor.said = op_by_op_or_host(compiled, host)
            return step

    @functools.cache
    def instead() -> Step | None:
        try:
            with announced():
                return quick.load() or quick.make()
        except NeedsData:
            return op_by_op(compiled)

    def name() -> str:
        return FAST if host.is_over else HOST

    def spent(seconds: float) -> None:
        successor.spend(seconds)
        if at_once:
            successor.start()

    host = HostForm(compiled, instead, spent)
    successor = Successor(make, name, patience=PATIENCE * price_of(compiled))
    return host, successor
