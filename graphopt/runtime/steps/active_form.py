"""The form of a step that runs next: a first one, the full one, or one with other kernels.

A step begins with one form. Another form that a thread compiles may take over between two runs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from graphopt.ir.program.location import caller_level
from graphopt.runtime.host.failures import HostFailure
from graphopt.runtime.settings.flags import FAST, FULL, HOST
from graphopt.runtime.state.arrays import Results, Step
from graphopt.runtime.state.prepare import Prepare
from graphopt.runtime.steps.tiers import Made, Successor, Tier

if TYPE_CHECKING:
    from graphopt.runtime.steps.rivals import Rival

# gives the rival of a full form, None where there shall be none
Challenger: TypeAlias = "Callable[[object], Rival | None]"
# gives what runs where a run in NumPy has failed; None where NumPy goes on
Instead: TypeAlias = "Callable[[HostFailure], Step | None]"


class ActiveForm:
    """The form that a step runs, and those that may take its place.

    `function` is the form that runs first, `prepare` computes state for it. A host form and a quick
    one have a successor, the full one. `challenger` gives the rival of the full form, `instead`
    what runs where the host form fails.
    """

    def __init__(
        self,
        function: Step,
        prepare: Prepare | None,
        tier: Tier | None = None,
        successor: Successor[Step] | None = None,
        challenger: Challenger | None = None,
        instead: Instead | None = None,
    ) -> None:
        self.own = Made(function, 0, prepare)
        self.on_host = tier is not None and tier.name == HOST
        """True while NumPy computes the steps."""
        self._host = function if self.on_host else None
        self.is_slow = False
        """True while a step may take long and must not hold the state."""
        self.state: Tier | Successor[Step] | Rival | None = successor or tier
        """The form and the reason, for reports."""
        self.won: Made | None = None
        """The rival, when it is the quicker one."""
        self.rival: Rival | None = None
        """The rival, until it is known which is quicker."""
        self._successor = successor
        self._challenger = challenger
        self._instead = instead
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

    def tier(self) -> str:
        """The name of the form that runs before the full one."""
        return HOST if self.on_host else FAST

    def instead(self, failure: HostFailure) -> Step | None:
        """The step that runs in place of NumPy after a failure; None where NumPy goes on."""
        if not self.on_host:  # another thread has left it meanwhile
            return self.own.step
        return None if self._instead is None else self._instead(failure)

    def leave_host(self, function: Step) -> None:
        """Let a compiled form take the place of the host form, until the full one does."""
        self.own = Made(function, 0, self.own.prepare)
        self.on_host, self.is_slow = False, True

    def _succeed(self, successor: Successor[Step]) -> None:
        """Let the full form take over if it is there."""
        full = successor.take()
        if full is not None:
            self.on_host = full is self._host  # NumPy goes on
            self.is_slow = bool(successor.said)
            self.own, self._successor = Made(full, 0, self.own.prepare), None
            if not self.on_host:
                self._instead = None
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
