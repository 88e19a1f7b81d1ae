"""Executables: optimized programs for certain feed shapes, and their steps.

A step is computed by NumPy, or by XLA (`compiled_steps`), for which JAX is imported.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from graphopt.errors import GraphoptError
from graphopt.ir.dialect.collector import keep_imported, paused_collector
from graphopt.lowering.plan import Replicated
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.disk.summaries import compiled_or_known
from graphopt.runtime.feeds.ids import check_ids
from graphopt.runtime.host.failures import HostFailure
from graphopt.runtime.settings.flags import AUTO, HOST, tier_flag
from graphopt.runtime.settings.jax_import import import_jax
from graphopt.runtime.settings.progress import FEED_SHAPE, NEW_PROGRAM
from graphopt.runtime.state.arrays import (
    Array,
    Arrays,
    FedArrays,
    Feeds,
    HostArray,
    Step,
    numbers_in,
)
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.state.uninterrupted import Uninterrupted
from graphopt.runtime.steps.costs import ProgramCosts
from graphopt.runtime.steps.forms import Form, Forms, Run
from graphopt.runtime.steps.policy import BY_OP, KERNELS
from graphopt.runtime.steps.run_hook import watcher
from graphopt.runtime.steps.step_state import NO_KEY, StepState

# The most feed shapes of a program; beyond that, the least recently used executable is dropped.
MAX_SHAPES = 64
_LARGE = 1 << 31
MOST_NUMBERED = 16
"""The most sets of size-deciding feed values for which a program is kept."""


class Executable:
    """A replicated module for certain feeds, in its current form, and its `state` in scopes."""

    def __init__(
        self,
        compiled: Compiled,
        replicated: Replicated,
        reason: str,
        costs: ProgramCosts | None = None,
    ) -> None:
        self.compiled = compiled
        self.plan = compiled.plan
        self.replicated = replicated
        self.fed = [port.name for port in compiled.plan.feeds]
        self.state = StepState(compiled, replicated)
        self.forms = Forms(self.state, costs or ProgramCosts(), reason)
        self.form: Form | None = None
        """The form of all later runs, once it is final."""
        named = compiled.bounds.items()
        self.bounds = {name: bounds for name, bounds in named if name in self.fed}
        self._divisors = {name: bounds for name, bounds in named if name not in self.fed}
        self._checked: dict[str, Array | None] = {}
        """The divisors in state that have been checked."""

    def __call__(
        self, feeds: Feeds, scope: Scope, unpadded: Callable[[], Feeds] | None = None
    ) -> Arrays:
        """Run one step with state from and to the scope; return JAX or NumPy arrays.

        NumPy, which computes any sizes, takes the feeds of `unpadded`, except in a training or with
        random numbers, where all steps must be alike. If the step is interrupted, the scope has the
        state of a whole step. Raise IndexRangeError for fed ids out of range.
        """
        if self.bounds:
            check_ids(self.bounds, feeds)
        if self._divisors:
            self._check_divisors(scope)
        ordered = tuple(map(feeds.__getitem__, self.fed))
        form = self.form or self._next_form(feeds, scope)
        if form.name == HOST:
            if unpadded is None or self.plan.written or self.state.is_random:
                return self._on_host(form, ordered, ordered, scope)
            bare = unpadded()
            return self._on_host(form, tuple([bare[name] for name in self.fed]), ordered, scope)
        run = form.run or self._run_of(form)
        results = run(ordered, scope, None)
        if self.forms.timed is not None:
            self.forms.end_run(results)
        return results[0]

    def _next_form(self, feeds: Feeds, scope: Scope) -> Form:
        """Choose the form of this run; another one may run later."""
        if not self.forms.is_ready:
            self.make_ready(feeds, scope)
        form = self.form or self.forms.next(scope)
        if (last := self.forms.last) is not None:
            self.form = last
            # no other form reads prepared state, except for other feed sizes
            own = last.state or self.state
            for other in {self.state.prepare, own.prepare} - {last.prepare, None}:
                scope.prepared.pop(other, None)
        return form

    @property
    def is_ready(self) -> bool:
        """True when there is a form for the first step."""
        return self.form is not None or self.forms.is_ready

    def make_ready(self, feeds: Feeds, scope: Scope) -> None:
        """Make a form for these feeds, unless there is one; raise its compilation errors."""
        if not self.is_ready:
            self.form = self._only_form()
        if not self.is_ready:
            self.forms.begin(tuple(map(feeds.__getitem__, self.fed)), scope)
            if (own := self.forms.own()) is not None and own.name == BY_OP:
                self.form = self._by_op("by_op")

    @property
    def made_of(self) -> Compiled:
        """The program of the form: specialized to its sizes, where passes choose by these."""
        form = self.forms.own() or self.form
        state = None if form is None else form.state
        return self.compiled if state is None else state.compiled

    @property
    def function(self) -> Step | None:
        """The function of the form that runs without oneDNN, None before the first step."""
        form = self.forms.own() or self.form
        return None if form is None else form.step

    def arguments(self, feeds: Feeds, scope: Scope) -> tuple[Arrays, Arrays, FedArrays, HostArray]:
        """Collect a step's arguments: state to update, read-only state, feeds, a key."""
        state = self.state
        return state.arguments(tuple(map(feeds.__getitem__, self.fed)), scope, state.prepare)

    def tier(self) -> str:
        """Describe the form that runs and the reason; "" where there is one form only."""
        return self.forms.words() or ("" if self.form is None else self.form.words)

    def stablehlo(self) -> str:
        """Return XLA's input; "" before the first step, and for ops that run one by one."""
        function: Any = self.function
        if not _is_compiled(function):
            return ""
        import jax

        types = jax.tree.map(
            lambda info: jax.ShapeDtypeStruct(info.shape, info.dtype), function.args_info[0]
        )
        with jax.enable_x64(True):
            return self.replicated.function.trace(*types).lower().as_text()

    def hlo(self) -> str:
        """Return XLA's output; "" as for `stablehlo`."""
        form = self.form
        function: Any = form.step if form is not None and form.name == KERNELS else self.function
        return function.as_text() or "" if _is_compiled(function) else ""

    def _on_host(self, form: Form, ordered: FedArrays, padded: FedArrays, scope: Scope) -> Arrays:
        """Run a step in NumPy, which overwrites no array that it reads.

        If NumPy cannot compute it, run a compiled form with the `padded` feeds, or raise the cause.
        """
        key = self.state.next_key() if self.state.is_random else NO_KEY
        if watcher() is not None:
            with scope.lock:
                self.state.tell(self.state.slots(scope), ordered, key, scope)
        try:
            fetches = self._computed_on_host(form, ordered, scope, key)
        except HostFailure as failure:
            instead = self.forms.instead(failure) if self.forms.is_ready else None
            if instead is not None:
                run = self._run_of(replace(instead, donates=False))
                fetches, _ = run(padded, scope, key)
                self.forms.leave(failure)  # feeds that no form can compute do not end the host form
                self.form = None
                return fetches
            if failure.__cause__ is not None:
                raise failure.__cause__ from None
            fetches = self._computed_on_host(form, ordered, scope, key)
        if self.forms.is_ready:
            self.forms.ended_on_host(form)
        return fetches

    def _computed_on_host(
        self, form: Form, ordered: FedArrays, scope: Scope, key: HostArray
    ) -> Arrays:
        """Compute a step in NumPy, one thread at a time if it changes state."""
        with scope.lock if self.plan.written else nullcontext():
            with scope.lock:
                slots = self.state.slots(scope)
                state = self.state.in_numpy(slots, scope)
            fetches, written = form.step(*state, ordered, key)
            if written:
                with Uninterrupted():
                    self.state.store(slots, written, scope, on_host=True)
        return fetches

    def _run_of(self, form: Form) -> Run:
        """Build the run of a compiled form; JAX is imported for it."""
        with paused_collector():  # imported modules are no garbage
            import_jax()
            from graphopt.runtime.steps.compiled_steps import run_of

            keep_imported("jax")
        form.run = run_of(form, self.state)
        return form.run

    def _only_form(self) -> Form | None:
        """Return the form of a step that can have only one; None for others."""
        compiled, replicated = self.compiled, self.replicated
        if compiled.is_startup:
            from graphopt.runtime.host.start import has_start_step, start_step

            if tier_flag() in (AUTO, HOST) and has_start_step(compiled):
                words = f"{HOST}: NumPy draws the numbers of a startup program"
                return Form(HOST, start_step(compiled), words=words)
            if compiled.starts_alike:
                return self._by_op("start")
        if replicated.name != "alone" and not hasattr(replicated.function, "trace"):
            prepare, donates = compiled.prepare, replicated.donates
            return Form(replicated.name, replicated.function, prepare, donates)
        return None

    def _by_op(self, name: str) -> Form:
        """Make the form op by op; `name` is for reports."""
        self.replicated = self.state.replicated = replace(self.compiled.op_by_op, name=name)
        return Form(BY_OP, self.replicated.function, self.compiled.prepare)

    def _check_divisors(self, scope: Scope) -> None:
        """Refuse state with a 0 that divides, if it has changed since the last check."""
        for name, bounds in self._divisors.items():
            slot = scope.find_var(name)
            if slot is not None and slot.value is not None:
                if slot.value is not self._checked.get(name):
                    check_ids({name: bounds}, {name: slot.numpy()}, "holds")
                self._checked[name] = slot.value


