"""From a program to something that runs: parse, optimise, lower, map, compile; each once.

This module and those that it uses import JAX when they are loaded; the rest of the runtime does
when the first program runs.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation

from graphopt.errors import ProgramError
from graphopt.ir.dialect.differentiated import segment_of
from graphopt.ir.dialect.index_bounds import IndexBound, assert_bounds, fed_bounds
from graphopt.ir.dialect.ops.dynamic import draws
from graphopt.ir.dialect.ops.fence import Fence
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.random import RandomOp
from graphopt.ir.dialect.signature import check_finite, checks_finite, hash_dropout
from graphopt.ir.dialect.types import byte_count, show
from graphopt.ir.program.location import caller_level
from graphopt.lowering import replication
from graphopt.lowering.call import Call
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.dynamic import NeedsData
from graphopt.lowering.finite import take
from graphopt.lowering.host import callers, listening
from graphopt.lowering.lockstep import lockstep
from graphopt.lowering.multi_process import across
from graphopt.lowering.replication import Plan, Replicated
from graphopt.passes.padding.mask import Masked
from graphopt.passes.table.flags import check_supported, refused
from graphopt.passes.table.manager import optimize
from graphopt.passes.table.report import Report
from graphopt.runtime.blame import check_depth
from graphopt.runtime.cache import use_cache
from graphopt.runtime.callbacks import finish
from graphopt.runtime.compilation import Compilation
from graphopt.runtime.flags import checks_all_ids, checks_nan_inf, hashes_dropout
from graphopt.runtime.generator import default_generator
from graphopt.runtime.ids import check_ids
from graphopt.runtime.not_finite import refuse_not_finite
from graphopt.runtime.places import device_of, distinct_devices
from graphopt.runtime.prepare import Prepare
from graphopt.runtime.run_hook import watcher
from graphopt.runtime.scope import Scope
from graphopt.runtime.state import Bound, BoundState, scope_slot, take_all
from graphopt.runtime.uninterrupted import Uninterrupted

# A program that meets more shapes than this forgets the oldest executable.
MAX_SHAPES = 64
# Steps that may be under way at once; more can deadlock XLA's host devices.
MAX_IN_FLIGHT = 8


@dataclass
class Compiled:
    """An optimised module with its executables, one for each set of feed shapes."""

    compilation: Compilation
    module: ModuleOp
    report: Report
    plan: Plan
    is_random: bool
    has_barriers: bool = False
    """True when derivatives compute activations again, or something waits for something else."""
    callers: dict[Any, Any] = field(default_factory=dict)
    """The ops that call Python: what that raises must leave the state as it was."""
    checks_finite: bool = False
    """True with FLAGS_check_nan_inf, which may refuse a step; that then stores nothing."""
    executables: dict[Any, Executable] = field(default_factory=dict)
    shapes: int = 0
    """The number of executables so far."""
    prepare: Prepare | None = None
    """The values that are computed apart from the steps."""
    bounds: Mapping[str, tuple[IndexBound, ...]] = field(default_factory=dict[str, Any])
    """The numbers that feeds may hold."""
    masked: Masked | None = None
    """The masks and counts that are fed with padded feeds."""

    def executable(self, shapes: Any, count: int, *, even: bool) -> Executable:
        """The executable for these feed shapes on `count` replicas, compiled when it is new."""
        key = (shapes, count, even)
        found = self.executables.get(key)
        if found is None:
            if len(self.executables) >= MAX_SHAPES:
                del self.executables[next(iter(self.executables))]
            found = Executable(self, self._map(count, even=even))
            self.executables[key] = found
            self.shapes += 1
        return found

    def _map(self, count: int, *, even: bool) -> Replicated:
        compilation = self.compilation
        strategy = compilation.strategy
        donate = bool(strategy is None or strategy.enable_inplace)
        donate = donate and not self.callers and not self.checks_finite
        if not compilation.data_parallel or (count == 1 and not self.per_replica):
            if self.starts_alike:
                return replace(self.by_op(), name="start")
            return replication.alone(
                self.module, self.plan, device_of(compilation.places[0]), donate=donate
            )
        places = compilation.places[:count]
        if not even:
            return lockstep(self.module, self.plan, device_of(places[0]), count)
        devices = distinct_devices(places)
        if devices is not None:
            replicated = replication.shard_map(self.module, self.plan, devices, donate=donate)
            # beside other processes, JAX takes no NumPy feeds for several devices
            return replicated if jax.process_count() == 1 else across(replicated, devices)
        return replication.vmap(self.module, self.plan, device_of(places[0]), count, donate=donate)

    def options(self) -> dict[str, Any] | None:
        """The options of XLA for this module."""
        if self.compilation.places[0].platform != "cpu" or not self.has_barriers:
            return None
        # on CPUs XLA would remove barriers before it looks for common subexpressions, and so keep
        # what the derivative is to compute again, and before it joins collectives
        return {"xla_disable_hlo_passes": "cse_barrier_expander"}

    def by_op(self) -> Replicated:
        """The module for one device, one XLA program for each op: sizes may depend on data."""
        return replication.by_op(self.module, self.plan, device_of(self.compilation.places[0]))

    def explained(self) -> Report:
        """The report including near misses (computed on first request)."""
        if not self.report.near:
            # as it was compiled, whatever flags have been set since
            context, again = self.report.context.quiet(), self.compilation.parsed
            self.report.near = optimize(again(), context, near=True, again=again).near
        return self.report

    @property
    def starts_alike(self) -> bool:
        """True for a startup program, which gives state and takes nothing, with draws alike.

        XLA takes long to compile a draw, and one that is an op by itself is compiled once for all
        that are like it.
        """
        plan = self.plan
        if plan.feeds or plan.updated or plan.read_only or plan.fetches:
            return False
        calls = [Call.of(op, ALONE) for op in self.module.walk() if isinstance(op, RandomOp)]
        return len(calls) >= 2 * len(set(calls)) > 0

    @property
    def per_replica(self) -> bool:
        """True when some state has a value of its own on each replica."""
        ports = (*self.plan.updated, *self.plan.read_only, *self.plan.written)
        return any(port.per_replica for port in ports)


def compile_program(compilation: Compilation) -> Compiled:
    """Parse and optimise a program; XLA compiles it when shapes are known.

    UnsupportedError for a flag of the strategy that nothing can obey, and for branches and loops
    nested so deep that Python could not follow. CannotPad for one that cannot do with rows to
    spare, where it is to.
    """
    check_depth(compilation.program)
    module, masked = compilation.masked()
    if compilation.strategy is not None:
        check_supported(compilation.strategy.pass_context().flags)
    _check_memory(module)
    context = compilation.pass_context()
    if context.communicates:
        for flag, text in refused(context).items():
            warnings.warn(f"{flag}: {text}", stacklevel=caller_level())
    bounds = fed_bounds(module)
    if checks_all_ids():
        assert_bounds(module)
    report = optimize(module, context, again=compilation.parsed)
    if hashes_dropout():
        hash_dropout(module)
    if checks_nan_inf():
        check_finite(module)
    is_random = any(draws(op) for op in module.walk())
    has_barriers = any(map(_has_barrier, module.walk()))
    plan = Plan.of(module, compilation.steps, compilation.stacked, apart=True)
    return Compiled(
        compilation,
        module,
        report,
        plan,
        is_random,
        has_barriers,
        callers(module),
        checks_finite(module),
        prepare=Prepare.of(module, device_of(compilation.places[0])),
        bounds=bounds,
        masked=masked,
    )


def _has_barrier(op: Operation) -> bool:
    """True for an op that is lowered with a barrier."""
    adds = isinstance(op, Grad) and bool(op.attr("addto"))
    return adds or isinstance(op, Fence) or segment_of(op) is not None


def _check_memory(module: ModuleOp) -> None:
    """ProgramError for a result that is much larger than the memory of this machine.

    A little larger may do: XLA does not store what it fuses.
    """
    limit = 4 * _memory()
    for op in module.walk():
        for result in op.results:
            if isinstance(result.type, TensorType) and byte_count(result.type) > limit:
                name = result.name_hint or op.name
                raise ProgramError(
                    f"'{name}' of {op.name} is {show(result.type)}, which takes "
                    f"{byte_count(result.type)} bytes; this machine has {_memory()}"
                )


@functools.cache
def _memory() -> int:
    """The bytes of memory of this machine; no limit where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return sys.maxsize


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

    def __init__(self, compiled: Compiled, replicated: Replicated) -> None:
        self.compiled = compiled
        self.plan = compiled.plan
        self.is_random = compiled.is_random
        self.replicated = replicated
        self.fed = [port.name for port in compiled.plan.feeds]
        self.serial = next(_serial)
        self.keys: Any = None  # gives random keys in place of the global generator
        self.confirm: Callable[[str], None] | None = (
            None  # called with the outcome of a step that calls Python
        )
        self.function: Any = None
        self.direct: Any = None  # the same as a function of C, after the first call
        self.prepare = compiled.prepare
        self.bounds = compiled.bounds

    def __call__(self, feeds: Mapping[str, Any], scope: Scope) -> tuple[Any, ...]:
        """Run one step: state from and to the scope, fetches returned as JAX arrays.

        Whatever ends the step before its end, the scope has the state of a whole step. Raises
        IndexRangeError for fed ids that name nothing.
        """
        if self.bounds:
            check_ids(self.bounds, feeds)
        ordered = tuple([feeds[name] for name in self.fed])
        function = self.function or self.make_ready(feeds, scope)
        if not self.replicated.donates:
            fetches, written = self._keeping(ordered, scope)
            self._bound(fetches, written)
            return fetches
        with scope.lock, jax.enable_x64(True):
            slots = self._slots(scope)
            updated, read_only = self._state(slots, scope)
            key = self._key()
            if (tell := watcher()) is not None:
                self._tell(tell, slots, ordered, key, scope)
            if self.direct is None:
                with Uninterrupted():
                    fetches, written = function(updated, read_only, ordered, key)
                    self._store(slots, written, scope)
                self.direct = _direct(function)
            else:
                # The call takes the old state. One call of C runs it and notes its results, so that
                # no interrupt, which comes between two instructions of Python, comes before that.
                noted: list[Any] = []
                try:
                    noted.extend(map(self.direct, (updated,), (read_only,), (ordered,), (key,)))
                    fetches, written = noted[0]
                    self._store(slots, written, scope)
                except BaseException:
                    if noted:
                        with Uninterrupted():
                            self._store(slots, noted[0][1], scope)
                    raise
        self._bound(fetches, written)
        return fetches

    def make_ready(self, feeds: Mapping[str, Any], scope: Scope) -> Any:
        """The function, compiled for these feeds unless it is."""
        if self.function is None:
            ordered = tuple([feeds[name] for name in self.fed])
            with scope.lock:
                updated, read_only = self._state(self._slots(scope), scope)
            with jax.enable_x64(True):
                self.function = self._compile(updated, read_only, ordered, _NO_KEY)
        return self.function

    def _state(self, slots: BoundState, scope: Scope) -> tuple[Any, Any]:
        """The state that is updated, and what is only read, on the devices."""
        replicated = self.replicated
        updated = tuple(take_all(replicated, slots.updated, keep=True))
        read_only = tuple(take_all(replicated, slots.read_only))
        if self.prepare is not None:
            read_only += self.prepare(scope, take_all(replicated, slots.prepare))
        return updated, read_only

    def _key(self) -> Any:
        """The random key of the next step."""
        if not self.is_random:
            return _NO_KEY
        return (self.keys or default_generator()).next_key(self.plan.steps)

    def _tell(self, tell: Any, slots: BoundState, ordered: Any, key: Any, scope: Scope) -> None:
        """Report the inputs of the step to the watcher."""
        read = (*slots.updated, *slots.read_only, *slots.prepare)
        state = {n: scope_slot(scope, n).numpy() for port, *_ in read for n in port.variables}
        tell(self.compiled, state | dict(zip(self.fed, ordered, strict=True)), key)

    def _keeping(self, ordered: tuple[Any, ...], scope: Scope) -> Any:
        """A step of a function that takes no buffers: anything may end it, nothing is lost."""
        with scope.lock:
            slots = self._slots(scope)
            state = self._state(slots, scope)
        key = self._key()
        if (tell := watcher()) is not None:
            self._tell(tell, slots, ordered, key, scope)
        if self.compiled.callers:
            fetches, written = self._calling(*state, ordered, key)
        else:
            try:
                with jax.enable_x64(True):
                    fetches, written = self.function(*state, ordered, key)
            except RuntimeError:
                if not any(map(_is_gone, (*state[0], *state[1]))):
                    raise
                # a step of another thread took the buffers after they had been looked up
                with scope.lock, jax.enable_x64(True):
                    fetches, written = self.function(*self._state(slots, scope), ordered, key)
        if self.compiled.checks_finite:
            found = take((fetches, written))
            refuse_not_finite(found, self.compiled.compilation.program, self.compiled.module)
        if written:
            with scope.lock, Uninterrupted():
                self._store(slots, written, scope)
        return fetches, written

    def _calling(self, *arguments: Any) -> Any:
        """The results of a function that calls Python, when all of that has ended well."""
        confirm = self.confirm or _nobody
        with listening(self.compiled.callers) as run:
            with jax.enable_x64(True):
                results = self.function(*arguments)
            try:
                finish(run, results)
            except BaseException as error:
                confirm(str(error) or type(error).__name__)
                raise
        confirm("")
        return results

    def _store(self, slots: BoundState, written: Sequence[Any], scope: Scope) -> None:
        """The state after the step, into the scope."""
        home = self.replicated.home
        for (port, slot, layout), array in zip(slots.written, written, strict=True):
            slot = slot or scope_slot(scope, port.name)
            slot.put(array, layout=layout, home=home)

    def _compile(self, *arguments: Any) -> Any:
        use_cache()
        lower = getattr(self.replicated.function, "lower", None)
        try:
            if lower is None:
                return self.replicated.function
            return lower(*arguments).compile(self.compiled.options())
        except NeedsData:
            if self.replicated.name != "alone":
                raise
            self.replicated = self.compiled.by_op()
            return self.replicated.function

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

    def _bound(self, fetches: Sequence[Any], written: Sequence[Any]) -> None:
        """Wait at intervals, so that steps with unread results do not pile up."""
        under_way.steps += 1
        if under_way.steps >= MAX_IN_FLIGHT:
            under_way.steps = 0
            jax.block_until_ready(fetches or written)


def _direct(function: Any) -> Any:
    """The function of C that a compiled function of JAX is after its first call, None without one.

    JAX has no public name for it. Without it each call holds signals back, which costs a little.
    """
    inner = getattr(function, "_call", None)
    return inner if type(inner) is _JITTED else None


_JITTED = type(jax.jit(lambda: None))


def _nobody(_: str) -> None:
    """Called with the outcome of a step that no other trainer runs."""


def _is_gone(array: Any) -> bool:
    """True for an array whose buffers a step has taken."""
    return isinstance(array, jax.Array) and array.is_deleted()
