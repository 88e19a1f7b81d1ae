"""The compiled forms of a step: one lowered program, for which XLA has options for each form.

The times of tracing, lowering, compiling and loading are noted here, in the report of the passes.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from typing import Any

import jax

from graphopt.ir.dialect.collector import paused_collector
from graphopt.lowering.plan import Replicated
from graphopt.passes.table.parts import LOAD, LOWER, TRACE, XLA, Part
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.disk.cache import least_seconds, times_found
from graphopt.runtime.disk.known import Arguments, Known, Options
from graphopt.runtime.steps.tiers import quickly


class Lowering:
    """A jitted function for certain arguments, traced and lowered when a form first needs it.

    `parts` get the time of each part; `sizes` are those of the feeds, in words.
    """

    def __init__(self, function: Any, arguments: Arguments, parts: list[Part], sizes: str) -> None:
        self._function = function
        self._arguments = arguments
        self._parts = parts
        self._sizes = sizes
        self._lowered: Any = None
        self._lock = threading.Lock()

    def __call__(self) -> Any:
        """The lowered program."""
        with self._lock:  # two threads may compile two forms
            if self._lowered is None:
                self._lower()
        return self._lowered

    def _lower(self) -> None:
        with jax.enable_x64(True), paused_collector():
            start = time.perf_counter()
            traced = self._function.trace(*self._arguments)
            middle = time.perf_counter()
            self._lowered = traced.lower()
        self.note(TRACE, middle - start)
        self.note(LOWER, time.perf_counter() - middle)

    def note(self, name: str, seconds: float, form: str = "") -> None:
        """Keep the time of a part."""
        self._parts.append(Part(name, seconds, ", ".join(filter(None, [self._sizes, form]))))


class Form:
    """One form of a step: its options of XLA, the disk it may be on, and what it is made of.

    What is not to be `kept` is not written by JAX either.
    """

    def __init__(
        self,
        known: Known | None,
        lowering: Lowering,
        options: Options,
        name: str = "",
        *,
        kept: bool = True,
    ) -> None:
        self._known = known
        self._kept = kept
        self._lowering = lowering
        self._options = options
        self._name = name

    def load(self) -> Any:
        """The executable on disk, or None."""
        start = time.perf_counter()
        found = None if self._known is None else self._known.load(self._options)
        if found is not None:
            self._lowering.note(LOAD, time.perf_counter() - start, self._name)
        return found

    def make(self) -> Any:
        """The executable, compiled now, and kept if that takes long."""
        lowered, start, found = self._lowering(), time.perf_counter(), times_found()
        options = dict(self._options) if self._options else None
        # Not in JAX's cache too: after an upgrade it would find there what is unknown here, which
        # cannot be written then.
        with nullcontext() if self._kept and self._known is None else nothing_kept():
            made = lowered.compile(options)
        seconds = time.perf_counter() - start
        self._lowering.note(XLA, seconds, self._name)
        # what XLA has loaded it writes without its code, and fails in the next process
        is_whole = times_found() == found
        if self._known is not None and is_whole and seconds >= least_seconds():
            self._known.save(self._options, made)
        return made


def forms_of(
    compiled: Compiled, replicated: Replicated, arguments: Arguments, sizes: str
) -> tuple[Form, Form]:
    """The full form of a step and the quick one, for arguments of these types.

    `sizes` are those of the feeds, in words.
    """
    options, kept = compiled.options(), compiled.is_kept
    lowering = Lowering(replicated.function, arguments, compiled.parts, sizes)
    with jax.enable_x64(True):  # as steps are compiled: the name of what is known depends on it
        known = Known.of(compiled, replicated, arguments)
    full = Form(known, lowering, options, kept=kept)
    return full, Form(known, lowering, quickly(options), "quick form", kept=kept)


@contextmanager
def nothing_kept() -> Generator[None]:
    """JAX writes no executable that this thread compiles here."""
    # JAX has no public name for a setting of one thread
    from jax._src import config

    with config.persistent_cache_min_compile_time_secs(math.inf):
        yield