def _is_compiled(function: Any) -> bool:
    """Return whether a function is an executable that JAX has compiled."""
    if "jax" not in sys.modules:
        return False
    import jax  # waits for a thread that is importing it

    return isinstance(function, jax.stages.Compiled)


class Executables:
    """The executables of one compiled program, one for each set of feed shapes.

    `shapes` counts the executables made so far. `reason` is the reason for the first one.
    """

    def __init__(self, compiled: Compiled, reason: str = NEW_PROGRAM) -> None:
        self.compiled = compiled
        self.reason = reason
        self.shapes = 0
        self.costs = ProgramCosts()
        self.sizes: list[dict[str, int]] = []
        """The sizes of padded dimensions, for the latest compilations."""
        self._found: Bounded[Hashable, Executable] = Bounded(MAX_SHAPES)
        self._numbered: Bounded[Hashable, Executables] = Bounded(MOST_NUMBERED)
        self._met: Bounded[Hashable, bool] = Bounded(MAX_SHAPES)
        self._lock = threading.Lock()

    def all(self) -> list[Executable]:
        """List the kept executables."""
        found = [each for numbered in self._numbered.values() for each in numbered.all()]
        return [*self._found.values(), *found]

    def find(
        self, shapes: Hashable, count: int, *, even: bool, feeds: Feeds | None = None
    ) -> Executable:
        """Find the executable for these feed shapes on `count` replicas, or compile it.

        Where elements of `feeds` decide sizes, it is compiled for these elements.
        """
        if self.compiled.deciding and feeds is not None:
            numbered = self._for_numbers(feeds)
            if numbered is not None:
                return numbered.find(shapes, count, even=even, feeds=feeds)
        key = shapes, count, even
        return self.of(key, lambda: self.compiled.map_replicas(count, even=even))

    def _for_numbers(self, feeds: Feeds) -> Executables | None:
        """Find the executables of the program in which the deciding feeds are constants.

        Return None for numbers that may never recur: except the first ones, numbers run op by op
        when they come for the first time.
        """
        numbers = {name: numbers_in(feeds[name]) for name in self.compiled.deciding}
        key = tuple(numbers.values())
        with self._lock:
            known = self._numbered.use(key)
            if known is None and (not self._met or key in self._met):
                known = self._made_for(numbers)
                if known is not None:
                    self._numbered.keep(key, known)
            self._met.keep(key, True)
        return known

    def _made_for(self, numbers: Mapping[str, tuple[float, ...]]) -> Executables | None:
        compilation = self.compiled.compilation.with_numbers(numbers)
        if compilation is None or any(abs(n) >= _LARGE for each in numbers.values() for n in each):
            return None
        try:
            return Executables(compiled_or_known(compilation), self.reason)
        except GraphoptError:  # the run op by op raises a better error for these numbers
            return None

    def of(self, key: Hashable, mapped: Callable[[], Replicated]) -> Executable:
        """Find the executable of this key, or make it from the result of `mapped`."""
        with self._lock:  # threads that start at once share a compilation
            return self._found.find(key, lambda: self._make(mapped()))

    def _make(self, replicated: Replicated) -> Executable:
        self.shapes += 1
        reason = self.reason if self.shapes == 1 else FEED_SHAPE
        return Executable(self.compiled, replicated, reason, self.costs)
