"""Executables from a file: steps that XLA loads, and the compiled program that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
from xdsl.dialects.builtin import ModuleOp

from graphopt.lowering.plan import Plan, Replicated, home_of
from graphopt.passes.padding.masked import Masked
from graphopt.passes.table.report import Report
from graphopt.runtime.arrays import Arrays, HostArray
from graphopt.runtime.compilation import Compilation
from graphopt.runtime.compiled import Compiled
from graphopt.runtime.compiling import compile_program
from graphopt.runtime.executable import Executable, Executables
from graphopt.runtime.places import device_of
from graphopt.runtime.prepare import Prepare
from graphopt.runtime.progress import FEED_SHAPE
from graphopt.runtime.step_calls import FedArrays, Results, Step

SHIPPED = "from a bundle"


class Loaded:
    """A step that updates nothing, as XLA's executable of arrays in a row."""

    def __init__(self, executable: Any, device: Any) -> None:
        self._executable = executable
        self._device = device

    def __call__(
        self, updated: Arrays, read_only: Arrays, feeds: FedArrays, key: HostArray
    ) -> Results:
        # state is on the device already
        given = jax.device_put((*feeds, key), self._device)
        results = self._executable.execute_sharded([*updated, *read_only, *given])
        arrays = results.disassemble_into_single_device_arrays()
        return tuple([shards[0] for shards in arrays]), ()


@dataclass(frozen=True)
class Outline:
    """All that a step needs to know of the module that it was compiled from.

    `skeleton` is that module with the types of `@main` alone.
    """

    skeleton: ModuleOp
    is_random: bool
    bounds: Mapping[str, Any]
    masked: Masked | None


class Outlined(Compiled):
    """A Compiled known by its outline, whose module is made when something needs it."""

    def __init__(self, compilation: Compilation, outline: Outline) -> None:
        self.compilation = compilation
        self.plan = Plan.of(outline.skeleton, apart=True)
        self.is_random = outline.is_random
        self.callers = {}
        self.checks_finite = False
        self.prepare = Prepare.of(outline.skeleton, device_of(compilation.places[0]))
        self.bounds = outline.bounds
        self.masked = outline.masked

    @cached_property
    def whole(self) -> Compiled:
        """The program, compiled here."""
        return compile_program(self.compilation)

    @cached_property
    def module(self) -> ModuleOp:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.whole.module

    @cached_property
    def report(self) -> Report:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.whole.report


class LoadedExecutables(Executables):
    """Executables of one program: those of a file for its shapes, compiled ones for others.

    `steps` load XLA's executable for each key of feed shapes (`arrays.shapes_of`), and return None
    where XLA does not take it.
    """

    def __init__(
        self, compiled: Outlined, steps: Mapping[Hashable, Callable[[], Step | None]]
    ) -> None:
        super().__init__(compiled, SHIPPED)
        self._outlined = compiled
        self._steps = steps
        self.shapes = 1

    def find(self, shapes: Hashable, count: int, *, even: bool) -> Executable:
        key = shapes, count, even
        if key not in self._found and shapes in self._steps:
            step = self._steps[shapes]()
            if step is not None:
                self._found.keep(key, self._loaded(step))
        return super().find(shapes, count, even=even)

    def _loaded(self, step: Step) -> Executable:
        device = device_of(self.compiled.compilation.places[0])
        sharding = jax.sharding.SingleDeviceSharding(device)
        replicated = Replicated(
            "alone", step, 1, lambda _: sharding, home_of(device), mapped=False, why=SHIPPED
        )
        executable = Executable(self.compiled, replicated, SHIPPED)
        executable.function = step
        return executable

    def _made(self, replicated: Replicated) -> Executable:
        self.shapes += 1
        return Executable(self._outlined.whole, replicated, FEED_SHAPE)
