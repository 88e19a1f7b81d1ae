"""The forms of a step that XLA compiles: one lowered program, with options for each form.

Passes for a platform choose by sizes, such as the algorithm of a convolution or the order of matrix
products. NumPy needs none of that, so a program is compiled with its open sizes first, and once
more for each set of sizes for which XLA compiles a form.

The times of tracing, lowering, compiling and loading are noted here, in the report of the passes.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from typing import Any
from weakref import WeakSet

import jax

from graphopt.errors import GraphoptError
from graphopt.ir.dialect.collector import paused_collector
from graphopt.lowering.plan import Replicated
from graphopt.passes.table.parts import LOAD, LOWER, TRACE, XLA, CompilationPart, requested_for
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.disk.cache import least_seconds, times_found
from graphopt.runtime.disk.known import Arguments, KnownExecutables, Options
from graphopt.runtime.disk.summaries import compiled_or_known
from graphopt.runtime.settings.flags import FAST, FULL
from graphopt.runtime.state.arrays import Step
from graphopt.runtime.state.prepare import Prepare
from graphopt.runtime.steps.policy import KERNELS
from graphopt.runtime.steps.step_state import StepState

_LOW_EFFORT: dict[str, Any] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
}
if version("jaxlib").startswith("0.10."):
    # It takes most of the remaining time; other versions exit at an unknown option.
    _LOW_EFFORT["xla_cpu_use_fusion_emitters"] = False
_IN_REPORTS = {FAST: "quick form", FULL: "", KERNELS: "with kernels"}


def quickly(options: Options | None) -> dict[str, Any]:
    """Extend XLA's `options` for the quick form."""
    return {**(options or {}), **_LOW_EFFORT}


