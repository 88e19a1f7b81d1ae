"""An optimized program, and the mapper that makes its replicas.

JAX and the lowering are imported when a step is traced, and the dialect when a module is inspected:
a program that NumPy computes needs no JAX, one whose executable is on disk no dialect.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.index_bound import IndexBound
from graphopt.ir.program.location import caller_level
from graphopt.lowering.plan import Plan, Replicated, home_at, home_of
from graphopt.passes.padding.masked import Masked
from graphopt.passes.table.parts import REQUESTED, CompilationPart
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.devices.places import Place, device_of, distinct_devices
from graphopt.runtime.settings.jax_import import import_jax
from graphopt.runtime.settings.progress import REMEDIES
from graphopt.runtime.state.prepare import Prepare

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from graphopt.passes.table.report import Report


SECONDS, PER_OP, PER_CONVOLUTION = 0.3, 3e-3, 0.1
"""XLA's rough compile time for a program, each operator, and each differentiated convolution."""


@dataclass(eq=False)
class Compiled:
    """An optimized module, and the facts about it that its executables need."""

    compilation: Compilation
    module: ModuleOp
    report: Report
    plan: Plan
    is_random: bool
    has_barriers: bool = False
    """True when derivatives recompute activations, an op must wait for another one, or rows are
    written into a buffer."""
    callers: dict[Any, Any] = field(default_factory=dict)
    """The ops that call Python. If a callback raises, the state must stay unchanged."""
    checks_finite: bool = False
    """True with FLAGS_check_nan_inf, which may refuse a step; a refused step stores nothing."""
    convolves: bool = False
    """True for inference with at least one convolution for every two matrix products."""
    wants_sizes: bool = False
    """True when the passes for its platform choose by feed sizes that it leaves open."""
    deciding: tuple[str, ...] = ()
    """The feeds of a few integers that decide sizes, if no other values do."""
    is_kept: bool = True
    """False with oneDNN's kernels: XLA cannot serialize such executables, so disk has none."""
    prepare: Prepare | None = None
    """The values computed once, outside the steps."""
    bounds: Mapping[str, tuple[IndexBound, ...]] = field(default_factory=dict[str, Any])
    """The range of the integers in each feed."""
    masked: Masked | None = None
    """The extra feeds of masks and counts, for feeds with padding rows."""
    key: str | None = None
    """The key of its executables on disk; None to derive the key from the module."""
    is_new: bool = False
    """True when no process has saved executables of it, so none is looked up on disk."""
    parts: list[CompilationPart] = field(default_factory=list[CompilationPart])
    """The finished parts of the compilation other than passes; the report lists them, too."""
    open_sizes: Compiled | None = None
    """The program with open sizes that this program specializes."""

    @property
    def text(self) -> str:
        """The module as text."""
        from graphopt.ir.dialect.text import text_of

        return text_of(self.module)

    @cached_property
    def size(self) -> int:
        """The approximate number of operators that XLA compiles; a derivative triples it."""
        return sum(1 for _ in self.module.walk()) * (3 if self._is_differentiated else 1)

    @cached_property
    def convolutions(self) -> int:
        """The number of convolutions if the program is differentiated, else 0."""
        from graphopt.ir.dialect.ops.conv import Conv2dBase

        found = sum(isinstance(op, Conv2dBase) for op in self.module.walk())
        return found if self._is_differentiated else 0

    @property
    def price(self) -> float:
        """The approximate seconds that XLA takes to compile the module."""
        return SECONDS + PER_OP * self.size + PER_CONVOLUTION * self.convolutions

    @property
    def _is_differentiated(self) -> bool:
        from graphopt.ir.dialect.ops.grad import Grad

        return any(isinstance(op, Grad) for op in self.module.walk())

    def note_request(self, sizes: str, reason: str) -> None:
        """Note for reports that an executable for these feed sizes is needed, and why."""
        fix = REMEDIES.get(reason, "")
        self.parts.append(CompilationPart(REQUESTED, 0.0, sizes, reason, fix))

    def map_replicas(self, count: int, *, even: bool) -> Replicated:
        """Map the module to `count` replicas; with `even` all get equally many rows."""
        compilation = self.compilation
        strategy = compilation.strategy
        donate = bool(strategy is None or strategy.enable_inplace)
        donate = donate and not self.calls_python
        model = compilation.model
        if not compilation.data_parallel or (count == model == 1 and not self.per_replica):
            alone = partial(self.make_alone, donate=donate)
            return alone_later(compilation.places[0], alone, donates=donate)
        import_jax()
        import jax

        from graphopt.lowering import replication
        from graphopt.lowering.lockstep import lockstep
        from graphopt.lowering.multi_process import across

        places = compilation.places[: count * model]
        devices = distinct_devices(places)
        mapper, why = choose_mapper(compilation.mapper, devices, len(places), even=even)
        if model > 1 and mapper not in ("shard_map", "vmap"):
            raise UnsupportedError(
                f"tensor_parallel_degree = {model} does not run with the mapper {mapper}, as "
                f"{why}; feed a multiple of the number of replicas, and set mapper = 'auto'"
            )
        if mapper == "lockstep":
            found = lockstep(self.module, self.plan, device_of(places[0]), count)
        elif mapper == "vmap" or devices is None:
            device = device_of(places[0])
            found = replication.vmap(
                self.module, self.plan, device, count, donate=donate, model=model
            )
        elif mapper == "pmap":
            found = replication.pmap(self.module, self.plan, devices, donate=donate)
        else:
            found = replication.shard_map(
                self.module, self.plan, devices, donate=donate, model=model
            )
            # With other processes, JAX takes no NumPy feeds for several devices.
            found = found if jax.process_count() == 1 else across(found, devices)
        return replace(found, why=why)

    def make_alone(self, *, donate: bool) -> Any:
        """Build the jitted function of one step on one device."""
        device = device_of(self.compilation.places[0])
        from graphopt.lowering import replication

        return replication.alone(self.module, self.plan, device, donate=donate).function

    def options(self) -> dict[str, Any] | None:
        """Choose XLA's compiler options for this module; None for the defaults."""
        if self.compilation.places[0].platform != "cpu":
            return None
        # It checks XLA's own passes after each of them, and takes a tenth of the quick form's time.
        left_out = ["hlo-verifier"]
        if self.has_barriers:
            # XLA would remove barriers before common subexpression elimination, which would then
            # keep values that the derivative must recompute. It would remove them before it
            # combines collectives, too.
            left_out.append("cse_barrier_expander")
        options: dict[str, Any] = {"xla_disable_hlo_passes": ",".join(left_out)}
        if self.convolves:
            # YNNPACK would get the matrix products, which take up to a sixth longer there, and sums
            # fused with their producers. For a wide depthwise filter it would get copies of images.
            options["xla_cpu_experimental_ynn_fusion_type"] = ""
        strategy = self.compilation.strategy
        if strategy is not None and strategy.shard_parameters:
            from graphopt.passes.parallel.shard_parameters import looks_up

            if looks_up(self.module):
                # XLA would start all ready ops at once: the zero gradients of all tables
                options["xla_cpu_scheduler_type"] = "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"
        return options

    @cached_property
    def op_by_op(self) -> Replicated:
        """The module on one device with an XLA program for each op: sizes may depend on data.

        Feeds of all sizes share it, with the rules found for its ops and the programs of its
        regions.
        """
        device = device_of(self.compilation.places[0])
        from graphopt.lowering import replication

        return replication.by_op(self.module, self.plan, device)

    def explain(self) -> Report:
        """Build the report with near misses, costs and blocks, on the first request."""
        from graphopt.passes.table.manager import optimize
        from graphopt.passes.table.report import timed_as

        if not self.report.detailed:
            # as compiled, whatever flags have been set since
            context, again = self.report.context, self.compilation.parse
            found = optimize(again(), context.quiet(), near=True, again=again)
            found = timed_as(found, self.report)
            self.report = replace(found, context=context, validation=self.report.validation)
        return self.report

    @property
    def is_startup(self) -> bool:
        """True for a startup program: it writes state, reads nothing, on one device."""
        plan = self.plan
        if plan.feeds or plan.updated or plan.read_only or plan.fetches:
            return False
        return len(self.compilation.places) == 1 and not self.per_replica

    @property
    def starts_alike(self) -> bool:
        """True for a startup program whose random draws can share XLA programs.

        XLA takes long to compile a draw. A draw that runs as an op by itself is compiled once for
        all of its shape, and for all shapes that share a generator.
        """
        if not self.is_startup:
            return False
        import_jax()
        from graphopt.ir.dialect.ops.random import RandomOp
        from graphopt.lowering.call import Call
        from graphopt.lowering.collectives import ALONE
        from graphopt.lowering.ops.random import shares_generator

        calls = [Call.of(op, ALONE) for op in self.module.walk() if isinstance(op, RandomOp)]
        alike = len(calls) >= 2 * len(set(calls)) > 0
        return alike or sum(map(shares_generator, calls)) > 1

    @property
    def calls_python(self) -> bool:
        """True if a step calls Python, for an op or to check for NaN."""
        return bool(self.callers) or self.checks_finite

    @property
    def per_replica(self) -> bool:
        """True if some state has a separate value on each replica."""
        ports = (*self.plan.updated, *self.plan.read_only, *self.plan.written)
        return any(port.per_replica for port in ports)


