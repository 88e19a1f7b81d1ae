"""The forms of one step: the existing ones, and the history of their runs.

`policy` chooses the form that runs next. It is loaded or made here, by the caller or in a thread.
JAX is imported when a form is loaded or compiled, so not for steps that NumPy computes.
"""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from graphopt.display.units import several
from graphopt.ir.program.location import caller_level
from graphopt.lowering.needs_data import NeedsData
from graphopt.lowering.plan import Plan
from graphopt.runtime.compile.background import submit
from graphopt.runtime.devices.places import device_of
from graphopt.runtime.disk.directory import most_bytes
from graphopt.runtime.disk.entries import read_entry, write_entry
from graphopt.runtime.disk.seen import (
    note_compiled,
    note_of,
    note_seconds,
    seconds_before,
    was_compiled,
)
from graphopt.runtime.disk.summaries import has_summary, is_on_disk
from graphopt.runtime.host.failures import GivenUp, HostFailure
from graphopt.runtime.settings.flags import (
    AUTO,
    FAST,
    FULL,
    HOST,
    measures_kernels,
    tier_flag,
)
from graphopt.runtime.settings.jax_import import import_jax
from graphopt.runtime.settings.progress import FIRST_STEPS, LATER_STEPS, announce
from graphopt.runtime.state.arrays import FedArrays, HostArray, Results, Step
from graphopt.runtime.state.prepare import Prepare
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.steps.costs import ProgramCosts
from graphopt.runtime.steps.facts import (
    count_elements,
    find_facts,
    shall_repeat,
    trains_from_seed,
)
from graphopt.runtime.steps.in_child import (
    FedTypes,
    Job,
    compilation_for,
    compile_in_child,
    has_children,
    types_of_plan,
)
from graphopt.runtime.steps.policy import (
    BY_OP,
    FROM_RUN,
    KERNELS,
    NOT_COMPUTED,
    ON_DISK,
    TOO_LONG,
    Facts,
    History,
    Rival,
    choose,
)

if TYPE_CHECKING:
    from graphopt.passes.table.parts import CompilationPart
    from graphopt.runtime.host.form import HostForm
    from graphopt.runtime.steps.step_state import StepState
    from graphopt.runtime.steps.xla_forms import XlaForms

Run: TypeAlias = "Callable[[FedArrays, Scope, HostArray | None], Results]"
"""A step in a scope, with its results; it draws a random key unless it gets one."""
FOLDER = "rivals"
PAID = 4
"""Sizes are compiled for later processes once NumPy has taken this multiple of the compile time.

With the import of JAX, compiling takes about twice that time here, and should take at most half as
long as NumPy has taken.
"""
JAX_SECONDS = 0.5
"""The approximate seconds to import JAX."""
NOTED = 0.01
"""NumPy's time is recorded from this share of the compile time on; less does not add up."""


@dataclass(eq=False)
class Form:
    """A form that can run: its step, and the prepared values that the step reads.

    A form that `donates` takes the buffers of the old state. `words` is for reports of a step with
    only one form.
    """

    name: str
    step: Step
    prepare: Prepare | None = None
    donates: bool = False
    words: str = ""
    state: StepState | None = None
    """The state of a form compiled for the sizes of its feeds; None for the shared state."""
    run: Run | None = None
    """The run of a compiled step, from the first run on."""


