"""Steps of compiled functions: their state comes from a scope, and goes back to it.

Whatever ends a step before its end, the scope has the state of a whole step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax

from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.state.arrays import Array, Arrays, FedArrays, HostArray, Results, Step
from graphopt.runtime.state.bound import BoundState
from graphopt.runtime.state.prepare import Prepare
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.state.uninterrupted import Uninterrupted
from graphopt.runtime.steps.forms import Form
from graphopt.runtime.steps.step_calls import StepCalls
from graphopt.runtime.steps.step_state import StepState

# Steps that may be under way at once; more can deadlock XLA's host devices.
MAX_IN_FLIGHT = 8


@dataclass
class UnderWay:
    """The steps of all executables since one was waited for.

    No attribute of a class: whenever one changes, Python forgets what it knows of the class.
    """

    steps: int = 0


under_way = UnderWay()


class CompiledSteps:
    """Runs the compiled forms of one executable, of which each call is given one."""

    def __init__(self, compiled: Compiled, state: StepState) -> None:
        self._compiled = compiled
        self._state = state

    def donating(self, form: Form, fed: FedArrays, scope: Scope) -> Results:
        """A step of a form that takes the buffers of the old state.

        Once it stays, no other one reads prepared state, but for feeds of other sizes.
        """
        calls, prepare = form.calls, form.prepare
        if calls is None:
            form.calls = calls = StepCalls(form.step)
        state = form.state or self._state
        with scope.lock:
            if calls.is_wide:
                with jax.enable_x64(True):
                    results = _donating(calls, state, prepare, fed, scope)
            else:
                results = _donating(calls, state, prepare, fed, scope)
            if form.stays:
                form.stays = False
                for other in {self._state.prepare, state.prepare} - {prepare, None}:
                    scope.prepared.pop(other, None)
        _wait_at_intervals(*results)
        return results

    def keeping(
        self,
        form: Form,
        fed: FedArrays,
        scope: Scope,
        key: HostArray | None = None,
        confirm: Callable[[str], None] | None = None,
    ) -> Results:
        """A step of a form that takes no buffers: anything may end it, nothing is lost.

        The random key is a new one, unless it is given. `confirm` is called with how a step that
        calls Python ended.
        """
        state, compiled, function = form.state or self._state, self._compiled, form.step
        with scope.lock:
            slots = state.slots(scope)
            updated, read_only = state.take(slots, scope, state.prepare)
        if key is None:
            key = state.next_key()
            state.tell(slots, fed, key, scope)
        if compiled.callers:
            fetches, written = self._calling(function, (updated, read_only, fed, key), confirm)
        else:
            calls = form.calls
            if calls is None:
                form.calls = calls = StepCalls(function)
            scratch = calls.scratch
            try:
                with jax.enable_x64(True), scratch:
                    fetches, written = function(updated, read_only, scratch.fed(fed), key)
            except RuntimeError:
                if not any(map(_is_gone, (*updated, *read_only))):
                    raise
                # a step of another thread took the buffers after they had been looked up
                with scope.lock, jax.enable_x64(True):
                    taken = state.take(slots, scope, state.prepare)
                    fetches, written = function(*taken, fed, key)
        if compiled.checks_finite:
            from graphopt.lowering.finite import take
            from graphopt.runtime.steps.not_finite import refuse_not_finite

            found = take((fetches, written))
            refuse_not_finite(found, compiled.compilation.program, compiled.module)
        if written:
            with scope.lock, Uninterrupted():
                state.store(slots, written, scope)
        _wait_at_intervals(fetches, written)
        return fetches, written

    def _calling(
        self,
        function: Step,
        arguments: tuple[Arrays, Arrays, FedArrays, HostArray],
        confirm: Callable[[str], None] | None,
    ) -> Results:
        """The results of a function that calls Python, when all of that has ended well."""
        from graphopt.lowering.host import listening
        from graphopt.runtime.steps.callbacks import finish

        confirm = confirm or _nobody
        with listening(self._compiled.callers) as run:
            with jax.enable_x64(True):
                results = function(*arguments)
            try:
                finish(run, results)
            except BaseException as error:
                confirm(str(error) or type(error).__name__)
                raise
        confirm("")
        return results


def _donating(
    calls: StepCalls, state: StepState, prepare: Prepare | None, fed: FedArrays, scope: Scope
) -> Results:
    slots = state.slots(scope)
    updated, read_only = state.take(slots, scope, prepare)
    key = state.next_key()
    state.tell(slots, fed, key, scope)
    # once the call has run, the new state is the only one
    noted: list[Results] = []
    try:
        calls(updated, read_only, fed, key, noted)
        state.store(slots, noted[0][1], scope)
    except BaseException:
        # a second interrupt may come at once: Python looks for one where a function begins
        try:
            _keep(state, slots, noted, scope)
        except BaseException:
            _keep(state, slots, noted, scope)
            raise
        raise
    return noted[0]


def _keep(
    state: StepState, slots: BoundState, noted: list[Results], scope: Scope, tries: int = 8
) -> None:
    """Store the state of a step that has run, whatever interrupts this meanwhile."""
    try:
        for _, written in noted:
            with Uninterrupted():
                state.store(slots, written, scope)
    except BaseException:
        if tries:
            _keep(state, slots, noted, scope, tries - 1)
        raise


def _wait_at_intervals(fetches: Arrays, written: Arrays) -> None:
    """Wait for every few steps, so that those with unread results do not pile up."""
    under_way.steps += 1
    if under_way.steps >= MAX_IN_FLIGHT:
        under_way.steps = 0
        jax.block_until_ready(fetches or written)


def _nobody(_: str) -> None:
    """Called with how a step ended that no other trainer runs."""


def _is_gone(array: Array) -> bool:
    """True for an array whose buffers a step has taken."""
    return isinstance(array, jax.Array) and array.is_deleted()