class XlaForms:
    """A program for certain arguments, traced and lowered when a form first needs it.

    `sizes` describes the sizes of the feeds. If it was compiled for these sizes it has a `state` of
    its own, whose layouts may differ from those of the program with open sizes. Unless it is
    `kept`, JAX's cache does not write it either. `known` finds its forms on disk.
    """

    def __init__(
        self,
        compiled: Compiled,
        replicated: Replicated,
        arguments: Arguments,
        sizes: str,
        *,
        kept: bool = True,
        state: StepState | None = None,
    ) -> None:
        self.compiled = compiled
        self.arguments = arguments
        self.state = state
        self._replicated = replicated
        self._options = compiled.options()
        self._sizes = sizes
        self._kept = kept and compiled.is_kept
        self.known: KnownExecutables | None = None
        if self._kept:
            with jax.enable_x64(True):  # as in the compilation, since the name depends on it
                self.known = KnownExecutables.of(compiled, replicated, arguments)
        self._lowered: Any = None
        self._lowering_seconds = 0.0
        self.is_kept = False
        """True when the latest form is on disk."""
        self.now = ""
        """The current part of the compilation, for a progress line."""
        self._lock = threading.Lock()

    @classmethod
    def for_sizes(
        cls,
        compiled: Compiled,
        replicated: Replicated,
        arguments: Arguments,
        sizes: str,
        shared: WeakSet[Prepare],
    ) -> XlaForms:
        """Compile a program for the sizes of these arguments, where it leaves them open.

        Programs for several sizes share prepared values that are alike, through `shared`.
        """
        made = _compile_for_sizes(compiled, replicated, arguments)
        if made is None:
            return cls(compiled, replicated, arguments, sizes)
        if (prepare := made.prepare) is not None:
            made.prepare = next((each for each in shared if each.is_like(prepare)), prepare)
            shared.add(made.prepare)
        made.open_sizes = compiled
        made.parts += requested_for(compiled.parts, sizes)  # reports give the sizes and the reason
        found = made.map_replicas(1, even=True)
        plan = made.plan
        updated = tuple(map(found.type_of, plan.updated))
        read_only = tuple(map(found.type_of, (*plan.read_only, *plan.prepared)))
        types = updated, read_only, *arguments[2:]
        return cls(made, found, types, sizes, state=StepState(made, found))

    def load(self, name: str) -> Step | None:
        """Load a form from disk, or return None."""
        start = time.perf_counter()
        found = None if self.known is None else self.known.load(self._options_of(name))
        if found is not None:
            self._note(LOAD, time.perf_counter() - start, _IN_REPORTS[name])
        return found

    def make(self, name: str, *, keeps: bool = False) -> Step:
        """Compile a form; keep it on disk if that took long, including tracing, or if `keeps`."""
        lowered, start, found = self._lower(), time.perf_counter(), times_found()
        self.now = f"{XLA}, "
        options = self._options_of(name)
        # Bypass JAX's cache: after an upgrade it may have an entry that is unknown here, and an
        # executable loaded from it cannot be saved.
        with nullcontext() if self._kept and self.known is None else nothing_kept():
            made = lowered.compile(dict(options) if options else None)
        seconds = time.perf_counter() - start
        self._note(XLA, seconds, _IN_REPORTS[name])
        # XLA serializes a loaded executable without its code; it would fail in the next process
        is_whole = times_found() == found
        is_long = keeps or self._lowering_seconds + seconds >= least_seconds()
        if self.known is not None and is_whole and is_long:
            self.is_kept = self.known.save(options, made)
        return made

    def forget_lowered(self) -> None:
        """Release the lowered program; a form that is made later lowers it again."""
        self._lowered = None

    def _options_of(self, name: str) -> Options:
        return quickly(self._options) if name == FAST else self._options

    def _lower(self) -> Any:
        """Trace and lower the program, once."""
        with self._lock:  # a thread and a caller may compile different forms at once
            if self._lowered is None:
                with jax.enable_x64(True), paused_collector():
                    start, self.now = time.perf_counter(), f"{TRACE}, "
                    traced = self._replicated.function.trace(*self.arguments)
                    middle, self.now = time.perf_counter(), f"{LOWER}, "
                    self._lowered = traced.lower()
                    self._lowering_seconds = time.perf_counter() - start
                self._note(TRACE, middle - start)
                self._note(LOWER, start + self._lowering_seconds - middle)
            return self._lowered

    def _note(self, name: str, seconds: float, form: str = "") -> None:
        """Record the time of a part."""
        self.compiled.parts.append(
            CompilationPart(name, seconds, ", ".join(filter(None, [self._sizes, form])))
        )


def _compile_for_sizes(
    compiled: Compiled, replicated: Replicated, arguments: Arguments
) -> Compiled | None:
    """Compile the program for arguments of these types; None where it would be the same."""
    if not compiled.wants_sizes or replicated.name != "alone" or compiled.calls_python:
        return None
    fed = dict(zip([port.name for port in compiled.plan.feeds], arguments[2], strict=True))
    compilation = compiled.compilation.for_feeds(fed)
    if compilation is None:
        return None
    version = compilation.program.version
    try:
        made = compiled_or_known(compilation)
    except GraphoptError:  # the form with open sizes raises the error
        return None
    plan = made.plan
    same = [port.name for port in plan.feeds] == [*fed] and len(plan.fetches) == len(
        compiled.plan.fetches
    )
    if not same or not plan.sizes_are_known or compilation.program.version != version:
        return None
    return made


def ratio_of(by_op: Step, on_host: Callable[..., Any], given: tuple[Any, ...]) -> float:
    """Measure the time of XLA op by op divided by NumPy's, for these arguments.

    XLA's ops run twice, and are compiled in the first run. Raise the errors of either step.
    """

    def seconds(step: Callable[..., Any]) -> float:
        began = time.perf_counter()
        jax.block_until_ready(step(*given))
        return time.perf_counter() - began

    with jax.enable_x64(True):
        seconds(by_op)
        return seconds(by_op) / seconds(on_host)


@contextmanager
def nothing_kept() -> Generator[None]:
    """Keep JAX from writing executables that this thread compiles in the block."""
    # JAX has no public name for a thread's setting
    from jax._src import config

    with config.persistent_cache_min_compile_time_secs(math.inf):
        yield
