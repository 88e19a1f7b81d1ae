"""Steps of compiled functions: they take their state from a scope, and store it there.

If a step is interrupted, the scope has the state of a whole step. Errors of functions that a step
calls are raised when it ends.
"""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import jax

from graphopt.errors import CallbackError, CheckError
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.state.arrays import Array, Arrays, FedArrays, HostArray, Results, Step
from graphopt.runtime.state.bound import BoundState
from graphopt.runtime.state.prepare import Prepare
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.state.uninterrupted import Uninterrupted
from graphopt.runtime.steps.forms import Form, Run
from graphopt.runtime.steps.run_hook import watcher
from graphopt.runtime.steps.scratch import scratch_of
from graphopt.runtime.steps.step_calls import is_wide, noted_call
from graphopt.runtime.steps.step_state import NO_KEY, StepState

if TYPE_CHECKING:
    from graphopt.ir.dialect.op import PdOp
    from graphopt.lowering.host import CallingRun


def finish(run: CallingRun, results: Any) -> None:
    """Wait for a step, and raise the errors of functions that it called.

    Raise CheckError for asserts, CallbackError for other errors, and interrupts unchanged.
    """
    jax.block_until_ready(results)
    jax.effects_barrier()
    others = [one for one in run.raised if not isinstance(one[1], CheckError)]
    if others:
        key, error = others[0]
        if not isinstance(error, Exception) or _of_a_handler(error):
            raise error
        raise CallbackError(_message_of(run.callers[key], error)) from error
    if run.raised:
        failed = (_with_line(run.callers.get(key), error) for key, error in run.raised)
        raise CheckError("\n".join(dict.fromkeys(failed)))


def _with_line(op: PdOp | None, error: BaseException) -> str:
    """Add the source line of an assert to the first line of its message, unless that has one."""
    from graphopt.passes.engine.naming import source_line

    first, *rest = str(error).split("\n")
    line = None if op is None else source_line(op.location)
    return "\n".join([first if not line or line in first else f"{first} (made at {line})", *rest])


def _of_a_handler(error: Exception) -> bool:
    """Return whether a signal handler raised the error: its frame holds the frame before it.

    A callback cannot be called again to see whether its error recurs.
    """
    trace, before = error.__traceback__, None
    while trace is not None:
        frame = trace.tb_frame
        values = [*frame.f_locals.values()]
        values += [one for value in values if isinstance(value, tuple) for one in value]
        if before is not None and any(value is before for value in values):
            return True
        trace, before = trace.tb_next, frame
    return False


def _message_of(op: PdOp, error: Exception) -> str:
    """Compose the message for a callback's exception: its op, source line and variables."""
    from graphopt.passes.engine.naming import source_line

    names = op.attr("variables" if "variables" in op.attr_values() else "variable")
    names = [names] if isinstance(names, str) else names
    shown = ", ".join(f"'{name}'" for name in names)
    line = source_line(op.location)
    where = f" (made at {line})" if line else ""
    return (
        f"{op.name} of {shown}{where} called a Python function that raised "
        f"{type(error).__name__}: {error}\nThe step stored nothing: parameters and optimizer state "
        "are unchanged"
    )


# The most steps in flight; more can deadlock XLA's host devices.
MAX_IN_FLIGHT = 8


_calls = itertools.count(1)
"""The counter of the steps of all executables."""


def run_of(form: Form, state: StepState) -> Run:
    """Build the run of a compiled form, with the form's own state or this one."""
    own = form.state or state
    if form.donates:
        return donating(form.step, form.prepare, own)
    return keeping(form.step, own, state.compiled)


def donating(function: Step, prepare: Prepare | None, state: StepState) -> Run:
    """Build a run that donates the buffers of the old state."""
    call = noted_call(function)

    def run(fed: FedArrays, scope: Scope, _: HostArray | None = None) -> Results:
        with scope.lock:
            slots = state.slots(scope)
            updated, read_only = state.take(slots, scope, prepare)
            key = state.next_key() if state.is_random else NO_KEY
            if watcher() is not None:
                state.tell(slots, fed, key, scope)
            # the call donates the old state, so these results hold the only state
            noted: list[Results] = []
            try:
                call(updated, read_only, fed, key, noted)
                state.store(slots, noted[0][1], scope)
            except BaseException:
                # Retry: a second interrupt may come at once, since Python checks for one at a
                # function's start.
                try:
                    _keep(state, slots, noted, scope)
                except BaseException:
                    _keep(state, slots, noted, scope)
                    raise
                raise
        _wait_at_intervals(*noted[0])
        return noted[0]

    def run_wide(fed: FedArrays, scope: Scope, key: HostArray | None = None) -> Results:
        with jax.enable_x64(True):
            return run(fed, scope, key)

    return run_wide if is_wide(function) else run


def keeping(function: Step, state: StepState, compiled: Compiled) -> Run:
    """Build a run that donates no buffers: it may be interrupted anywhere without loss.

    It draws a new random key unless it gets one.
    """
    scratch = scratch_of(function)

    def run(fed: FedArrays, scope: Scope, key: HostArray | None = None) -> Results:
        with scope.lock:
            slots = state.slots(scope)
            updated, read_only = state.take(slots, scope, state.prepare)
        if key is None:
            key = state.next_key() if state.is_random else NO_KEY
            if watcher() is not None:
                state.tell(slots, fed, key, scope)
        if compiled.callers:
            fetches, written = _calling(function, (updated, read_only, fed, key), compiled, state)
        else:
            try:
                with jax.enable_x64(True), scratch or nullcontext():
                    given = fed if scratch is None else scratch.place_feeds(fed)
                    fetches, written = function(updated, read_only, given, key)
            except RuntimeError:
                if not any(map(_is_gone, (*updated, *read_only))):
                    raise
                # a step of another thread has donated the buffers since the lookup
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

    return run


def _calling(
    function: Step,
    arguments: tuple[Arrays, Arrays, FedArrays, HostArray],
    compiled: Compiled,
    state: StepState,
) -> Results:
    """Call a step that runs Python callbacks, and raise if one of them failed."""
    from graphopt.lowering.host import listening

    confirm = state.confirm or _nobody
    with listening(compiled.callers) as run:
        with jax.enable_x64(True):
            results = function(*arguments)
        try:
            finish(run, results)
        except BaseException as error:
            confirm(str(error) or type(error).__name__)
            raise
    confirm("")
    return results


def _keep(
    state: StepState, slots: BoundState, noted: list[Results], scope: Scope, tries: int = 8
) -> None:
    """Store the state of a step that has run, despite interrupts meanwhile."""
    try:
        for _, written in noted:
            with Uninterrupted():
                state.store(slots, written, scope)
    except BaseException:
        if tries:
            _keep(state, slots, noted, scope, tries - 1)
        raise


def _wait_at_intervals(fetches: Arrays, written: Arrays) -> None:
    """Wait for one step in MAX_IN_FLIGHT, so that steps with unread results do not pile up."""
    if not next(_calls) % MAX_IN_FLIGHT:
        jax.block_until_ready(fetches or written)


def _nobody(_: str) -> None:
    """Ignore the outcome of a step that no other trainer runs."""


def _is_gone(array: Array) -> bool:
    """Return whether a step has taken the buffers of an array."""
    return isinstance(array, jax.Array) and array.is_deleted()