class Forms:
    """The forms of one step, from its first run until one of them stays.

    `last` is the form that stays.
    """

    def __init__(self, state: StepState, costs: ProgramCosts, reason: str) -> None:
        self._ready: dict[str, Form] = {}
        self.seen = History(self._ready)
        self.is_ready = False
        """True when the first run has a form."""
        self.last: Form | None = None
        self.timed: tuple[int, float, str] | None = None
        """The timed run in progress, if any: its thread, start and form."""
        self._held: Form | None = None
        self._held_runs = 0
        """The number of next runs that use this form without another choice."""
        self._state = state
        self._compiled = state.compiled
        self._replicated = state.replicated
        self._reason = reason
        self._costs = costs
        self._facts = Facts()
        self._lowering = threading.Lock()
        self._xla: XlaForms | None = None
        self._arguments: Callable[[], Any] = tuple
        self._fed: FedTypes = ()
        self._sizes = ""
        self._beginning = threading.RLock()
        # held only briefly; notified of each form that becomes ready
        self._lock = threading.Condition()
        # the thread of the caller that compiles, and the thread that compiles the full form
        self._maker: int | None = None
        self._full_maker: int | None = None
        # the process that owns the background thread
        self._process = 0
        self._began = 0.0
        self._outcome: Path | None = None
        self._note: Path | None = None
        """The file on disk with notes on these sizes, for a step that only infers."""
        self._seconds_before = self._noted_from = 0.0
        """NumPy's seconds for these sizes in earlier processes; the seconds for the next note."""
        self._is_missed = False
        """True when the full form is on disk."""
        self._elements = 0
        self._has_warned = False

    def begin(self, fed: FedArrays, scope: Scope) -> None:
        """Make a form for the first run with these feeds.

        Raise NeedsData for replicas, and compilation errors.
        """
        compiled, replicated, self._elements = self._compiled, self._replicated, count_elements(fed)
        sizes = _in_words(compiled.plan, fed)
        compiled.note_request(sizes, self._reason)
        infers = not (compiled.plan.written or compiled.calls_python)
        self._note = note_of(compiled, fed) if infers and replicated.name == "alone" else None
        find = partial(find_facts, compiled, replicated, fed, self._costs)
        is_new = compiled.is_new or (infers and self._is_not_kept())
        # a seeded training does not start with a form on disk
        facts = find() if is_new or trains_from_seed(compiled) else None
        self._fed = _fed_types(compiled.plan, fed)
        if facts is not None and facts.first[0] == HOST and compiled.plan.sizes_are_known:
            arguments = partial(types_of_plan, compiled.plan, replicated, self._fed)
        else:
            # before the lock: a thread that holds the scope's lock may wait for this one
            arguments = partial(tuple, self._types_in(scope, fed))
        shared = facts is not None and facts.quick_runs > 0 and self._state.is_shared(scope)
        with self._beginning:
            if self.is_ready:
                return
            self._arguments, self._sizes, self._xla = arguments, sizes, None
            may_be_on_disk = facts is None and tier_flag() in (AUTO, FULL)
            if may_be_on_disk and self._is_known() and self._load(FULL, self._xla_forms()):
                facts = Facts(asked=tier_flag())  # no other facts are needed
            self._facts = facts or find()
            self.seen.trained, self.seen.shared = self._costs.trained + 1, shared
            if self._facts.first[0] == HOST:
                assert self._costs.host is not None
                price, repeats = self._facts.price, self._facts.seeded
                form = self._costs.host.for_sizes(price, repeats=repeats)
                self._ready[HOST] = Form(HOST, form, compiled.prepare)
                self._seconds_before = seconds_before(self._note)
                self._noted_from = NOTED * price
            self._make_chosen()
            self.is_ready = True

    def _is_known(self) -> bool:
        """Return False if no process has kept a form of the program for these sizes."""
        compiled = self._compiled
        if compiled.key is None or not (compiled.wants_sizes and has_summary(compiled)):
            return True
        return is_on_disk(compilation_for(compiled, self._fed))

    def _types_in(self, scope: Scope, fed: FedArrays) -> Any:
        """Return the types of a step's arguments, or arrays if it is never lowered again."""
        import_jax()
        from graphopt.runtime.disk.known import types_of

        state, plan = self._state, self._compiled.plan
        if self._replicated.name != "alone":
            return state.arguments(fed, scope, state.prepare)
        if not (self._compiled.wants_sizes and plan.sizes_are_known):
            return types_of(state.arguments(fed, scope, state.prepare))
        # a specialized program prepares its values itself
        updated, read_only, *rest = types_of(state.arguments(fed, scope, None))
        prepared = map(self._replicated.type_of, plan.prepared)
        return updated, (*read_only, *prepared), *rest

    def _is_not_kept(self) -> bool:
        """Return whether JAX need not be imported for a full form on disk.

        That is so if none is on disk, or if it saves too little: a process that began with NumPy
        goes on with it, until sizes on disk have taken NumPy as long as the import of JAX takes.
        """
        if self._note is None or tier_flag() != AUTO:
            return False
        self._is_missed = was_compiled(self._note)
        waits = "xdsl" in sys.modules and "jax" not in sys.modules
        return not self._is_missed or (waits and self._costs.missed < JAX_SECONDS)

    def next(self, scope: Scope) -> Form:
        """Choose the form of the run that begins; load or compile it here if no other serves."""
        if self._held is not None and self._held_runs > 0:
            self._held_runs -= 1
            return self._held
        seen, rival = self.seen, self.seen.rival
        seen.runs += 1
        if self._facts.quick_runs:
            self._costs.trained += 1
            seen.trained = self._costs.trained
            seen.shared = seen.shared or self._state.is_shared(scope)
        if seen.thread and self._process != os.getpid():
            # the thread belongs to the parent process
            seen.thread, self._full_maker = "", None
        if rival is not None:
            rival.runs += 1
            rival.seconds = time.monotonic() - self._began
        choice = choose(self._facts, seen)
        if choice.thread:
            self._submit(choice.thread)
        form = self._ready.get(choice.form)
        if form is None:
            return self._make_chosen(seen.left)
        self._held, self._held_runs = form, choice.holds - 1
        if rival is not None:
            rival.runs += self._held_runs
        seen.runs += self._held_runs
        if choice.is_last:
            self._stay(form)
        elif KERNELS in self._ready:
            self.timed = threading.get_ident(), time.perf_counter(), form.name
        return form

    def words(self) -> str:
        """Describe the form that runs and the reason; "" before the first step."""
        return choose(self._facts, self.seen).words if self.is_ready else ""

    def own(self) -> Form | None:
        """Return the form that runs, or the full one where oneDNN is tried."""
        if not self.is_ready:
            return None
        name = choose(self._facts, self.seen).form
        return self._ready.get(FULL if name == KERNELS else name)

    # -- runs in NumPy -----------------------------------------------------------------------------

    def instead(self, failure: HostFailure) -> Form | None:
        """Make the form for a run that NumPy did not complete; None where NumPy continues.

        If NumPy continues, no time limit applies. It computes the next run, too, unless this one
        succeeds in the other form and the caller calls `leave`.
        """
        form = self._make_chosen(_why_left(failure))
        if form.name == HOST:
            cast("HostForm", form.step).price = math.inf
            return None
        if isinstance(failure, GivenUp):
            self._costs.slow_elements = min(self._costs.slow_elements, self._elements)
        return form

    def leave(self, failure: HostFailure) -> None:
        """Leave NumPy for good, after a compiled form has completed a run that NumPy did not."""
        self.seen.left, self.last = _why_left(failure), None

    def ended_on_host(self, form: Form) -> None:
        """Record the time of a run in NumPy, and compile for later processes if it pays."""
        seen, spent = self.seen, cast("HostForm", form.step).spent
        costs, facts = self._costs, self._facts
        costs.host_seconds += spent - seen.spent
        costs.missed += spent - seen.spent if self._is_missed else 0.0
        seen.spent, seen.ended = spent, True
        seen.others = round(costs.host_seconds - spent, 6)
        # sizes may change in a loop, which leaves no compiled program to keep
        if facts.asked != AUTO or facts.loops or seen.pays_later or self._is_missed:
            return
        before, in_all = self._seconds_before, self._seconds_before + spent
        if self._note is not None and spent >= self._noted_from:
            note_seconds(self._note, in_all)
            self._noted_from = 2 * spent
        if before and in_all >= PAID * facts.price and costs.may_compile_ahead(facts.price):
            seen.pays_later = True
            if thread := choose(facts, seen).thread:
                self._submit(thread)

    # -- compiled forms ----------------------------------------------------------------------------

    def _make_chosen(self, left: str = "") -> Form:
        """Return the form that the policy chooses; `left` is the reason to leave NumPy.

        Load or compile it here, unless another thread finishes a suitable form meanwhile.
        """
        me = threading.get_ident()

        def name() -> str:
            return choose(self._facts, replace(self.seen, left=left)).form

        def is_free() -> bool:
            # a signal handler may run the step in the middle of a compilation
            makers = {self._maker, self._full_maker if name() == FULL else None}
            return makers <= {None, me}

        while True:
            if (form := self._ready.get(name())) is not None:
                return form
            try:
                # The awaited form may change meanwhile; the line describes the first one.
                steps = self._steps_of(name())
                with announce(partial(self._describe, steps), live=partial(self._live, steps)):
                    with self._lock:
                        self._lock.wait_for(lambda: name() in self._ready or is_free())
                        if (form := self._ready.get(needed := name())) is not None:
                            return form
                        self._maker = me
                        self._full_maker = me if needed == FULL else self._full_maker
                    self._make(needed)
            finally:
                self._give_up_making(me)

    def _steps_of(self, name: str) -> str:
        """Name the steps that a form is compiled for, if another form computes the rest."""
        if self._facts.asked == AUTO:
            if name == FAST:
                return FIRST_STEPS
            if name == FULL and FAST in self._ready:
                return LATER_STEPS
        return ""

    def _describe(self, steps: str) -> str:
        """Describe the program to compile: its size, the sizes of its feeds and the reason.

        A program with two forms is compiled for its first steps, then for all later ones.
        """
        count = several(sum(1 for _ in self._compiled.module.walk()), "operator")
        program = f"program of {count}" + (f" with feeds {self._sizes}" if self._sizes else "")
        if steps == LATER_STEPS:
            return f"compiling the same {program} for {steps}, with XLA's full effort"
        if steps:
            program += f" for {steps}, with XLA's least effort"
        return f"compiling a {program} ({self._reason})"

    def _live(self, steps: str, seconds: float) -> str:
        """Compose a terminal's line about the current compilation."""
        what, xla = f"compiling {steps or 'the step'}", self._xla
        if xla is None:
            return f"{what}: {seconds:.0f} s"
        later = "" if xla.known is None else " (next time from the cache)"
        return f"{what}: {xla.now}{seconds:.0f} s{later}"

    def _give_up_making(self, me: int) -> None:
        """Unregister a thread that makes a form, and wake waiting threads."""
        with self._lock:
            if me in (self._maker, self._full_maker):
                self._maker = None if self._maker == me else self._maker
                self._full_maker = None if self._full_maker == me else self._full_maker
                self._lock.notify_all()

    def _make(self, name: str, began: float | None = None) -> None:
        """Load or compile a form, or note that sizes depend on data; a thread `began` then."""
        if name == BY_OP:
            return self._keep(BY_OP, self._compiled.op_by_op.function)
        parts = [] if began is None else self._compile_apart()
        import_jax()
        with self._lock:
            is_counted = name == FAST and bool(self._facts.quick_runs)
            if FULL in self._ready and not is_counted:  # the background thread has made it
                return
            xla = self._xla_forms()
        # a full form on disk needs no other form
        takes_full = self._facts.asked in (AUTO, FULL) and not is_counted
        names = dict.fromkeys([FULL, name]) if takes_full else [name]
        xla.compiled.parts += parts
        if any(self._load(each, xla, began if parts else None) for each in names):
            return
        try:
            step = xla.make(name)
        except NeedsData:
            if self._replicated.name != "alone":
                raise
            self.seen.needs_data = True
        else:
            if name == FULL and self._note is not None:
                # A form that was not saved is compiled for later processes only once that pays
                # again.
                note_compiled(self._note) if xla.is_kept else note_seconds(self._note, 0.0)
            self._keep(name, step, xla, "" if began is None else self._from_run(began))

    def _compile_apart(self) -> list[CompilationPart]:
        """Have another process compile the full form, and return the times of its parts.

        Return [] for a form on disk, and for one that no process can make: this process handles
        both.
        """
        compiled = self._compiled
        if not (self._fed and has_children()) or is_on_disk(compilation_for(compiled, self._fed)):
            return []
        job = Job.of(compiled, self._fed, self._sizes, self._note)
        return [] if job is None else compile_in_child(job, self._facts.nicer)

    def _load(self, name: str, xla: XlaForms, began: float | None = None) -> bool:
        """Keep a form that is on disk; False if none is. `began` is set if a child compiled it."""
        step = xla.load(name)
        if step is not None:
            self._keep(name, step, xla, ON_DISK if began is None else self._from_run(began))
            if name == FULL:
                note_compiled(self._note)
        return step is not None

    def _from_run(self, began: float) -> str:
        return FROM_RUN.format(self.seen.runs + 1, time.monotonic() - began)

    def _keep(self, name: str, step: Step, xla: XlaForms | None = None, came: str = "") -> None:
        """Register a compiled form as ready; `came` describes the origin of the full one."""
        # threads may run the step at once in NumPy, so also in the quick form
        donates = name == FULL or (name == FAST and HOST not in self._ready)
        donates = donates and self._replicated.donates
        form = Form(name, step, self._compiled.prepare, donates)
        if xla is not None:
            form.prepare, form.state = xla.compiled.prepare, xla.state
        with self._lock:
            if name in self._ready:
                return
            if name == FULL:
                self._began = time.monotonic()
                self.seen.came, self.seen.rival = came, self._find_rival()
                if xla is not None:
                    xla.forget_lowered()
            self._ready[name] = form
            self._lock.notify_all()

    def _stay(self, form: Form) -> None:
        """Stay with this form, and release the inputs of others."""
        self.last, self.timed = form, None
        seen, rival = self.seen, self.seen.rival
        if rival is not None and rival.known is None and rival.ratio is not None:
            write_ratio(self._outcome, rival.ratio)
        with self._lock:
            # feeds that NumPy may still refuse are compiled at that time
            if form.name != HOST and self._maker is None:
                for name in {*self._ready} - {form.name, FULL}:
                    del self._ready[name]
                if (full := self._ready.get(FULL, form)) is not form:
                    full.run = None  # oneDNN has won; reports show the text of both forms
                self._xla, self._arguments = None, tuple
        if seen.error and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"a program keeps its slower {form.name} form, because the full form did not "
                f"compile: {seen.error}",
                stacklevel=caller_level(),
            )

    def _xla_forms(self) -> XlaForms:
        import_jax()
        from graphopt.runtime.steps.xla_forms import XlaForms

        with self._lowering:
            xla = self._xla
            if xla is None:
                given = self._compiled, self._replicated, self._arguments()
                xla = XlaForms.for_sizes(*given, self._sizes, self._costs.prepares)
                self._xla = xla
            return xla

    # -- the thread --------------------------------------------------------------------------------

    def _submit(self, name: str) -> None:
        """Submit a form to the background thread, unless it makes one."""
        seen = self.seen
        try:
            with self._lock:
                if seen.thread:
                    return
                self._process, seen.thread = os.getpid(), name
            submit(self)
        except BaseException:  # at worst the form is made twice
            seen.thread = ""
            raise

    def work(self) -> None:
        """Make the submitted form on the background thread; errors are kept for reports."""
        seen, rival, me = self.seen, self.seen.rival, threading.get_ident()
        try:
            if seen.thread == KERNELS:
                self._make_rival()
            elif self._begins_full(me):
                if not seen.needs_data:
                    self._make(FULL, time.monotonic())
                if seen.needs_data and not self._facts.loops:
                    self._time_by_op()
        except Exception as error:
            if seen.thread == KERNELS and rival is not None:
                rival.error = f"with oneDNN it did not compile: {error}"
            else:
                seen.error = str(error) or type(error).__name__
        finally:
            self._give_up_making(me)
            seen.thread = ""

    def _begins_full(self, me: int) -> bool:
        """Return whether this thread is to make the full form: no caller has or makes it."""
        with self._lock:
            if FULL in self._ready or self._full_maker is not None:
                return False
            self._full_maker = me
            return True

    def _time_by_op(self) -> None:
        from graphopt.runtime.steps.xla_forms import ratio_of

        host = cast("HostForm", self._ready[HOST].step)
        if host.last is not None:
            by_op = self._compiled.op_by_op.function
            self.seen.by_op = ratio_of(by_op, host, host.last)
            self._keep(BY_OP, by_op)
            host.release_arguments()
        elif self.seen.ended:
            raise RuntimeError("no NumPy run left arguments to time the step with")

    # -- oneDNN ------------------------------------------------------------------------------------

    def _find_rival(self) -> Rival | None:
        """Return the rival of the full form, with the measurement of an earlier process.

        There is none with requested kernels, for replicas and for steps that call Python, nor where
        all runs must give the same bits.
        """
        compiled, replicated = self._compiled, self._replicated
        if not (measures_kernels() and compiled.is_kept and replicated.name == "alone"):
            return None
        if device_of(compiled.compilation.places[0]).platform != "cpu":
            return None
        if not replicated.donates or compiled.calls_python or shall_repeat(compiled):
            return None
        known = self._xla_forms().known
        if known is not None:
            self._outcome = known.folder.parent / FOLDER / known.name
        return Rival(read_ratio(self._outcome))

    def _make_rival(self) -> None:
        # a known program does not import the dialect before
        from graphopt.runtime.steps.with_kernels import with_kernels

        rival = self.seen.rival
        assert rival is not None
        xla = self._xla_forms()
        made = with_kernels(xla.compiled, xla.arguments, self._sizes)
        if made is None:
            rival.error = "no operator has a kernel of oneDNN"
        else:
            step, prepare, rival.operators = made
            self._ready[KERNELS] = Form(KERNELS, step, prepare, donates=True, state=xla.state)

    def end_run(self, results: Results) -> None:
        """Wait for the results of a timed run, and record its time."""
        import jax

        timed, rival = self.timed, self.seen.rival
        if timed is None or rival is None or self.last is not None:
            return
        fetches, written = results
        jax.block_until_ready(fetches or written)
        thread, began, name = timed
        if thread != threading.get_ident():  # another run began meanwhile
            return
        self.timed = None
        times = rival.other if name == KERNELS else rival.own
        times.append(time.perf_counter() - began)


