"""Reading of a bundle: its program and parameters at once, an executable at its first run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from graphopt.frontend.version import OWN
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.model import LoadedModel, decode_model
from graphopt.ir.formats.parameters import read_combined, stored_variables
from graphopt.ir.program import Program
from graphopt.models.bundle.layout import Bundle, as_format_error
from graphopt.passes.padding import records
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.devices.machine import Machine, this_machine
from graphopt.runtime.devices.places import Place, device_of
from graphopt.runtime.feeds.buckets import Buckets, automatic
from graphopt.runtime.settings.flags import checks_all_ids, checks_nan_inf
from graphopt.runtime.state.arrays import shapes_of
from graphopt.runtime.steps.shipped import ship

if TYPE_CHECKING:
    from graphopt.runtime.compile.compiled import Compiled
    from graphopt.runtime.state.arrays import Step
    from graphopt.runtime.state.prepare import Prepare
    from graphopt.runtime.steps.executable import Executables


def read_bundle(path: Path, limits: Limits | None = None) -> tuple[LoadedModel, Buckets | None]:
    """Read the model of a bundle, which runs the bundle's executables where they fit.

    The buckets are None unless the bundle's inputs are padded. Raises FormatError, LimitError and
    OSError as `Bundle`, and FormatError as `load_model`.
    """
    bundle = Bundle(path, limits)
    record = bundle.manifest
    with as_format_error(path):
        content = bundle.piece(record["program"], "the program", bundle.limits.program_bytes)
        loaded = decode_model(content, path, limits)
        data = bundle.piece(record["parameters"], "the parameters", bundle.limits.params_bytes)
        tensors = read_combined(data, stored_variables(loaded.program), str(path), limits)
        buckets = _buckets_of(record["padding"])
        ship(loaded.program, InBundle(bundle, loaded.program, loaded.fetch_names).executables)
    parameters = {name: tensor.array for name, tensor in tensors.items()}
    return replace(loaded, parameters=parameters), buckets


def _buckets_of(record: Mapping[str, Any] | None) -> Buckets | None:
    return None if record is None else automatic(float(record["share"]), float(record["reuse"]))


class InBundle:
    """The executables of a bundle, for runs of its unchanged program.

    Runs are compiled as without a bundle if they differ from the bundle's compilation: a changed
    program, other fetches, a strategy, another kind of device or flags that change the compiled
    code.
    """

    def __init__(self, bundle: Bundle, program: Program, fetches: list[str]) -> None:
        record = bundle.manifest
        self.bundle = bundle
        self.version = program.version
        self.fetches = tuple(fetches)
        self.platform = str(record["platform"])
        self.axes = records.axes_of(record["axes"]) or None
        self.entries: list[Mapping[str, Any]] = [dict(entry) for entry in record["executables"]]
        self.is_same_version = record["graphopt"] == OWN
        self.has_warned = False
        # a weak reference, because the program keeps this object
        self.program = ref(program)

    def executables(self, compilation: Compilation) -> Executables | None:
        """Return the executables for a compilation; None if the bundle does not fit it."""
        program = self.program()
        fits = (
            program is not None
            and program.version == self.version
            and compilation.strategy is None
            and not compilation.data_parallel
            and len(compilation.places) == 1
            and compilation.places[0].platform == self.platform
            and compilation.fetches == self.fetches
            and (compilation.axes or None) == self.axes
            and not checks_nan_inf()
            and not checks_all_ids()
            # another version may feed other masks for sizes that the bundle lacks
            and (self.axes is None or self.is_same_version)
        )
        return self._executables(compilation) if fits else None

    def _executables(self, compilation: Compilation) -> Executables:
        from graphopt.runtime.disk.summaries import Summarized
        from graphopt.runtime.steps.loaded import LoadedExecutables

        record, place = self.bundle.manifest, compilation.places[0]
        with as_format_error(self.bundle.path):
            compiled = Summarized(compilation, record["summary"], prepare=self._prepare(place))
            self._check(compiled)
            steps: dict[Hashable, Callable[[], Step | None]] = {
                (_shapes_of(entry["feeds"]),): partial(self._load, entry, device_of(place))
                for entry in self.entries
            }
            found = LoadedExecutables(compiled, steps)
            found.sizes = [
                {str(dim): int(size) for dim, size in entry["sizes"].items()}
                for entry in self.entries
                if entry["sizes"]
            ]
        return found

    def _prepare(self, place: Place) -> Prepare | None:
        """Parse the `@prepare` that XLA computes, if there is one; only it loads the dialect."""
        text = self.bundle.piece(self.bundle.manifest["prepare"], "@prepare").decode()
        if not text:
            return None
        from graphopt.ir.dialect.context import new_context
        from graphopt.ir.dialect.text import ModuleParser
        from graphopt.runtime.state.prepare import Prepare

        module = ModuleParser(new_context(), text, "prepare").parse_module()
        module.verify()
        return Prepare.of(module, place.platform, partial(device_of, place))

    def _check(self, compiled: Compiled) -> None:
        """Raise ValueError unless the records belong to one program."""
        plan, masked = compiled.plan, compiled.masked
        if tuple(port.name for port in plan.fetches) != self.fetches or plan.written:
            raise ValueError("the results of the summary differ from the results of the program")
        if (masked is None) != (self.axes is None):
            raise ValueError(
                "the bundle has masks without padded axes, or padded axes without masks"
            )
        names = {port.name for port in plan.feeds}
        if any(not names <= set(entry["feeds"]) for entry in self.entries):
            raise ValueError("an executable lacks feeds of the summary")

    def _load(self, entry: Mapping[str, Any], device: Any) -> Step | None:
        """Load a step from the bundle; None if XLA rejects both its executable and its StableHLO.

        Raises FormatError when either is damaged.
        """
        from graphopt.models.bundle.load import executable_of, from_stablehlo
        from graphopt.runtime.steps.loaded import loaded_step

        bundle = self.bundle
        with as_format_error(bundle.path):
            built_on = Machine.of_record(bundle.manifest["machine"])
            options = {str(k): v for k, v in bundle.manifest["options"].items()}
        reason = this_machine(device).runs(built_on)
        if not reason:
            content = bundle.piece(entry["executable"], "an executable")
            executable, reason = executable_of(content, device)
            if executable is not None:
                return loaded_step(executable, device)
        self._warn(f"{bundle.path}: compiling the programs of the bundle again: {reason}")
        content = bundle.piece(entry["stablehlo"], "a StableHLO program")
        executable, reason = from_stablehlo(content, options, device)
        if executable is None:
            warnings.warn(f"{bundle.path}: compiling the model again: {reason}", stacklevel=2)
            return None
        return loaded_step(executable, device)

    def _warn(self, text: str) -> None:
        if not self.has_warned:
            self.has_warned = True
            warnings.warn(text, stacklevel=2)


def _shapes_of(record: Mapping[str, Any]) -> tuple[tuple[tuple[int, ...], Any], ...]:
    """Compute the cache key of feeds with these dtypes and shapes."""
    feeds = {
        str(name): np.broadcast_to(np.zeros((), dtype), tuple(map(int, shape)))
        for name, (dtype, shape) in record.items()
    }
    return shapes_of(feeds)