def choose_mapper(
    asked: str, devices: Sequence[Any] | None, count: int, *, even: bool
) -> tuple[str, str]:
    """Choose the mapper of `count` places, and give the reason.

    `devices` has a device for each place, or is None. Replicas with different numbers of rows can
    run in lockstep only; if another mapper was requested, warn. Raise UnsupportedError if the
    requested mapper cannot run.
    """
    if not even:
        why = "the replicas have different numbers of rows"
        if asked != "auto":
            why = f"{why}, which {asked} cannot run"
            warnings.warn(f"mapper: lockstep, as {why}", stacklevel=caller_level())
        return "lockstep", why
    if asked == "auto":
        if devices is None:
            return "vmap", "there are fewer devices than places"
        return "shard_map", "there is a device for each place"
    if asked != "vmap" and devices is None:
        raise UnsupportedError(
            f"mapper = '{asked}' needs a device for each of the {count} places: set "
            f"CPU_NUM={count} before anything runs, use fewer places, or mapper = 'vmap' or 'auto'"
        )
    import jax

    if asked == "pmap" and jax.process_count() > 1:
        raise UnsupportedError(
            "mapper = 'pmap' supports one process only; in a job of several processes use "
            "'shard_map' or 'auto'"
        )
    return asked, "it was requested"


def alone_later(place: Place, make: Callable[[], Any], *, donates: bool) -> Replicated:
    """Wrap the step on the device of `place`; `make` builds its jitted function when needed."""

    @functools.cache
    def sharding() -> Any:
        device = device_of(place)
        import jax

        return jax.sharding.SingleDeviceSharding(device)

    return Replicated(
        *("alone", make, 1, lambda _: sharding(), _home(place)),
        donates=donates,
        mapped=False,
        why="there is one place",
    )


def _home(place: Place) -> Hashable:
    if place.platform == "cpu" and "jax" not in sys.modules:
        return home_at(("cpu", 0))  # only a job has other numbers, and a job has imported JAX
    return home_of(device_of(place))
