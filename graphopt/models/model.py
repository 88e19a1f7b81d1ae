"""Reading saved models of any format, and writing them in others."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from graphopt.errors import FormatError
from graphopt.ir.formats.files import settle_at, version_of
from graphopt.ir.formats.find import find_parameters, find_program, given_parameters
from graphopt.ir.formats.model import load_model
from graphopt.ir.formats.parameters import stored_variables
from graphopt.ir.formats.quote import quote
from graphopt.ir.program import Program
from graphopt.ir.translate.interface import data_names, output_names
from graphopt.models.bundle.layout import is_bundle
from graphopt.models.bundle.read import read_bundle
from graphopt.models.parameters import checked, kind_of_file, read_arrays, read_only, read_pickles
from graphopt.models.saved import SavedModel
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.state.scope import Scope, global_scope

if TYPE_CHECKING:
    from graphopt.models.export import Exported

PathLike: TypeAlias = str | os.PathLike[str]
Array: TypeAlias = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ImportedModel(SavedModel):
    """A saved model that can be written in other formats; see `SavedModel`."""

    def export(
        self,
        path: PathLike,
        format: str | None = None,
        build_strategy: BuildStrategy | None = None,
        **options: Any,
    ) -> Exported:
        """Write the model in another format, by the suffix of `path` unless given.

        See `graphopt.models.export.export`, which this calls.
        """
        from graphopt.models.export import export

        return export(self, path, format, build_strategy, **options)


def import_model(
    path: PathLike, params: PathLike | Mapping[str, Any] | None = None
) -> ImportedModel:
    """Read a model that Paddle saved, in any of its formats.

    `path` is a `.pdmodel` or PIR `.json` file, with the suffix or without; a folder with
    `__model__`, or with one model in it; a bare serialized program; or a bundle (`.graphopt`),
    which has its parameters, and executables for some sizes of its inputs. `params` is a file of
    tensors (`.pdiparams`), a pickle (`.pdparams`), an `.npz` or a `.safetensors` file, a folder
    with one file per variable, or a mapping of arrays; left out, they are read from beside the
    program: `.pdiparams`, or `.pdparams` and `.pdopt`. Formats are recognised by content.

    The parameters are checked against the program, and put into the current global scope too, so
    that `exe.run(model.program, feed, model.fetch_names)` works; `model.run` has a scope of its
    own.

    Raises FileNotFoundError; FormatError (ValueError) for files that are malformed, lack a
    variable or hold others than the program; LimitError and UnsafeError for files that cannot be
    trusted; UnsupportedError for what is no program; ValueError for a folder with several models.
    """
    model = read_model(path, params)
    for name, array in model.parameters.items():
        (global_scope().find_var(name) or global_scope().var(name)).put(np.array(array))
    return model


def read_model(path: PathLike, params: PathLike | Mapping[str, Any] | None = None) -> ImportedModel:
    """As `import_model`, with the parameters in the model's own scope alone."""
    if is_bundle(file := _given_path(path)):
        return _of_bundle(file, params)
    read, parameters = _of_one_save(path, params)
    stored = stored_variables(read.program)
    if parameters is None and read.is_inference and stored:
        raise FormatError(
            f"{read.path}: expected a parameter file beside it for the program's {len(stored)} "
            f"stored variables ({quote(stored[0].name)} ...), found none; pass it as params"
        )
    parameters = parameters or {}
    return ImportedModel(
        *(read.program, read.feed_names, read.fetch_names),
        *(parameters, read.path, _scope_of(parameters), {}),
    )


def _of_bundle(file: Path, params: PathLike | Mapping[str, Any] | None) -> ImportedModel:
    if params is not None:
        raise ValueError(f"{file} is a bundle, which has its parameters; leave out params")
    program, feeds, fetches, parameters, buckets = read_bundle(file)
    scope = _scope_of(parameters)
    return ImportedModel(program, feeds, fetches, parameters, file, scope, {}, buckets)


def _scope_of(parameters: Mapping[str, Array]) -> Scope:
    """A scope of its own for these values."""
    scope = Scope()
    for name, array in parameters.items():
        scope.var(name).put(array)
    return scope


def _of_one_save(
    path: PathLike, params: PathLike | Mapping[str, Any] | None
) -> tuple[Interface, dict[str, Array] | None]:
    """A program and its parameters; both again when a save replaced the program meanwhile."""
    while True:
        settle_at(_given_path(path))
        before = version_of(find_program(_given_path(path)))
        read = read_interface(path)
        parameters = read_parameters(read, params)
        if version_of(read.path) == before:
            return read, parameters


def _given_path(path: Any, argument: str = "path") -> Path:
    """The path that a caller gave; TypeError or ValueError for anything else."""
    if not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"import_model: {argument} must be the path of a saved model's file or folder, "
            f"but received {type(path).__name__}"
        )
    if not os.fspath(path):
        raise ValueError(
            f"import_model: {argument} is empty; give the path of a file or folder, '.' for the "
            "working folder"
        )
    return Path(path)


class Interface(NamedTuple):
    """A program file without its parameters; `is_inference` when it names its own interface."""

    path: Path
    program: Program
    feed_names: list[str]
    fetch_names: list[str]
    is_inference: bool


def read_interface(path: PathLike) -> Interface:
    """The program that `path` means; raises as `import_model`."""
    file = find_program(_given_path(path))
    if is_bundle(file):
        opened = read_bundle(file)
        return Interface(file, opened.program, opened.feed_names, opened.fetch_names, True)
    loaded = load_model(file, program_only=True)
    program, feeds, fetches = loaded.program, loaded.feed_names, loaded.fetch_names
    if feeds or fetches:
        return Interface(file, program, feeds, fetches, True)
    return Interface(file, program, data_names(program), output_names(program), False)


def has_parameters(path: PathLike) -> bool:
    """True for a program that stores variables; raises as `import_model`."""
    return bool(stored_variables(read_interface(path).program))


def read_parameters(
    read: Interface, params: PathLike | Mapping[str, Any] | None
) -> dict[str, Array] | None:
    """The checked parameters; None when nothing was given and nothing is beside the program."""
    program, file = read.program, read.path
    if params is None and is_bundle(file):
        return read_bundle(file).parameters
    if isinstance(params, Mapping):
        return checked(program, params, "the mapping given as params")
    sources = (
        find_parameters(file)
        if params is None
        else [given_parameters(file, _given_path(params, "params"))]
    )
    if not sources:
        return None
    kinds = {kind_of_file(source) for source in sources}
    if kinds <= {"tensors", "folder"}:
        loaded = load_model(file, sources[0].absolute())
        return {name: read_only(array) for name, array in sorted(loaded.parameters.items())}
    if kinds == {"pickle"}:
        given = read_pickles(sources, file)
    else:
        given = {}
        for source in sources:
            given.update(read_arrays(program, source, kind_of_file(source)))
    return checked(program, given, " and ".join(map(str, sources)))
