"""One data-parallel step over all trainers: announce, compare, run, and fetch local values."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import jax
import numpy as np
from jax.experimental import multihost_utils

from graphopt.errors import GraphoptError, ScopeError, UnsupportedError
from graphopt.ir.dialect.types import show
from graphopt.lowering import replication
from graphopt.lowering.multi_process import across, all_devices
from graphopt.lowering.plan import Replicated
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.devices.places import distinct_devices
from graphopt.runtime.distributed.group import TrainerGroup
from graphopt.runtime.distributed.job import strategy_for
from graphopt.runtime.feeds.split import SplitFeed
from graphopt.runtime.runners.uneven import Uneven
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.state.arrays import Array, Fetched, HostArray
from graphopt.runtime.state.bound import layout_of
from graphopt.runtime.state.bounded import Bounded
from graphopt.runtime.state.generator import default_generator
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.state.uninterrupted import Uninterrupted
from graphopt.runtime.steps.executable import Executable, Executables
from graphopt.runtime.steps.kept import MOST_COMPILED

# Descriptions list the state of a program up to this many variables.
MAX_NAMED = 2000
# The flags that trainers may set differently.
OWN_FLAGS = frozenset({"trainer_id", "debug_graphviz_path"})


def over_all_trainers(compiled: Compiled) -> Replicated:
    """Map a program to the devices of all trainers."""
    places, mapper = compiled.compilation.places, compiled.compilation.mapper
    if mapper not in ("auto", "shard_map"):
        raise UnsupportedError(
            f"mapper = '{mapper}' supports one process only; a job of several processes needs "
            "mapper = 'shard_map' or 'auto'"
        )
    local = distinct_devices(places)
    if local is None:
        raise UnsupportedError(
            f"a job of several processes needs a device for each of the {len(places)} places of a "
            f"process; set CPU_NUM={len(places)} before the script starts (python -m "
            f"graphopt.launch --devices-per-proc {len(places)}), or use fewer places"
        )
    devices = all_devices(local)
    strategy = compiled.compilation.strategy
    assert strategy is not None  # trainers always have a strategy
    donate = strategy.enable_inplace and not compiled.callers
    groups = len(devices) // len(local)
    replicated = replication.shard_map(
        compiled.module, compiled.plan, devices, donate=donate, groups=groups
    )
    return replace(across(replicated, devices), why="trainers step together")


def absent_state(executable: Executable, scope: Scope) -> list[str]:
    """List the state to bring to the devices before the next call; ScopeError without a value."""
    plan, replicated = executable.plan, executable.replicated
    found: list[str] = []
    for port in (*plan.updated, *plan.read_only):
        slot = scope.find_var(port.name)
        if slot is None or slot.value is None:
            raise ScopeError(
                f"variable '{port.name}' has not been initialized in the scope; run the "
                "startup_program first: exe.run(static.default_startup_program())"
            )
        wanted = replicated.home, layout_of(replicated, port)
        at_home = wanted == (slot.home, slot.layout)
        if not at_home and (wanted[1].whole is not None or wanted != slot.copy[:2]):
            found.append(port.name)
    return found


class Session:
    """The steps of one data-parallel program over the trainers of a job."""

    def __init__(self, group: TrainerGroup, strategy: BuildStrategy) -> None:
        self.group = group
        self.strategy = strategy_for(group.world, strategy)
        self.keys = Keys()
        self.masked: Bounded[Hashable, Executables] = Bounded(MOST_COMPILED)
        # descriptions of executables, kept as long as their program keeps them
        self._described: WeakKeyDictionary[Executable, dict[str, Any]] = WeakKeyDictionary()

    def run_uneven(
        self, compilation: Compilation, parts: SplitFeed, scope: Scope
    ) -> tuple[Fetched, str]:
        """Run a step as `run` does, for devices with different numbers of rows."""
        uneven = Uneven.of(parts, self.group.world.trainer)
        key = (compilation.feeds, compilation.fetches, tuple(uneven.axes))
        executables = self.masked.find(key, lambda: Executables(uneven.compile(compilation)))
        masked = executables.compiled.masked
        assert masked is not None
        feeds = uneven.feeds(masked)
        shapes = tuple((array.shape, array.dtype) for array in feeds.values())
        fetches, mapper = self.run(executables, shapes, feeds, scope)
        return uneven.cut(masked, compilation.fetches, fetches), mapper

    def run(
        self, executables: Executables, shapes: Hashable, feeds: Mapping[str, Array], scope: Scope
    ) -> tuple[Fetched, str]:
        """Run a step; return each fetch on each of this trainer's devices, and the mapper.

        State that is not on the devices yet takes trainer 0's value. Learning rates, which every
        trainer writes before each step, must agree.
        """
        compiled = executables.compiled
        executable = executables.of((shapes, "all trainers"), lambda: over_all_trainers(compiled))
        scheduled = compiled.compilation.program.lr_schedulers
        absent = absent_state(executable, scope)
        newly_set = [name for name in absent if name not in scheduled]
        does = self._describe(executable, feeds)
        if newly_set:
            does = {**does, "variables set by the script": _few(newly_set)}
        values = {name: _value_text(scope, name) for name in absent if name in scheduled}
        sync = bool(newly_set) or self.keys.must_ask(compiled.is_random)
        raw = self.keys.raw(compiled.plan.steps) if compiled.is_random else [0, 0]
        step = self.group.begin_step(executable, does, values, raw, sync=sync)
        try:
            executable.state.draw_key = self.keys.next_key
            executable.state.confirm = self.group.confirm
            # an interrupt of this trainer must not split an exchange that all trainers take part in
            with Uninterrupted():
                if newly_set and not step.taken:
                    _take_from_first(scope, newly_set)
                    step.taken = True
            executable.make_ready(feeds, scope)
            with Uninterrupted():
                if step.key is not None:
                    self.keys.anchor(step.key)
                try:
                    fetches = executable(feeds, scope)
                finally:
                    self.group.announced = None
            return [list(np.array(value)) for value in fetches], executable.replicated.name
        except GraphoptError:  # unlike an error of JAX, its cause is not another trainer's fault
            raise
        except Exception as error:
            fault = self.group.find_fault(error)
            if fault is not None:
                raise fault from None  # that fault is the cause of JAX's error
            raise
        finally:
            self.group.end_step()

    def _describe(self, executable: Executable, feeds: Mapping[str, Array]) -> dict[str, Any]:
        """Describe a step by the facts that must be equal on all trainers."""
        known = self._described.get(executable)
        if known is not None:
            return known
        compiled = executable.compiled
        plan, compilation = compiled.plan, compiled.compilation
        kinds = Counter(op.name for op in compiled.module.walk())
        state = [*plan.updated, *plan.read_only, *plan.written]
        flags = compiled.report.context.flags
        found = self._described[executable] = {
            "devices": f"{len(compilation.places)} {compilation.places[0].platform}",
            "steps": plan.steps,
            **{f"feed of {name}": f"{a.dtype} {list(a.shape)}" for name, a in feeds.items()},
            "fetches": list(compilation.fetches),
            **{f"flag {name}": str(flags[name]) for name in flags if name not in OWN_FLAGS},
            **{f"number of {kind}": count for kind, count in kinds.items()},
            **{f"variable {port.name}": show(port.type) for port in state[:MAX_NAMED]},
            "variables set by the script": [],
            "optimized program": hashlib.sha256(str(compiled.module).encode()).hexdigest()[:16],
        }
        return found


class Keys:
    """Random keys of the steps: trainer 0's generator determines them for all trainers."""

    def __init__(self) -> None:
        self._fresh = True
        self._word = self._count = 0
        self._seed = default_generator().initial_seed()

    def must_ask(self, is_random: bool) -> bool:
        """Return whether trainer 0's key is needed: at first, and after another paddle.seed."""
        seed = default_generator().initial_seed()
        changed = is_random and (self._fresh or seed != self._seed)
        self._seed = seed
        return changed

    def raw(self, runs: int) -> list[int]:
        """Draw a key from this trainer's own generator."""
        return [int(word) for word in default_generator().next_key(runs)]

    def anchor(self, key: list[int]) -> None:
        """Set the key of the next step; later steps count on from it."""
        self._word, self._count = key
        self._fresh = False

    def next_key(self, runs: int = 1) -> HostArray:
        """Return the key of the next of `runs` runs, as a Generator does."""
        first = self._count
        self._count += runs
        return np.array((self._word, first & 0xFFFFFFFF), dtype=np.uint32)


def _few(names: list[str]) -> list[str]:
    """Return the names, or their number and a hash if they are too many for a message."""
    if len(names) <= MAX_NAMED:
        return names
    return [f"{len(names)} variables", hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]]


def _value_text(scope: Scope, name: str) -> str:
    slot = scope.find_var(name)
    value = None if slot is None or slot.value is None else slot.numpy()
    return "none" if value is None else f"{value.dtype} {value.tolist()}"


def _take_from_first(scope: Scope, names: list[str]) -> None:
    """Overwrite this trainer's variables with trainer 0's values."""
    slots = {name: scope.find_var(name) for name in names}
    mine = {name: slot.numpy() for name, slot in slots.items() if slot is not None}
    with jax.enable_x64(True):
        first = multihost_utils.broadcast_one_to_all(mine)
    for name, value in first.items():
        slot = slots[name]
        assert slot is not None
        slot.put(np.array(value))
