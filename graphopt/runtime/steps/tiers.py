"""The forms of a step: computed by NumPy, compiled quickly, and compiled well.

All are made from one optimised program: the same passes, the same state, the same random numbers.
The host form (`runtime/host`) needs no compilation; programs that only infer have one, where NumPy
computes each of their ops. The quick form is XLA's own code generation at its lowest level. It is
there in a fraction of the time of the full one. Both take two to five times as long to run, and
round elsewhere. `FLAGS_graphopt_tier=auto` runs one of them at once and, when its sizes come a
second time, has a thread compile the full form, which takes its place between two runs. A size that
never comes again costs no more than its first form.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Generic, NamedTuple, TypeVar

from graphopt.lowering.plan import Replicated
from graphopt.runtime.compile.background import submit
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.settings.flags import AUTO, FAST, FULL, HOST, must_repeat, tier_flag
from graphopt.runtime.state.arrays import Step
from graphopt.runtime.state.generator import default_generator
from graphopt.runtime.state.prepare import Prepare

SMALL = 100
"""Programs of fewer operators compile at once: the quick form and the full one take about as long.

A derivative counts as two more programs of the size of its own.
"""
TINY = 12
"""Programs of fewer operators have no host form: they compile in a fraction of a second."""

F = TypeVar("F")
Options = Mapping[str, Any]

_LOW_EFFORT: dict[str, Any] = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
}
if version("jaxlib").startswith("0.10."):
    # most of the time that is left; other versions end when they do not know an option
    _LOW_EFFORT["xla_cpu_use_fusion_emitters"] = False


@dataclass(frozen=True)
class Tier:
    """The form that a program begins with (or `auto`: the quick one at first), and the reason."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


class Made(NamedTuple):
    """A form that can run: its function, the number of its kernels of oneDNN, its `@prepare`."""

    step: Step
    kernels: int
    prepare: Prepare | None = None


def tier_of(compiled: Compiled, replicated: Replicated, elements: int) -> Tier:
    """The tier of a program for feeds of so many elements, by its flag and by what it is.

    ValueError for an unknown flag.
    """
    asked = tier_flag()
    reason = _only_full(compiled, replicated)
    if reason:
        return Tier(FULL, reason)
    # the reference rules are imported with it
    from graphopt.runtime.host.form import has_host_form

    if asked == HOST and not has_host_form(compiled, elements):
        return Tier(FAST, "it has no host form")
    if asked != AUTO:
        return Tier(asked, "it was requested")
    if must_repeat():
        return Tier(FULL, "a flag requests the same bits in every run")
    if compiled.size >= TINY and has_host_form(compiled, elements):
        return Tier(HOST, "NumPy computes it before it is compiled")
    if compiled.size < SMALL:
        return Tier(FULL, "it is small, and compiles quickly")
    if trains_from_seed(compiled):
        return Tier(FULL, "it trains from a seed, and shall end with the same bits in every run")
    return Tier(AUTO, "it takes long to compile")


def _only_full(compiled: Compiled, replicated: Replicated) -> str:
    """The reason why a program has no quick form; "" if it has."""
    if compiled.compilation.places[0].platform != "cpu":
        return "there is a quick form for CPUs only"
    if replicated.name == "by_op":
        return "its operators are compiled one by one"
    if replicated.name != "alone":
        return "replicas, here and in other processes, run one form"
    if compiled.calls_python:
        return "it calls Python"
    return ""


def shall_repeat(compiled: Compiled) -> bool:
    """True for a program whose runs shall end with the same bits, so that no time decides in it."""
    return must_repeat() or trains_from_seed(compiled)


def trains_from_seed(compiled: Compiled) -> bool:
    """True for a program that changes state and has a seed: its runs shall end with the same bits.

    The form of a step changes sooner or later in another run, and with it the rounding.
    """
    seeded = default_generator().seeded or compiled.compilation.program.random_seed != 0
    return bool(compiled.plan.written) and seeded


def quickly(options: Options | None) -> dict[str, Any]:
    """Options of XLA for the quick form of what else is compiled with `options`."""
    return {**(options or {}), **_LOW_EFFORT}


class Successor(Generic[F]):
    """The full form of a step whose first form runs: each run looks whether it is there.

    `make` compiles it, in a thread: from the second run on, and not before runs have taken
    `patience` seconds. `form` gives the name of the first form. Where `make` finds no full form, as
    sizes depend on data, `said` is what it made and why.
    """

    def __init__(
        self,
        make: Callable[[], F],
        form: Callable[[], str] = lambda: FAST,
        *,
        patience: float = 0.0,
    ) -> None:
        self.form = form
        self.said = ""
        self.runs = 0
        self.seconds = 0.0
        self.error: Exception | None = None
        self._patience = patience
        self._make: Callable[[], F] | None = make
        self._made: F | None = None
        self._submitted = False

    def take(self) -> F | None:
        """The full form once it is there; called before each run."""
        if self._made is not None:
            return self._made
        self.runs += 1
        if self.runs > 1 and self._patience <= 0:
            self.start()
        return None

    def spend(self, seconds: float) -> None:
        """A run of the first form took so long."""
        self._patience -= seconds

    def start(self) -> None:
        """Have it compiled, unless it is already."""
        if not self._submitted:
            submit(self)
            self._submitted = True

    def work(self) -> None:
        """Compile, in the thread; an error is kept for the next run to report."""
        make, start = self._make, time.monotonic()
        if make is None:
            return
        try:
            self._made = make()
        except Exception as error:
            self.error = error.with_traceback(None)
        finally:
            self.seconds = time.monotonic() - start
            self._make = None  # and what it holds of the lowered program

    def __str__(self) -> str:
        """Its state, for reports."""
        if self.error is not None:
            return f"{self.form()}: the full form did not compile: {self.error}"
        if self._made is not None:
            if self.said:
                return self.said
            return f"full: from run {self.runs + 1} on, after {self.seconds:.1f} s in a thread"
        if not self._submitted:
            which = "a later" if self._patience > 0 else "a second"
            return f"{self.form()}: {which} run has the full form compiled"
        return f"{self.form()}: the full form is being compiled"
