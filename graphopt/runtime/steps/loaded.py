"""Executables from a file: steps that XLA loads, and the compiled program that they implement."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax

from graphopt.lowering.plan import Replicated, home_of
from graphopt.runtime.devices.places import device_of
from graphopt.runtime.disk.summaries import Summarized
from graphopt.runtime.settings.progress import FEED_SHAPE
from graphopt.runtime.state.arrays import Arrays, FedArrays, Feeds, HostArray, Results, Step
from graphopt.runtime.steps.executable import Executable, Executables
from graphopt.runtime.steps.forms import Form

SHIPPED = "from a bundle"


def loaded_step(executable: Any, device: Any) -> Step:
    """Wrap XLA's executable, which takes a flat list of arrays, as a step that updates nothing."""

    def step(updated: Arrays, read_only: Arrays, feeds: FedArrays, key: HostArray) -> Results:
        # state is on the device already
        given = jax.device_put((*feeds, key), device)
        results = executable.execute_sharded([*updated, *read_only, *given])
        arrays = results.disassemble_into_single_device_arrays()
        return tuple([shards[0] for shards in arrays]), ()

    return step


class LoadedExecutables(Executables):
    """The executables of one program: loaded from a file for its shapes, compiled for others.

    `steps` load XLA's executable for each key of feed shapes (`arrays.shapes_of`), and return None
    where XLA rejects it.
    """

    def __init__(
        self, compiled: Summarized, steps: Mapping[Hashable, Callable[[], Step | None]]
    ) -> None:
        super().__init__(compiled, SHIPPED)
        self._summarized = compiled
        self._steps = steps
        self.shapes = 1

    def find(
        self, shapes: Hashable, count: int, *, even: bool, feeds: Feeds | None = None
    ) -> Executable:
        key = shapes, count, even
        if key not in self._found and shapes in self._steps:
            step = self._steps[shapes]()
            if step is not None:
                self._found.keep(key, self._load(step))
        return super().find(shapes, count, even=even, feeds=feeds)

    def _load(self, step: Step) -> Executable:
        device = device_of(self.compiled.compilation.places[0])
        sharding = jax.sharding.SingleDeviceSharding(device)
        replicated = Replicated(
            "alone", lambda: step, 1, lambda _: sharding, home_of(device), mapped=False, why=SHIPPED
        )
        executable = Executable(self.compiled, replicated, SHIPPED)
        executable.form = Form(SHIPPED, step, self.compiled.prepare)
        return executable

    def _make(self, replicated: Replicated) -> Executable:
        self.shapes += 1
        return Executable(self._summarized.whole, replicated, FEED_SHAPE, self.costs)
