"""Readers of saved models of any format, with parameters of any kind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

import graphopt.tensor  # noqa: F401  (programs and variables get their methods)
from graphopt.errors import FormatError, UnsupportedError
from graphopt.ir.formats.files import read_one
from graphopt.ir.formats.find import find_given, find_parameters
from graphopt.ir.formats.foreign import foreign_arrays
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.model import (
    LoadedModel,
    load_program,
    read_beside,
    read_one_save,
    read_tensors,
    refuse_missing_parameters,
)
from graphopt.ir.formats.parameters import stored_variables
from graphopt.models.bundle.layout import is_bundle
from graphopt.models.bundle.read import read_bundle
from graphopt.models.imported import ImportedModel as ImportedModel
from graphopt.models.parameters import (
    check_values,
    kind_of_file,
    read_arrays,
    read_only,
    read_pickles,
)
from graphopt.runtime.state.scope import global_scope

PathLike: TypeAlias = str | os.PathLike[str]
Array: TypeAlias = np.ndarray[Any, Any]


def import_model(
    path: PathLike, params: PathLike | Mapping[str, Any] | None = None
) -> ImportedModel:
    """Read a model that Paddle saved, in any of its formats.

    `path` is a `.pdmodel` or PIR `.json` file, with the suffix or without; a folder with
    `__model__`, or with one model in it; a bare serialized program; or a bundle (`.graphopt`),
    which has its parameters, and executables for some sizes of its inputs. `params` is a file of
    tensors (`.pdiparams`), a pickle (`.pdparams`), an `.npz` or a `.safetensors` file, a folder
    with one file per variable, or a mapping of arrays. By default the files beside the program are
    read: `.pdiparams`, or `.pdparams` and `.pdopt`. Formats are recognized by content.

    The parameters are checked against the program, and put into the current global scope too, so
    that `exe.run(model.program, feed, model.fetch_names)` works; `model.run` has a scope of its
    own.

    Raises FileNotFoundError; FormatError (ValueError) for files that are malformed, lack a
    variable or hold others than the program; LimitError and UnsafeError for files that cannot be
    trusted; UnsupportedError for files other than programs; ValueError for a folder with several
    models.
    """
    model = read_model(path, params)
    for name, array in model.parameters.items():
        (global_scope().find_var(name) or global_scope().var(name)).write(array)
    return model


def read_model(path: PathLike, params: PathLike | Mapping[str, Any] | None = None) -> ImportedModel:
    """Read a model as `import_model`, with the parameters only in the model's own scope."""
    file = _given_path(path)
    buckets = None
    if is_bundle(file):
        if params is not None:
            raise ValueError(f"{file} is a bundle, which contains its parameters; leave out params")
        loaded, buckets = read_bundle(file)
    else:
        loaded = read_one_save(lambda: _with_parameters(load_program(file), params))
    model = ImportedModel(
        *(loaded.program, loaded.feed_names, loaded.fetch_names, loaded.path, loaded.is_inference),
        content=b"",
        parameters=loaded.parameters,
        buckets=buckets,
    )
    for name, array in loaded.parameters.items():
        model.scope.var(name).put(array)
    return model


def _with_parameters(
    loaded: LoadedModel, params: PathLike | Mapping[str, Any] | None
) -> LoadedModel:
    parameters = read_parameters(loaded, params)
    if parameters is None:
        refuse_missing_parameters(loaded)
        return loaded
    return replace(loaded, parameters=parameters)


def _given_path(path: Any, argument: str = "path") -> Path:
    """Convert an argument to a Path; raise TypeError or ValueError for other values."""
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


def read_program_only(path: PathLike) -> LoadedModel:
    """Read the program of `path`; a bundle has its parameters. Raises as `import_model`."""
    given = _given_path(path)
    return read_bundle(given)[0] if is_bundle(given) else load_program(given)


def has_parameters(path: PathLike) -> bool:
    """True for a program that stores variables; raises as `import_model`."""
    return bool(stored_variables(read_program_only(path).program))


def read_parameters(
    loaded: LoadedModel, params: PathLike | Mapping[str, Any] | None
) -> dict[str, Array] | None:
    """Read and check the parameters; None if none are given and no file is beside the program."""
    program, file = loaded.program, loaded.path
    if params is None and (loaded.parameters or is_bundle(file)):
        return loaded.parameters
    if isinstance(params, Mapping):
        return check_values(program, params, "the mapping given as params")
    sources = (
        find_parameters(file)
        if params is None
        else [find_given(file, _given_path(params, "params"))]
    )
    if not sources:
        return None
    try:
        return _read_files(loaded, sources)
    except FormatError:
        for source in (source for source in sources if source.is_file()):
            kind = foreign_arrays(read_one(source, Limits().params_bytes), takes_safetensors=True)
            if kind is not None:
                raise UnsupportedError(f"{source}: this is {kind}") from None
        raise


def _read_files(loaded: LoadedModel, sources: list[Path]) -> dict[str, Array]:
    """Read and check the parameters in files of one kind."""
    program = loaded.program
    kinds = {kind_of_file(source) for source in sources}
    if kinds <= {"tensors", "folder"}:
        found = read_tensors(loaded, sources[0].absolute())
        return {name: read_only(array) for name, array in sorted(found.items())}
    if kinds == {"pickle"}:
        given = read_pickles(read_beside(loaded, sources), sources)
    else:
        given = {}
        for source in sources:
            given.update(read_arrays(program, source, kind_of_file(source)))
    return check_values(program, given, " and ".join(map(str, sources)))
