"""The state that an executable's steps read from and write to a scope, and their random keys."""

from __future__ import annotations

import itertools
import operator
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from graphopt.lowering.plan import Replicated
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.state.arrays import Arrays, FedArrays, HostArray
from graphopt.runtime.state.bound import (
    BoundState,
    bind_state,
    is_at,
    scope_slot,
    take_all,
    take_in_numpy,
)
from graphopt.runtime.state.generator import default_generator
from graphopt.runtime.state.prepare import Prepare
from graphopt.runtime.state.scope import Scope
from graphopt.runtime.state.slots import latest
from graphopt.runtime.steps.run_hook import watcher

NO_KEY = np.zeros(2, np.uint32)
_value = operator.attrgetter("value")
_serial = itertools.count()


class StepState:
    """The state that the steps of a program read and write, on the devices of `replicated`.

    If set, `draw_key` draws the random key of so many steps in place of the global generator.
    `confirm` is called with the outcome of a step that calls Python.
    """

    def __init__(self, compiled: Compiled, replicated: Replicated) -> None:
        self.replicated = replicated
        self.prepare = compiled.prepare
        self.draw_key: Callable[[int], HostArray] | None = None
        self.confirm: Callable[[str], None] | None = None
        self.compiled = compiled
        self._plan = compiled.plan
        self.is_random = compiled.is_random
        self._serial = next(_serial)

    def slots(self, scope: Scope) -> BoundState:
        """Find the slots of the state; look them up by name again when variables were added."""
        changes, found = scope.bound.get(self._serial, (-1, None))
        if found is None or changes != Scope.changes:
            plan = self._plan
            prepare = self.prepare.reads if self.prepare is not None else ()
            groups = (plan.updated, plan.read_only, plan.written, prepare)
            found = bind_state(self.replicated, groups, scope)
            if self._serial not in scope.bound:
                weakref.finalize(self, _unbind, weakref.ref(scope), self._serial).atexit = False
            scope.bound[self._serial] = Scope.changes, found
        return found

    def is_shared(self, scope: Scope) -> bool:
        """Return whether a script has read or written state that a step updates."""
        with scope.lock:
            bound = self.slots(scope).updated
            return any(each.slot is not None and each.slot.is_shared for each in bound)

    def arguments(
        self, fed: FedArrays, scope: Scope, prepare: Prepare | None
    ) -> tuple[Arrays, Arrays, FedArrays, HostArray]:
        """Collect the arguments of a step with these feeds, without a random key."""
        with scope.lock:
            updated, read_only = self.take(self.slots(scope), scope, prepare)
        return updated, read_only, fed, NO_KEY

    def take(
        self, slots: BoundState, scope: Scope, prepare: Prepare | None
    ) -> tuple[Arrays, Arrays]:
        """Take the updated and the read-only state, as arrays on the devices."""
        replicated = self.replicated
        if latest.mark is slots.as_left:
            updated = tuple(map(_value, slots.updated_slots))
            read_only = tuple(map(_value, slots.read_only_slots))
        else:
            updated = tuple(take_all(replicated, slots.updated, keep=True))
            read_only = tuple(take_all(replicated, slots.read_only))
        if prepare is not None:
            read_only += prepare(scope, take_all(replicated, slots.prepare))
        return updated, read_only

    def in_numpy(self, slots: BoundState, scope: Scope) -> tuple[Arrays, Arrays]:
        """Take the updated and the read-only state, as NumPy arrays if they are on no device."""
        updated = tuple(take_in_numpy(self.replicated, slots.updated))
        read_only = tuple(take_in_numpy(self.replicated, slots.read_only))
        if self.prepare is not None:
            read = take_in_numpy(self.replicated, slots.prepare)
            read_only += self.prepare.in_numpy(scope, read)
        return updated, read_only

    def store(
        self, slots: BoundState, written: Arrays, scope: Scope, *, on_host: bool = False
    ) -> None:
        """Store the state after a step in the scope; NumPy arrays are on no device yet."""
        if latest.mark is slots.as_left:
            for slot, array in zip(slots.written_slots, written, strict=True):
                slot.value = array
            return
        home = None if on_host else self.replicated.home
        for (port, slot, layout), array in zip(slots.written, written, strict=True):
            (slot or scope_slot(scope, port.name)).put(array, layout=layout, home=home)
        if home is not None and is_at(home, slots):
            latest.mark = slots.as_left

    def next_key(self) -> HostArray:
        """Draw the random key of the next step; a program without draws uses NO_KEY."""
        draw_key = self.draw_key or default_generator().next_key
        return draw_key(self._plan.steps)

    def tell(self, slots: BoundState, fed: FedArrays, key: HostArray, scope: Scope) -> None:
        """Pass the state, feeds and key of a step to the run hook."""
        if (hook := watcher()) is not None:
            read = (*slots.updated, *slots.read_only, *slots.prepare)
            variables = [name for port, *_ in read for name in port.variables]
            state: dict[str, Any] = {n: scope_slot(scope, n).numpy() for n in variables}
            names = [port.name for port in self._plan.feeds]
            hook(self.compiled, state | dict(zip(names, fed, strict=True)), key)


def _unbind(scope: weakref.ref[Scope], serial: int) -> None:
    """Remove the slots of a dropped executable from a scope."""
    there = scope()
    if there is not None:
        there.bound.pop(serial, None)
