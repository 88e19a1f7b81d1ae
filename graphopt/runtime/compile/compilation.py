"""A compilation: a program with feeds, fetches, strategy and places, and its optimized module.

Code that compiles, explains, exports or searches a program makes a `Compilation` first, so that all
of it sees the same passes. `compile_program` of `runtime/compile/compiling.py` builds the input of
executables, and is the only part that always needs JAX.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from graphopt.ir.program import GRAD_SUFFIX, LENGTHS, Program
from graphopt.ir.program.gradient_types import GRAD_TYPE, RECOMPUTE
from graphopt.passes.padding.dims import Axes
from graphopt.passes.padding.masked import Masked
from graphopt.passes.table.context import FLOAT32, TF32, PassContext
from graphopt.passes.table.parts import PARSE, CompilationPart
from graphopt.runtime.devices.places import Place, devices_of
from graphopt.runtime.settings.flags import (
    allows_tf32,
    left_out,
    measures_kernels,
    no_kernels,
    uses_kernels,
)
from graphopt.runtime.settings.jax_import import import_jax
from graphopt.runtime.settings.strategies import BuildStrategy

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from graphopt.passes.engine.validation import Validator
    from graphopt.passes.table.report import Report


class Optimized(NamedTuple):
    """An optimized module and the report of its passes."""

    module: ModuleOp
    report: Report


@dataclass(frozen=True)
class Compilation:
    """A program to compile for `places`; without places portably, for any platform.

    Without a strategy, only the passes of the platform run. `steps` is the number of steps of a
    run, and `stacked` names the feeds that hold a batch for each step. `mapper` makes the replicas
    of a data-parallel program; "auto" chooses it by places and feeds. `axes` are the padded axes of
    feeds; the masks and counts of their rows are then fed as well. `types` are the shapes and
    dtypes of feeds that differ from their variables, `numbers` the elements of feeds that are
    constants. With `grows`, a feed of open size that is fetched with rows appended is a buffer with
    room for these rows. `in_one` marks a module that is shown or written but never run: see
    `parse_program`.
    """

    program: Program
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    strategy: BuildStrategy | None = None
    places: tuple[Place, ...] = ()
    data_parallel: bool = False
    steps: int = 1
    stacked: frozenset[str] = frozenset()
    sample_weighted: bool = False
    mapper: str = "auto"
    axes: Mapping[str, Axes] | None = None
    types: tuple[tuple[str, tuple[int, ...], str], ...] = ()
    numbers: tuple[tuple[str, tuple[float, ...]], ...] = ()
    grows: bool = False
    in_one: bool = False

    def for_feeds(self, feeds: Mapping[str, Any]) -> Compilation | None:
        """Specialize to the shapes and dtypes of `feeds`, which are arrays or array types.

        Return None unless a call is one step on one device, without padding rows.
        """
        return self.for_types(
            [(name, tuple(each.shape), str(each.dtype)) for name, each in feeds.items()]
        )

    def for_types(self, types: Iterable[tuple[str, tuple[int, ...], str]]) -> Compilation | None:
        """Specialize to feeds of these names, shapes and dtypes, as `for_feeds` does."""
        return replace(self, types=tuple(types)) if self._is_plain else None

    def with_numbers(self, numbers: Mapping[str, tuple[float, ...]]) -> Compilation | None:
        """Make these feeds constants; return None where `for_feeds` does."""
        if not self._is_plain:
            return None
        return replace(self, numbers=tuple(sorted({**dict(self.numbers), **numbers}.items())))

    @property
    def model(self) -> int:
        """The number of devices of a replica (`tensor_parallel_degree`)."""
        if self.strategy is None or not self.data_parallel:
            return 1
        return self.strategy.tensor_parallel_degree

    @property
    def _is_plain(self) -> bool:
        """True if a call is one step on one device, without padding rows."""
        alone = len(self.places) == 1 and not self.data_parallel and self.steps == 1
        return alone and not self.stacked and self.axes is None and not self.grows

    def is_called_as(self, other: Compilation) -> bool:
        """Return whether both have the same feeds, in any order, and the same fetches."""
        return {*self.feeds} == {*other.feeds} and self.fetches == other.fetches

    def parse(self) -> ModuleOp:
        """Parse the program again into a module that no pass has changed."""
        return self.mask()[0]

    def mask(self) -> tuple[ModuleOp, Masked | None]:
        """Parse the module, and rewrite it for padded feeds or growing caches.

        Return the module and its additional feeds, None without any. Raise CannotPad where the
        program cannot take the padding of `axes`, UnsupportedError and ProgramError as
        `parse_program` does.
        """
        from graphopt.ir.translate.blocks.program import parse_program

        module = parse_program(
            self.program,
            self.feeds,
            self.fetches,
            {name: (shape, dtype) for name, shape, dtype in self.types},
            dict(self.numbers),
            # replicas may be fed different values, but share one state
            keeps_fed_state=len(self.places) == 1 and not self.data_parallel,
            in_one=self.in_one,
        )
        if self.grows:
            return module, _grow_caches(module)
        return (module, None) if self.axes is None else (module, self._mask(module, self.axes))

    def _mask(self, module: ModuleOp, axes: Mapping[str, Axes]) -> Masked:
        """Rewrite a module for feeds with padding rows."""
        from xdsl.transforms.dead_code_elimination import dce

        from graphopt.ir.dialect.context import new_context
        from graphopt.passes.cleanup.settle_shapes import SettleShapes
        from graphopt.passes.padding.mask import mask_padding
        from graphopt.passes.padding.sized import size_by_tensor
        from graphopt.passes.parallel.sync_batch_norm import SyncBatchNorm

        # Masking decomposes norms, so synchronized norms must be chosen before it.
        if self.strategy is not None and self.strategy.sync_batch_norm:
            SyncBatchNorm().apply(new_context(), module)
        # A tensor that supplies sizes mostly supplies them to a reshape. SettleShapes infers the
        # result shape, so that the sizes need not be read. Feeds with padding are never empty.
        SettleShapes(has_elements=True).apply(new_context(), module)
        size_by_tensor(module)
        dce(module)
        lengths = {f"{name}{LENGTHS}": name for name in axes}
        return mask_padding(module, axes, lengths)

    def pass_context(self) -> PassContext:
        """Build the PassContext of this compilation."""
        return pass_context_for(
            self.strategy,
            self.places[0].platform if self.places else "",
            replicas=max(len(self.places) // self.model, 1),
            data_parallel=self.data_parallel,
            sample_weighted=self.sample_weighted,
            recompute=_recomputes(self.program),
            loss_grad=next((name for name in self.feeds if name.endswith(GRAD_SUFFIX)), ""),
        )

    def optimize(self, *, near: bool = False, validate: Validator | None = None) -> Optimized:
        """Parse and optimize the module, and report on its passes.

        `near` is for a report: it lists near misses, and writes no graph files. `validate` compares
        each rewrite with the ops that it replaces. Raise PassError when a pass fails, OSError when
        `debug_graphviz_path` cannot be written.
        """
        from graphopt.passes.table.manager import optimize

        start = time.perf_counter()
        module = self.parse()
        parse = CompilationPart(PARSE, time.perf_counter() - start)
        context = self.pass_context().quiet() if near else self.pass_context()
        report = optimize(module, context, near=near, again=self.parse, validate=validate)
        report.parts.append(parse)
        return Optimized(module, report)


def _grow_caches(module: ModuleOp) -> Masked:
    """Rewrite a module so that its growing caches are buffers."""
    from graphopt.ir.dialect.context import new_context
    from graphopt.passes.cleanup.settle_shapes import SettleShapes
    from graphopt.passes.padding.growing import keep_caches

    SettleShapes(has_elements=True).apply(new_context(), module)
    return keep_caches(module)


def pass_context_for(strategy: BuildStrategy | None, platform: str, **run: Any) -> PassContext:
    """Build the PassContext of a strategy (None for a plain program) and a platform.

    `platform` is cpu, gpu, tpu, or empty for a portable result. `run` holds the other fields of the
    PassContext; a plain program uses none of those about replicas.
    """
    devices = _about(platform)
    if strategy is None:
        recompute = bool(run.get("recompute"))
        return PassContext({}, without=left_out(), recompute=recompute, **devices)
    return strategy.pass_context(**devices, **run)


def _about(platform: str) -> dict[str, Any]:
    """Collect the facts about a platform's devices as fields of a `PassContext`."""
    if platform == "cpu" and uses_kernels():
        from graphopt.runtime.compile.kernel_forms import kernels

        tried = kernels()
        return {"platform": platform, "kernels": tried.forms, "no_kernels": tried.why}
    if platform not in ("gpu", "tpu"):  # only these have kernels for attention
        return {"platform": platform}
    import_jax()
    from graphopt.lowering.kernels.attention_kernels import kernel_of

    found: dict[str, Any] = {"platform": platform}
    if platform == "gpu":
        found["precision"] = TF32 if allows_tf32() else FLOAT32
    if why := no_kernels():
        from graphopt.passes.engine.measured import refuse

        return found | {"measure": refuse(why)}
    devices = devices_of(platform)
    found["attention_kernel"] = kernel_of(platform, devices)
    if measures_kernels() and devices:
        from graphopt.runtime.compile.kernel_probes import probes_of

        found["measure"] = probes_of(devices[0])
    return found


def _recomputes(program: Program) -> bool:
    """Return whether a derivative of the program names checkpoints."""
    ops = (op for block in program.blocks for op in block.ops if op.type == GRAD_TYPE)
    return any(op.attrs.get(RECOMPUTE) for op in ops)
