"""A saved model as one object: what it takes, what it gives, its parameters, and how to run it."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from graphopt.errors import FeedError, FormatError
from graphopt.importing.locate import find_parameters, find_program, given_parameters
from graphopt.importing.parameters import checked, kind_of_file, read_arrays, read_only
from graphopt.ir.interface import data_names, output_names
from graphopt.ir.program import Program, Variable
from graphopt.ir.reader.model import load_model
from graphopt.ir.reader.parameters import stored_variables
from graphopt.ir.reader.quote import quote
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.executor import Executor
from graphopt.runtime.scope import Scope, global_scope
from graphopt.runtime.strategies import BuildStrategy

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from graphopt.export import Exported
    from graphopt.passes.manager import Report

PathLike: TypeAlias = str | os.PathLike[str]
Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ImportedModel:
    """A program with its interface and its parameters.

    `feed_names` and `fetch_names` are the model's inputs and outputs in order. A training program
    has no such list in its file: there they are its data variables, and its loss followed by
    outputs that nothing reads, such as an accuracy. `parameters` are read-only arrays by variable
    name, in the order of the names: all persistable state that the files hold. `path` is the
    program file. `scope` is where `run` keeps the state, apart from every other model's.
    """

    program: Program = field(repr=False)
    feed_names: list[str]
    fetch_names: list[str]
    parameters: dict[str, Array] = field(repr=False)
    path: Path
    scope: Scope = field(repr=False)
    _runs: dict[Any, Any] = field(repr=False, compare=False)

    def run(
        self,
        feed: Mapping[str, Any] | Sequence[Any] | None = None,
        build_strategy: BuildStrategy | None = None,
        fetch: Sequence[str | Variable] | None = None,
    ) -> list[Array]:
        """The outputs for these inputs, in the order of `fetch_names` or of `fetch`.

        `feed` maps input names to arrays, or lists the arrays in the order of `feed_names`. What
        the program updates stays updated in `scope`. Compiled programs are kept, so that a second
        run is quick. Raises as `Executor.run`; FeedError for a list of another length.
        """
        executor = self._runs.setdefault("executor", Executor())
        names = self.fetch_names if fetch is None else list(fetch)
        program = self.program if build_strategy is None else self._compiled(build_strategy)
        return executor.run(program, self.feed(feed), names, scope=self.scope)

    def feed(self, given: Mapping[str, Any] | Sequence[Any] | None) -> dict[str, Any]:
        """The inputs by name; FeedError for missing and unknown names and for too many values."""
        if given is None:
            given = {}
        if not isinstance(given, Mapping):
            if not isinstance(given, list | tuple):
                raise FeedError(
                    f"expected inputs by name or a list of {len(self.feed_names)} arrays, found "
                    f"a {type(given).__name__}"
                )
            if len(given) != len(self.feed_names):
                raise FeedError(
                    f"expected {len(self.feed_names)} inputs ({', '.join(self.feed_names)}), "
                    f"found {len(given)}"
                )
            return dict(zip(self.feed_names, given, strict=True))
        for what, names in (
            ("no value for the inputs", [n for n in self.feed_names if n not in given]),
            ("no inputs are called", [n for n in given if not self._may_be_fed(n)]),
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
        """The program with the optimisations of a BuildStrategy, for `Executor.run`."""
        return CompiledProgram(self.program, build_strategy)

    def _compiled(self, build_strategy: BuildStrategy) -> CompiledProgram:
        key = repr(sorted(build_strategy.values.items(), key=lambda item: item[0]))
        if key not in self._runs:
            self._runs[key] = self.optimize(build_strategy._copy())
        return self._runs[key]

    def module(
        self,
        build_strategy: BuildStrategy | None = None,
        fetch: Sequence[str | Variable] | None = None,
    ) -> ModuleOp:
        """The `pd` module of the program, with the optimisations of a BuildStrategy."""
        return self._optimized(build_strategy, fetch)[0]

    def explain(self, build_strategy: BuildStrategy | None = None) -> str:
        """What a BuildStrategy does to this program, and what it declines and why, as text."""
        return self._optimized(build_strategy, None)[1].explain()

    def _optimized(
        self, build_strategy: BuildStrategy | None, fetch: Sequence[str | Variable] | None
    ) -> tuple[ModuleOp, Report]:
        from graphopt.ir.parse.program import parse_program
        from graphopt.passes.manager import optimize
        from graphopt.passes.setup import Setup

        wanted = self.fetch_names if fetch is None else fetch
        names = [item.name if isinstance(item, Variable) else item for item in wanted]
        again = functools.partial(parse_program, self.program, self.feed_names, names)
        module = again()
        setup = Setup({}) if build_strategy is None else build_strategy.setup()
        return module, optimize(module, setup, again=again)

    def export(
        self,
        path: PathLike,
        format: str | None = None,
        build_strategy: BuildStrategy | None = None,
        **options: Any,
    ) -> Exported:
        """Write the model in another format, told by the suffix of `path` unless given.

        See `graphopt.export.export`, which this calls.
        """
        from graphopt.export import export

        return export(self, path, format, build_strategy, **options)


def import_model(
    path: PathLike, params: PathLike | Mapping[str, Any] | None = None
) -> ImportedModel:
    """Read a model that Paddle saved, in any of its formats.

    `path` is a `.pdmodel` or PIR `.json` file, with the suffix or without; a folder with
    `__model__`, or with one model in it; or a bare serialized program. `params` is a file of
    tensors (`.pdiparams`), a pickle (`.pdparams`), an `.npz` or a `.safetensors` file, a folder
    with one file per variable, or a mapping of arrays; left out, it is what lies beside the
    program: `.pdiparams`, or `.pdparams` and `.pdopt`. Formats are told by content.

    The parameters are checked against the program, and put into the current global scope too, so
    that `exe.run(model.program, feed, model.fetch_names)` works; `model.run` has a scope of its
    own.

    Raises FileNotFoundError; FormatError (ValueError) for files that are malformed, lack a
    variable or hold others than the program; LimitError and UnsafeError for files that cannot be
    trusted; UnsupportedError for what is no program; ValueError for a folder with several models.
    """
    read = read_interface(path)
    parameters = read_parameters(read, params)
    stored = stored_variables(read.program)
    if parameters is None and read.is_inference and stored:
        raise FormatError(
            f"{read.path}: expected a parameter file beside it for the program's {len(stored)} "
            f"stored variables ({quote(stored[0].name)} ...), found none; pass it as params"
        )
    parameters = parameters or {}
    scope = Scope()
    for name, array in parameters.items():
        (global_scope().find_var(name) or global_scope().var(name)).put(np.array(array))
        scope.var(name).put(array)
    return ImportedModel(
        read.program, read.feed_names, read.fetch_names, parameters, read.path, scope, {}
    )


class Interface(NamedTuple):
    """A program file without its parameters; `is_inference` when it names its own interface."""

    path: Path
    program: Program
    feed_names: list[str]
    fetch_names: list[str]
    is_inference: bool


def read_interface(path: PathLike) -> Interface:
    """The program that `path` means; raises as `import_model`."""
    file = find_program(Path(path))
    loaded = load_model(file, program_only=True)
    program, feeds, fetches = loaded.program, loaded.feed_names, loaded.fetch_names
    if feeds or fetches:
        return Interface(file, program, feeds, fetches, True)
    return Interface(file, program, data_names(program), output_names(program), False)


def read_parameters(
    read: Interface, params: PathLike | Mapping[str, Any] | None
) -> dict[str, Array] | None:
    """The checked parameters; None when nothing was given and nothing lies beside the program."""
    program, file = read.program, read.path
    if isinstance(params, Mapping):
        return checked(program, params, "the mapping given as params")
    sources = find_parameters(file) if params is None else [given_parameters(file, Path(params))]
    if not sources:
        return None
    kinds = {kind_of_file(source) for source in sources}
    if kinds <= {"tensors", "folder"}:
        loaded = load_model(file, sources[0].absolute())
        return {name: read_only(array) for name, array in sorted(loaded.parameters.items())}
    given: dict[str, Any] = {}
    for source in sources:
        given.update(read_arrays(source, kind_of_file(source)))
    return checked(program, given, " and ".join(map(str, sources)))
