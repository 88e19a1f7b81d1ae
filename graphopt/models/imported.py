"""A saved model for scripts: its inputs, its outputs, runs and exports."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from graphopt.display.units import several
from graphopt.errors import FeedError, OpenSizeError
from graphopt.ir.formats.model import LoadedModel
from graphopt.ir.formats.quote import quote
from graphopt.ir.program import Variable
from graphopt.models.feeds import Sizes, shapes_for
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.devices.places import likely_place
from graphopt.runtime.executor import Executor
from graphopt.runtime.feeds.buckets import Buckets
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.state.scope import Scope

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from graphopt.models.export import Exported
Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ImportedModel(LoadedModel):
    """A saved model that runs, and can be written in other formats.

    `feed_names` and `fetch_names` are the model's inputs and outputs in order. A training program
    has no such list in its file: there they are its data variables, and its loss followed by
    outputs that nothing reads, such as an accuracy. `parameters` are read-only arrays by variable
    name, in the order of the names: all persistable state that the files hold. `path` is the
    program file. `scope` is where `run` keeps the state, apart from every other model's.
    """

    scope: Scope = field(default_factory=Scope, repr=False)
    _runs: dict[Any, Any] = field(default_factory=dict[Any, Any], repr=False, compare=False)
    buckets: Buckets | None = field(default=None, repr=False, compare=False)
    """The buckets of a `run` without any, from a bundle for a range of sizes."""

    def run(
        self,
        feed: Mapping[str, Any] | Sequence[Any] | None = None,
        build_strategy: BuildStrategy | None = None,
        fetch: Sequence[str | Variable] | None = None,
        buckets: Buckets | None = None,
    ) -> list[Array]:
        """Run the model on these inputs; return the outputs of `fetch_names` or of `fetch`.

        `feed` maps input names to arrays, or lists the arrays in the order of `feed_names`. Updates
        of the program stay in `scope`. Compiled programs are kept, so that a second run is quick.
        With `buckets` (see `graphopt.buckets`) inputs of many sizes run as a few; compiled programs
        are kept with the buckets, so pass the same object again.

        Raises as `Executor.run`; FeedError for a list of another length.
        """
        executor = self._executor(self.buckets if buckets is None else buckets)
        names = self.fetch_names if fetch is None else list(fetch)
        program = self.program if build_strategy is None else self._compile(build_strategy)
        found = executor.run(program, self.feed(feed), names, scope=self.scope)
        return cast("list[Array]", found)

    def _executor(self, buckets: Buckets | None = None) -> Executor:
        """Return the executor of `run`, which keeps the `stats` of runs with these buckets."""
        key = "executor" if buckets is None else id(buckets)
        if key not in self._runs:
            self._runs[key] = Executor(buckets=buckets)  # keeps the buckets alive, and so their id
        return self._runs[key]

    def feed(self, given: Mapping[str, Any] | Sequence[Any] | None) -> dict[str, Any]:
        """Map inputs to names; raise FeedError for missing or unknown names, or another count."""
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            if not isinstance(given, list | tuple):
                raise FeedError(
                    "expected inputs by name or a list of "
                    f"{several(len(self.feed_names), 'array')}, found a {type(given).__name__}"
                )
            if len(given) != len(self.feed_names):
                raise FeedError(
                    f"expected {several(len(self.feed_names), 'input')} "
                    f"({', '.join(self.feed_names)}), found {len(given)}"
                )
            return dict(zip(self.feed_names, given, strict=True))
        for what, names in (
            ("no inputs are called", [n for n in given if not self._may_be_fed(n)]),
            ("no value for the inputs", [n for n in self.feed_names if n not in given]),
        ):
            if names:
                raise FeedError(
                    f"{what} {', '.join(map(quote, names))}; the model's inputs are "
                    f"{', '.join(map(quote, self.feed_names)) or 'none'}"
                )
        return dict(given)

    def _may_be_fed(self, name: str) -> bool:
        return name in self.feed_names or self.program.global_block().has_var(name)

    def optimize(self, build_strategy: BuildStrategy | None = None) -> CompiledProgram:
        """Attach the optimizations of a BuildStrategy to the program, for `Executor.run`."""
        return CompiledProgram(self.program, build_strategy)

    def _compile(self, build_strategy: BuildStrategy) -> CompiledProgram:
        key = repr(sorted(build_strategy.values.items(), key=lambda item: item[0]))
        if key not in self._runs:
            self._runs[key] = self.optimize(build_strategy._copy())
        return self._runs[key]

    def module(
        self,
        build_strategy: BuildStrategy | None = None,
        fetch: Sequence[str | Variable] | None = None,
        *,
        portable: bool = False,
        sizes: Sizes = None,
    ) -> ModuleOp:
        """Build the `pd` module of the program as `run` compiles it with this BuildStrategy.

        With `portable` no pass for a kind of device has changed it: state has the form of the
        parameters. `sizes`, one for all open sizes or shapes by input, are used if a size cannot
        stay open.
        """
        compilation = self._compilation(build_strategy, fetch, portable=portable)
        try:
            return compilation.optimize().module
        except OpenSizeError:
            if sizes is None:
                raise
        block = self.program.global_block()
        shapes = shapes_for(self.program, self.fed_names, sizes)
        types = tuple((name, shape, f"{block.var(name).dtype}") for name, shape in shapes.items())
        return replace(compilation, types=types).optimize().module

    def explain(
        self, build_strategy: BuildStrategy | None = None, *, portable: bool = False
    ) -> str:
        """Report the passes of a run as text: rewrites, and refusals with their reasons.

        The platform's passes are reported without a BuildStrategy too. `portable` is as for
        `module`.
        """
        compilation = self._compilation(build_strategy, None, portable=portable)
        from graphopt.passes.table.explain import as_text

        return as_text(compilation.optimize(near=True).report)

    def export(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        build_strategy: BuildStrategy | None = None,
        **options: Any,
    ) -> Exported:
        """Write the model in another format, by default the one of the suffix of `path`.

        See `graphopt.models.export.export`, which this calls.
        """
        from graphopt.models.export import export

        def module(strategy: BuildStrategy | None) -> ModuleOp:
            return self.module(strategy, portable=True, sizes=options.get("sizes"))

        return export(self, module, path, format, build_strategy, **options)

    def _compilation(
        self,
        build_strategy: BuildStrategy | None,
        fetch: Sequence[str | Variable] | None,
        *,
        portable: bool,
    ) -> Compilation:
        wanted = self.fetch_names if fetch is None else fetch
        names = tuple(item.name if isinstance(item, Variable) else item for item in wanted)
        places = () if portable else (likely_place(),)
        feeds = tuple(self.fed_names)
        return Compilation(self.program, feeds, names, build_strategy, places, in_one=True)