def _why_left(failure: HostFailure) -> str:
    return TOO_LONG if isinstance(failure, GivenUp) else NOT_COMPUTED


def read_ratio(file: Path | None) -> float | None:
    """Read a process's measurement of the time with oneDNN over that without; None if none."""
    if file is None:  # the program is not on disk
        return None
    return read_entry(file, lambda payload: float(json.loads(payload)))


def write_ratio(file: Path | None, ratio: float) -> None:
    """Write a ratio, if there is room on the disk."""
    if file is not None:
        write_entry(file, json.dumps(ratio).encode(), most_bytes())


def _in_words(plan: Plan, fed: FedArrays) -> str:
    """Format feeds with their shapes, without masks and lengths."""
    return ", ".join(
        f"{port.name} {list(array.shape)}"
        for port, array in zip(plan.feeds, fed, strict=True)
        if not isinstance(array, list) and "@" not in port.name
    )


def _fed_types(plan: Plan, fed: FedArrays) -> FedTypes:
    """List the names, shapes and dtypes of feeds; () where one is in parts."""
    if any(isinstance(array, list) for array in fed):
        return ()
    pairs = zip(plan.feeds, cast("Sequence[HostArray]", fed), strict=True)
    return [(port.name, tuple(array.shape), str(array.dtype)) for port, array in pairs]
