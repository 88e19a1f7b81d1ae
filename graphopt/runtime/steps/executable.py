"""Executables: optimised programs for certain feed shapes, compiled by XLA, and their steps."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import jax
import numpy as np

from graphopt.display.units import several
from graphopt.ir.program.location import caller_level
from graphopt.lowering.needs_data import NeedsData
from graphopt.lowering.plan import Replicated
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.disk.cache import use_cache
from graphopt.runtime.disk.known import Arguments, Known, types_of
from graphopt.runtime.feeds.ids import check_ids
from graphopt.runtime.settings.flags import AUTO, FAST, FULL
from graphopt.runtime.settings.progress import FEED_SHAPE, NEW_PROGRAM, announced
from graphopt.runtime.state.arrays import Array, Arrays, Feeds, HostArray
from graphopt.runtime.state.bound import Bound, BoundState, scope_slot, take_all
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.state.generator import default_generator
from graphopt.runtime.state.prepare import Prepare
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.state.uninterrupted import Uninterrupted
from graphopt.runtime.steps.challenge import rival_of
from graphopt.runtime.steps.forms import Form, Lowering
from graphopt.runtime.steps.rivals import Made, Rival
from graphopt.runtime.steps.run_hook import Watcher, watcher
from graphopt.runtime.steps.step_calls import FedArrays, Results, Step, StepCalls
from graphopt.runtime.steps.tiers import Successor, Tier, quickly, tier_of

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
        self.function: Step | None = None
        self.call = StepCalls()
        # the form that takes the place of the function, while there is one to come
        self.successor: Successor[Step] | None = None
        # the form with other kernels, until it is known which is quicker
        self.rival: Rival | None = None
        # that form, when it has won: it runs in the place of the function
        self.won: Made | None = None
        # for reports: the form of the function and the reason
        self.form: Tier | Successor[Step] | Rival | None = None
        self._challenger: Callable[[object], Rival | None] = _unrivalled
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
        function, prepare = self.function or self.make_ready(feeds, scope), self.prepare
        if self.successor is not None:
            function = self._succeeded(function, self.successor)
        if self.rival is not None or self.won is not None:
            function, prepare = self._contested(function)
        if not self.replicated.donates:
            fetches, written = self._keeping(function, ordered, scope)
            self._bound(fetches, written)
            return fetches
        with scope.lock, jax.enable_x64(True):
            slots = self._slots(scope)
            updated, read_only = self._state(slots, scope, prepare)
            key = self._key()
            if (tell := watcher()) is not None:
                self._tell(tell, slots, ordered, key, scope)
            # the call takes the old state: once it has run, the new state is stored
            noted: list[Results] = []
            try:
                self.call(function, updated, read_only, ordered, key, noted)
                fetches, written = noted[0]
                self._store(slots, written, scope)
            except BaseException:
                if noted:
                    with Uninterrupted():
                        self._store(slots, noted[0][1], scope)
                raise
        self._bound(fetches, written)
        if self.rival is not None:
            self.rival.ended(fetches or written)
        return fetches

    def make_ready(self, feeds: Feeds, scope: Scope) -> Step:
        """The function, compiled for these feeds unless it is."""
        if self.function is None:
            with jax.enable_x64(True):
                self.function = self._compile(*self.arguments(feeds, scope))
        return self.function

    def arguments(self, feeds: Feeds, scope: Scope) -> tuple[Arrays, Arrays, FedArrays, HostArray]:
        """The arguments of a step: state that it updates, state that it reads, feeds, a key."""
        ordered = tuple([feeds[name] for name in self.fed])
        with scope.lock:
            updated, read_only = self._state(self._slots(scope), scope, self.prepare)
        return updated, read_only, ordered, _NO_KEY

    def stablehlo(self) -> str:
        """The input of XLA; "" before the first step, and for ops that run one by one."""
        if not isinstance(self.function, jax.stages.Compiled):
            return ""
        types = jax.tree.map(
            lambda info: jax.ShapeDtypeStruct(info.shape, info.dtype), self.function.args_info[0]
        )
        with jax.enable_x64(True):
            return self.replicated.function.trace(*types).lower().as_text()

    def hlo(self) -> str:
        """The output of XLA; "" as for `stablehlo`."""
        function = self.function if self.won is None else self.won.step
        return function.as_text() or "" if isinstance(function, jax.stages.Compiled) else ""

    def _succeeded(self, function: Step, successor: Successor[Step]) -> Step:
        """The function of the next run: the full form if it is there, else the quick one."""
        full = successor.take()
        if full is not None:
            self.function, self.successor = full, None
            self._challenge()
            return full
        if successor.error is not None:
            self.successor = None
            warnings.warn(
                f"a program stays in its quick form, which runs longer: the full one did not "
                f"compile: {successor.error}",
                stacklevel=caller_level(),
            )
        return function

    def _contested(self, function: Step) -> tuple[Step, Prepare | None]:
        """The function of the next run and its `@prepare`: its own or its rival's, which alternate.

        Both come from one place, as another thread may change what goes on here.
        """
        rival, made = self.rival, self.won
        if rival is not None:
            settled = rival.settled  # once: another thread may settle it while this one asks
            made = rival.winner() if settled else rival.next()
            if settled:
                self.won, self.rival = made, None
        return (function, self.prepare) if made is None else (made.step, made.prepare)

    def _challenge(self) -> None:
        """Let a rival of the full form be made when it has run for a while."""
        self.rival = self._challenger(self.form)
        self.form = self.rival or self.form

    def _state(
        self, slots: BoundState, scope: Scope, prepare: Prepare | None
    ) -> tuple[Arrays, Arrays]:
        """The state that is updated, and what is only read, on the devices."""
        replicated = self.replicated
        updated = tuple(take_all(replicated, slots.updated, keep=True))
        read_only = tuple(take_all(replicated, slots.read_only))
        if prepare is not None:
            read_only += prepare(scope, take_all(replicated, slots.prepare))
            if self.won is not None and prepare is not self.prepare:
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
            try:
                with jax.enable_x64(True):
                    fetches, written = function(*state, ordered, key)
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
    ) -> Step:
        use_cache()
        if not hasattr(self.replicated.function, "trace"):
            return self.replicated.function
        arguments: Arguments = (updated, read_only, ordered, key)
        if self.replicated.name == "alone":  # a second form may be lowered later: keep no arrays
            arguments = types_of(arguments)
        try:
            with announced(lambda: self._described(ordered)):
                function = self._first_form(arguments, self._sizes(ordered))
        except NeedsData:
            if self.replicated.name != "alone":
                raise
            self.replicated = self.compiled.by_op()
            return self.replicated.function
        if self.replicated.name == "alone":
            self._challenger = partial(
                rival_of, self.compiled, self.replicated, arguments, self._sizes(ordered)
            )
        if isinstance(self.form, Tier) and self.form.name == FULL:
            self._challenge()
        return function

    def _first_form(self, arguments: Arguments, sizes: str) -> Step:
        """The form that runs first, for arguments like these; `sizes` are those of the feeds."""
        options = self.compiled.options()
        lowering = Lowering(self.replicated.function, arguments, self.compiled.parts, sizes)
        self.form = tier = tier_of(self.compiled, self.replicated)
        known = Known.of(self.compiled, self.replicated, arguments)
        kept = self.compiled.is_kept
        full = Form(known, lowering, options, kept=kept)
        if tier.name != FAST and (found := full.load()) is not None:
            self.form = Tier(FULL, "it was on disk")
            return found
        if tier.name == FULL:
            return full.make()
        quick = Form(known, lowering, quickly(options), "quick form", kept=kept)
        function = quick.load() or quick.make()
        if tier.name == AUTO:
            self.form = self.successor = Successor(full.make)
        return function

    def _described(self, ordered: FedArrays) -> str:
        """The program that is compiled, with its size, the shapes of its feeds and the reason."""
        count = sum(1 for _ in self.compiled.module.walk())
        sizes = self._sizes(ordered)
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
        self.wanted: Counter[Hashable] = Counter()
        """The number of times that other sizes were wanted."""
        self._found: Bounded[Hashable, Executable] = Bounded(MAX_SHAPES)

    def all(self) -> list[Executable]:
        """Those that are kept."""
        return list(self._found.values())

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


def _unrivalled(_: object) -> Rival | None:
    """No rival: of a step that is not compiled here."""
    return None


def _nobody(_: str) -> None:
    """Called with how a step ended that no other trainer runs."""


def _is_gone(array: Array) -> bool:
    """True for an array whose buffers a step has taken."""
    return isinstance(array, jax.Array) and array.is_deleted()
