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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation

from graphopt.errors import ProgramError
from graphopt.ir.dialect import context
from graphopt.ir.differentiated import segment_of
from graphopt.ir.ops.debug import Assert
from graphopt.ir.ops.grad import Grad
from graphopt.ir.ops.late import draws
from graphopt.ir.ops.order import Fence
from graphopt.ir.ops.random import RandomOp
from graphopt.ir.parse.program import parse_program
from graphopt.ir.program import GRAD_SUFFIX, Program
from graphopt.ir.signature import hash_dropout
from graphopt.ir.types import byte_count, show
from graphopt.lowering import mappers
from graphopt.lowering.across import across
from graphopt.lowering.collectives import ALONE
from graphopt.lowering.evaluate import Call
from graphopt.lowering.late import NeedsData
from graphopt.lowering.lockstep import lockstep
from graphopt.lowering.mappers import Mapped, Plan
from graphopt.lowering.ops.debug import raise_failures
from graphopt.passes.conflicts import check_supported, refused
from graphopt.passes.manager import optimize
from graphopt.passes.padding.dims import Axes
from graphopt.passes.padding.mask import Masked, mask_padding
from graphopt.passes.report import Report
from graphopt.passes.setup import Setup
from graphopt.passes.sync_batch_norm import SyncBatchNorm
from graphopt.runtime.cache import use_cache
from graphopt.runtime.flags import hashes_dropout, left_out
from graphopt.runtime.generator import default_generator
from graphopt.runtime.places import Place, about, device_of, distinct_devices
from graphopt.runtime.prepare import Prepare
from graphopt.runtime.scope import Scope
from graphopt.runtime.state import Bound, Slots, scope_slot, take_all
from graphopt.runtime.watch import watcher

# A program that meets more shapes than this forgets the oldest executable.
MAX_SHAPES = 64
# Steps that may be under way at once; more can deadlock XLA's host devices.
MAX_IN_FLIGHT = 8


@dataclass(frozen=True)
class Request:
    """What to compile: program, feeds, fetches, strategy, places, and the steps of one run.

    `stacked` are the feeds with a batch for each step.
    """

    program: Program
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    strategy: Any
    places: tuple[Place, ...]
    data_parallel: bool
    steps: int = 1
    stacked: frozenset[str] = frozenset()
    sample_weighted: bool = False


@dataclass
class Compiled:
    """An optimised module with its executables, one for each set of feed shapes."""

    request: Request
    source: Callable[[], ModuleOp]
    module: ModuleOp
    report: Report
    plan: Plan
    is_random: bool
    has_barriers: bool = False
    """True when derivatives compute activations again, or something waits for something else."""
    is_checked: bool = False
    """True when an Assert may refuse a step, which then must leave the state as it was."""
    executables: dict[Any, Executable] = field(default_factory=dict)
    prepare: Prepare | None = None
    """What is computed apart from the steps."""

    def executable(self, shapes: Any, count: int, *, even: bool) -> Executable:
        """The executable for these feed shapes on `count` replicas, compiled when it is new."""
        key = (shapes, count, even)
        found = self.executables.get(key)
        if found is None:
            if len(self.executables) >= MAX_SHAPES:
                del self.executables[next(iter(self.executables))]
            found = Executable(self, self._map(count, even=even))
            self.executables[key] = found
        return found

    def _map(self, count: int, *, even: bool) -> Mapped:
        request = self.request
        donate = bool(request.strategy is None or request.strategy.enable_inplace)
        donate = donate and not self.is_checked
        if not request.data_parallel or (count == 1 and not self.per_replica):
            if self.starts_alike:
                return replace(self.by_op(), name="start")
            return mappers.alone(
                self.module, self.plan, device_of(request.places[0]), donate=donate
            )
        places = request.places[:count]
        if not even:
            return lockstep(self.module, self.plan, device_of(places[0]), count)
        devices = distinct_devices(places)
        if devices is not None:
            mapped = mappers.shard_map(self.module, self.plan, devices, donate=donate)
            # beside other processes, JAX takes no NumPy feeds for several devices
            return mapped if jax.process_count() == 1 else across(mapped, devices)
        return mappers.vmap(self.module, self.plan, device_of(places[0]), count, donate=donate)

    def options(self) -> dict[str, Any] | None:
        """What XLA has to be told about this module, besides the module."""
        if self.request.places[0].platform != "cpu" or not self.has_barriers:
            return None
        # on CPUs XLA would remove barriers before it looks for common subexpressions, and so keep
        # what the derivative is to compute again, and before it joins collectives
        return {"xla_disable_hlo_passes": "cse_barrier_expander"}

    def by_op(self) -> Mapped:
        """The module for one device, one XLA program for each op: sizes may depend on data."""
        return mappers.by_op(self.module, self.plan, device_of(self.request.places[0]))

    def explained(self) -> Report:
        """The report with near misses, which are looked for now that somebody asks."""
        if not self.report.near:
            setup = self.report.setup.quiet()
            self.report.near = optimize(self.source(), setup, near=True, again=self.source).near
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


def compile_program(request: Request) -> Compiled:
    """Parse and optimise a program; XLA compiles it when shapes are known.

    UnsupportedError for a flag of the strategy that nothing can obey.
    """
    source = _source(request)
    return _optimized(request, source(), source)


def compile_masked(request: Request, axes: Mapping[str, Axes]) -> tuple[Compiled, Masked]:
    """As `compile_program`, for feeds with rows to spare on these axes; CannotPad when it cannot.

    The request's feeds come first, then those that `Masked` names.
    """
    parsed = _source(request)

    def source() -> tuple[ModuleOp, Masked]:
        module = parsed()
        # masked norms are written out, so that they must know before whose rows they count
        if request.strategy is not None and request.strategy.sync_batch_norm:
            SyncBatchNorm().apply(context(), module)
        return module, mask_padding(module, axes)

    module, masked = source()
    return _optimized(request, module, lambda: source()[0]), masked


