"""Executables: optimised programs for certain feed shapes, compiled by XLA, and their steps."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import jax
import numpy as np

from graphopt.display.units import several
from graphopt.lowering.needs_data import NeedsData
from graphopt.lowering.plan import Replicated
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.disk.cache import use_cache
from graphopt.runtime.disk.known import Arguments, types_of
from graphopt.runtime.feeds.ids import check_ids
from graphopt.runtime.settings.progress import FEED_SHAPE, NEW_PROGRAM, announced
from graphopt.runtime.state.arrays import (
    Array,
    Arrays,
    FedArrays,
    Feeds,
    HostArray,
    Results,
    Step,
)
from graphopt.runtime.state.bound import Bound, BoundState, scope_slot, take_all
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.state.generator import default_generator
from graphopt.runtime.state.prepare import Prepare
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.state.uninterrupted import Uninterrupted
from graphopt.runtime.steps.active_form import ActiveForm, first_form
from graphopt.runtime.steps.run_hook import Watcher, watcher
from graphopt.runtime.steps.scratch import Scratch
from graphopt.runtime.steps.size_costs import SizeCosts, Sizes
from graphopt.runtime.steps.step_calls import StepCalls
from graphopt.runtime.steps.tiers import shall_repeat

# A program that meets more shapes than this forgets the executable used least lately.
MAX_SHAPES = 64
# Steps that may be under way at once; more can deadlock XLA's host devices.
MAX_IN_FLIGHT = 8


class KeyGenerator(Protocol):
    """Whatever gives the random keys of steps."""

    def next_key(self, runs: int = 1) -> HostArray:
        """The key of the next step, of which `runs` run in one call."""
        ...


@dataclass
class UnderWay:
    """The steps of all executables since one was waited for.

    No attribute of a class: whenever one changes, Python forgets what it knows of the class.
    """

    steps: int = 0


under_way = UnderWay()
_NO_KEY = np.zeros(2, np.uint32)
_serial = itertools.count()


def _unbind(scope: weakref.ref[Scope], serial: int) -> None:
    """Let a scope forget the slots of an executable that is gone."""
    there = scope()
    if there is not None:
        there.bound.pop(serial, None)


class Executable:
    """A replicated module that XLA compiles at the first call, and the state it passes along."""

    def __init__(self, compiled: Compiled, replicated: Replicated, reason: str) -> None:
        self.compiled = compiled
        self.reason = reason
        self.plan = compiled.plan
        self.is_random = compiled.is_random
        self.replicated = replicated
        self.fed = [port.name for port in compiled.plan.feeds]
        self.serial = next(_serial)
        # gives random keys in place of the global generator
        self.keys: KeyGenerator | None = None
        # called with how a step that calls Python ended
        self.confirm: Callable[[str], None] | None = None
        # the compiled form that runs, None before the first step
        self.active: ActiveForm | None = None
        self._calls: StepCalls | None = None
        self._scratch: Scratch | None = None
        self.prepare = compiled.prepare
        self.bounds = compiled.bounds

    def __call__(self, feeds: Feeds, scope: Scope) -> Arrays:
        """Run one step: state from and to the scope, fetches returned as JAX arrays.

        Whatever ends the step before its end, the scope has the state of a whole step. Raises
        IndexRangeError for fed ids that name nothing.
        """
        if self.bounds:
            check_ids(self.bounds, feeds)
        ordered = tuple([feeds[name] for name in self.fed])
        active = self.active or self.make_ready(feeds, scope)
        function, _, prepare = active.next()
        if not self.replicated.donates or active.on_host:
            fetches, written = self._keeping(function, ordered, scope)
            self._bound(fetches, written)
            return fetches
        calls = self._calls
        if calls is None or calls.function is not function:
            self._calls = calls = StepCalls(function)
        with scope.lock:
            if calls.is_wide:
                with jax.enable_x64(True):
                    results = self._donating(calls, prepare, ordered, scope)
            else:
                results = self._donating(calls, prepare, ordered, scope)
        self._bound(*results)
        if active.rival is not None:
            active.ended(results)
        return results[0]

    def _donating(
        self, calls: StepCalls, prepare: Prepare | None, ordered: FedArrays, scope: Scope
    ) -> Results:
        """A step of a function that takes the buffers of the old state."""
        slots = self._slots(scope)
        updated, read_only = self._state(slots, scope, prepare)
        key = self._key()
        if (tell := watcher()) is not None:
            self._tell(tell, slots, ordered, key, scope)
        # once the call has run, the new state is the only one
        noted: list[Results] = []
        try:
            calls(updated, read_only, ordered, key, noted)
            self._store(slots, noted[0][1], scope)
        except BaseException:
            if noted:
                with Uninterrupted():
                    self._store(slots, noted[0][1], scope)
            raise
        return noted[0]

    def make_ready(self, feeds: Feeds, scope: Scope) -> ActiveForm:
        """The form that runs, compiled for these feeds unless there is one."""
        if self.active is None:
            with jax.enable_x64(True):
                self.active = self._compile(*self.arguments(feeds, scope))
        return self.active

    @property
    def function(self) -> Step | None:
        """The function of its own form, None before the first step."""
        return None if self.active is None else self.active.own.step

    def arguments(self, feeds: Feeds, scope: Scope) -> tuple[Arrays, Arrays, FedArrays, HostArray]:
        """The arguments of a step: state that it updates, state that it reads, feeds, a key."""
        ordered = tuple([feeds[name] for name in self.fed])
        with scope.lock:
            updated, read_only = self._state(self._slots(scope), scope, self.prepare)
        return updated, read_only, ordered, _NO_KEY

    def tier(self) -> str:
        """The form that runs and the reason; "" where there is one form only."""
        state = None if self.active is None else self.active.state
        return "" if state is None else str(state)

    def stablehlo(self) -> str:
        """The input of XLA; "" before the first step, and for ops that run one by one."""
        function = self.function
        if not isinstance(function, jax.stages.Compiled):
            return ""
        types = jax.tree.map(
            lambda info: jax.ShapeDtypeStruct(info.shape, info.dtype), function.args_info[0]
        )
        with jax.enable_x64(True):
            return self.replicated.function.trace(*types).lower().as_text()

    def hlo(self) -> str:
        """The output of XLA; "" as for `stablehlo`."""
        won = None if self.active is None else self.active.won
        function = self.function if won is None else won.step
        return function.as_text() or "" if isinstance(function, jax.stages.Compiled) else ""

    def _state(
        self, slots: BoundState, scope: Scope, prepare: Prepare | None
    ) -> tuple[Arrays, Arrays]:
        """The state that is updated, and what is only read, on the devices."""
        replicated = self.replicated
        updated = tuple(take_all(replicated, slots.updated, keep=True))
        read_only = tuple(take_all(replicated, slots.read_only)) if slots.read_only else ()
        if prepare is not None:
            read_only += prepare(scope, take_all(replicated, slots.prepare))
            if prepare is not self.prepare and self.active is not None and self.active.won:
                scope.prepared.pop(self.prepare, None)  # what the other form read
        return updated, read_only

    def _key(self) -> HostArray:
        """The random key of the next step."""
        if not self.is_random:
            return _NO_KEY
        return (self.keys or default_generator()).next_key(self.plan.steps)

    def _tell(
        self, tell: Watcher, slots: BoundState, ordered: FedArrays, key: HostArray, scope: Scope
    ) -> None:
        """Report what the step takes to the run hook."""
        read = (*slots.updated, *slots.read_only, *slots.prepare)
        state = {n: scope_slot(scope, n).numpy() for port, *_ in read for n in port.variables}
        tell(self.compiled, state | dict(zip(self.fed, ordered, strict=True)), key)

    def _keeping(self, function: Step, ordered: FedArrays, scope: Scope) -> Results:
        """A step of a function that takes no buffers: anything may end it, nothing is lost."""
        with scope.lock:
            slots = self._slots(scope)
            state = self._state(slots, scope, self.prepare)
        key = self._key()
        if (tell := watcher()) is not None:
            self._tell(tell, slots, ordered, key, scope)
        if self.compiled.callers:
            fetches, written = self._calling(function, *state, ordered, key)
        else:
            scratch = self._scratch
            if scratch is None or scratch.function is not function:
                self._scratch = scratch = Scratch(function)
            try:
                with jax.enable_x64(True), scratch:
                    fetches, written = function(*state, scratch.fed(ordered), key)
            except RuntimeError:
                if not any(map(_is_gone, (*state[0], *state[1]))):
                    raise
                # a step of another thread took the buffers after they had been looked up
                with scope.lock, jax.enable_x64(True):
                    fetches, written = function(
                        *self._state(slots, scope, self.prepare), ordered, key
                    )
        if self.compiled.checks_finite:
            from graphopt.lowering.finite import take
            from graphopt.runtime.steps.not_finite import refuse_not_finite

            found = take((fetches, written))
            refuse_not_finite(found, self.compiled.compilation.program, self.compiled.module)
        if written:
            with scope.lock, Uninterrupted():
                self._store(slots, written, scope)
        return fetches, written

    def _calling(
        self,
        function: Step,
        updated: Arrays,
        read_only: Arrays,
        ordered: FedArrays,
        key: HostArray,
    ) -> Results:
        """The results of a function that calls Python, when all of that has ended well."""
        from graphopt.lowering.host import listening
        from graphopt.runtime.steps.callbacks import finish

        confirm = self.confirm or _nobody
        with listening(self.compiled.callers) as run:
            with jax.enable_x64(True):
                results = function(updated, read_only, ordered, key)
            try:
                finish(run, results)
            except BaseException as error:
                confirm(str(error) or type(error).__name__)
                raise
        confirm("")
        return results

    def _store(self, slots: BoundState, written: Arrays, scope: Scope) -> None:
        """The state after the step, into the scope."""
        home = self.replicated.home
        for (port, slot, layout), array in zip(slots.written, written, strict=True):
            slot = slot or scope_slot(scope, port.name)
            slot.put(array, layout=layout, home=home)

    def _compile(
        self, updated: Arrays, read_only: Arrays, ordered: FedArrays, key: HostArray
    ) -> ActiveForm:
        use_cache()
        if not hasattr(self.replicated.function, "trace"):
            return ActiveForm(self.replicated.function, self.prepare)
        arguments: Arguments = (updated, read_only, ordered, key)
        if self.replicated.name == "alone":  # a second form may be lowered later: keep no arrays
            arguments = types_of(arguments)
        try:
            sizes = self._sizes(ordered)
            announce = partial(announced, partial(self._described, sizes))
            given = self.compiled, self.replicated, arguments, sizes, announce
            return first_form(*given, is_first=self.reason != FEED_SHAPE)
        except NeedsData:
            if self.replicated.name != "alone":
                raise
            self.replicated = self.compiled.by_op()
            return ActiveForm(self.replicated.function, self.prepare)

    def _described(self, sizes: str) -> str:
        """The program that is compiled, with its size, the sizes of its feeds and the reason."""
        count = sum(1 for _ in self.compiled.module.walk())
        feeds = f" with feeds {sizes}" if sizes else ""
        return f"compiling a program of {several(count, 'operator')}{feeds} ({self.reason})"

    def _sizes(self, ordered: FedArrays) -> str:
        """The feeds with their shapes, without masks and lengths."""
        return ", ".join(
            f"{name} {list(array.shape)}"
            for name, array in zip(self.fed, ordered, strict=True)
            if not isinstance(array, list) and "@" not in name
        )

    def _slots(self, scope: Scope) -> BoundState:
        """The slots of the state, which are looked up by name when there are new variables."""
        changes, found = scope.bound.get(self.serial, (-1, None))
        if found is None or changes != Scope.changes:
            plan = self.plan
            prepare = self.prepare.reads if self.prepare is not None else ()
            groups = (plan.updated, plan.read_only, plan.written, prepare)
            replicated = self.replicated
            found = BoundState(
                *([Bound.of(replicated, p, scope) for p in ports] for ports in groups)
            )
            if self.serial not in scope.bound:
                weakref.finalize(self, _unbind, weakref.ref(scope), self.serial).atexit = False
            scope.bound[self.serial] = Scope.changes, found
        return found

    def _bound(self, fetches: Arrays, written: Arrays) -> None:
        """Wait at intervals, so that steps with unread results do not pile up."""
        under_way.steps += 1
        if under_way.steps >= MAX_IN_FLIGHT:
            under_way.steps = 0
            jax.block_until_ready(fetches or written)


class Executables:
    """The executables of one compiled program, one for each set of feed shapes.

    `shapes` counts those that were made so far. `reason` says why there is a first one.
    """

    def __init__(self, compiled: Compiled, reason: str = NEW_PROGRAM) -> None:
        self.compiled = compiled
        self.reason = reason
        self.shapes = 0
        self.sizes: list[dict[str, int]] = []
        """The sizes of padded dimensions, of those that were compiled last."""
        self.costs = SizeCosts()
        self._found: Bounded[Hashable, Executable] = Bounded(MAX_SHAPES)

    def all(self) -> list[Executable]:
        """Those that are kept."""
        return list(self._found.values())

    def pays(self, wanted: Sizes, patience: float) -> bool:
        """True when a padded size that a larger one has served so far is worth compiling."""
        if shall_repeat(self.compiled):
            return self.costs.came_often(wanted, patience)
        return self.costs.pays(wanted, patience)

    def find(self, shapes: Hashable, count: int, *, even: bool) -> Executable:
        """The executable for these feed shapes on `count` replicas, compiled when it is new."""
        key = shapes, count, even
        return self.of(key, lambda: self.compiled.mapped(count, even=even))

    def of(self, key: Hashable, mapped: Callable[[], Replicated]) -> Executable:
        """The executable of this key, when it is new from what `mapped` gives."""
        return self._found.find(key, lambda: self._made(mapped()))

    def _made(self, replicated: Replicated) -> Executable:
        self.shapes += 1
        return Executable(
            self.compiled, replicated, self.reason if self.shapes == 1 else FEED_SHAPE
        )


def _nobody(_: str) -> None:
    """Called with how a step ended that no other trainer runs."""


def _is_gone(array: Array) -> bool:
    """True for an array whose buffers a step has taken."""
    return isinstance(array, jax.Array) and array.is_deleted()