def _optimized(request: Request, module: ModuleOp, source: Callable[[], ModuleOp]) -> Compiled:
    """Optimise a module; `source` makes it anew, for reports that nobody may ever ask for."""
    if request.strategy is not None:
        check_supported(request.strategy.setup().flags)
    _check_memory(module)
    setup = _setup(request)
    if setup.communicates:
        for flag, text in refused(setup).items():
            warnings.warn(f"{flag}: {text}", stacklevel=2)
    report = optimize(module, setup, again=source)
    if hashes_dropout():
        hash_dropout(module)
    is_random = any(draws(op) for op in module.walk())
    has_barriers = any(map(_has_barrier, module.walk()))
    is_checked = any(isinstance(op, Assert) for op in module.walk())
    plan = Plan.of(module, request.steps, request.stacked, apart=True)
    return Compiled(
        request,
        source,
        module,
        report,
        plan,
        is_random,
        has_barriers,
        is_checked,
        prepare=Prepare.of(module, device_of(request.places[0])),
    )


def _has_barrier(op: Operation) -> bool:
    """True for an op that is lowered with a barrier."""
    adds = isinstance(op, Grad) and bool(op.attr("addto"))
    return adds or isinstance(op, Fence) or segment_of(op) is not None


def _source(request: Request) -> Callable[[], ModuleOp]:
    """Makes the module of a request before any pass."""
    return functools.partial(parse_program, request.program, request.feeds, request.fetches)


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


def _setup(request: Request) -> Setup:
    """What the pipeline needs to know; a plain program has no flags."""
    devices = about(request.places[0])
    if request.strategy is None:
        return Setup({}, without=left_out(), **devices)
    return request.strategy.setup(
        **devices,
        replicas=len(request.places),
        data_parallel=request.data_parallel,
        sample_weighted=request.sample_weighted,
        loss_grad=next((name for name in request.feeds if name.endswith(GRAD_SUFFIX)), ""),
    )


@dataclass
class UnderWay:
    """The steps of all executables since one was waited for.

    No attribute of a class: whenever one changes, Python forgets what it knows of the class.
    """

    steps: int = 0


under_way = UnderWay()
_NO_KEY = np.zeros(2, np.uint32)
_serial = itertools.count()


class Executable:
    """A mapped module that XLA compiles at the first call, and the state it passes along."""

    def __init__(self, compiled: Compiled, mapped: Mapped) -> None:
        self.compiled = compiled
        self.plan = compiled.plan
        self.is_random = compiled.is_random
        self.is_checked = compiled.is_checked
        self.mapped = mapped
        self.fed = [port.name for port in compiled.plan.feeds]
        self.serial = next(_serial)
        self.keys: Any = None  # gives random keys in place of the global generator
        self.function: Any = None
        self.prepare = compiled.prepare

    def __call__(self, feeds: Mapping[str, Any], scope: Scope) -> tuple[Any, ...]:
        """Run one step: state from and to the scope, fetches returned as JAX arrays."""
        plan, slots = self.plan, self._slots(scope)
        mapped = self.mapped
        updated = tuple(take_all(mapped, slots.updated, keep=True))
        read_only = tuple(take_all(mapped, slots.read_only))
        fixed = take_all(mapped, slots.prepare)
        keys = self.keys or default_generator()
        key = keys.next_key(plan.steps) if self.is_random else _NO_KEY
        ordered = tuple([feeds[name] for name in self.fed])
        if (tell := watcher()) is not None:
            read = (*slots.updated, *slots.read_only, *slots.prepare)
            state = {n: scope_slot(scope, n).numpy() for port, *_ in read for n in port.variables}
            tell(self.compiled, state | dict(zip(self.fed, ordered, strict=True)), key)
        if self.prepare is not None:
            read_only += self.prepare(scope, fixed)
        with jax.enable_x64(True):
            if self.function is None:
                self.function = self._compile(updated, read_only, ordered, key)
            fetches, written = self.function(updated, read_only, ordered, key)
        del updated
        if self.is_checked:
            raise_failures((fetches, written))
        home = self.mapped.home
        for (port, slot, layout), array in zip(slots.written, written, strict=True):
            slot = slot or scope_slot(scope, port.name)
            slot.put(array, layout=layout, home=home)
        self._bound(fetches, written)
        return fetches

    def _compile(self, *arguments: Any) -> Any:
        use_cache()
        lower = getattr(self.mapped.function, "lower", None)
        try:
            if lower is None:
                return self.mapped.function
            return lower(*arguments).compile(self.compiled.options())
        except NeedsData:
            if self.mapped.name != "alone":
                raise
            self.mapped = self.compiled.by_op()
            return self.mapped.function

    def _slots(self, scope: Scope) -> Slots:
        """The slots of the state, which are looked up by name when there are new variables."""
        changes, found = scope.bound.get(self.serial, (-1, None))
        if found is None or changes != Scope.changes:
            plan = self.plan
            prepare = self.prepare.reads if self.prepare is not None else ()
            groups = (plan.updated, plan.read_only, plan.written, prepare)
            mapped = self.mapped
            found = Slots(*([Bound.of(mapped, p, scope) for p in ports] for ports in groups))
            scope.bound[self.serial] = Scope.changes, found
        return found

    def _bound(self, fetches: Sequence[Any], written: Sequence[Any]) -> None:
        """Wait now and then, so that steps whose results nobody reads do not pile up."""
        under_way.steps += 1
        if under_way.steps >= MAX_IN_FLIGHT:
            under_way.steps = 0
            jax.block_until_ready(fetches or written)
