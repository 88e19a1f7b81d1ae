"""Loading a saved model: finding its files, recognising formats, joining the parts."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from graphopt.errors import FormatError, MissingModelError, UnsupportedError
from graphopt.ir.formats.files import read_together, settle_at
from graphopt.ir.formats.graph_check import check_program, column_names
from graphopt.ir.formats.lengths import declare_lengths
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.parameters import read_combined, read_folder_with, stored_variables
from graphopt.ir.formats.pir_json.reader import read_pir
from graphopt.ir.formats.protobuf.program_desc import read_program
from graphopt.ir.formats.quote import quote
from graphopt.ir.formats.tensor_stream import Array, SavedTensor
from graphopt.ir.program import Program

PathLike: TypeAlias = str | os.PathLike[str]

# Pickles start with an opcode and a protocol number; a JSON object with its first key. A newline or
# a brace alone would not do: both are valid in a ProgramDesc. A bracket is not, as a first byte.
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_JSON = re.compile(rb'\[|[ \t\r\n]*\{[ \t\r\n]*"')

# The first bytes of files that are given by mistake. A ProgramDesc begins with its blocks, 0x0a.
_KINDS = {
    b"\x08": (
        "an ONNX file, not a model of Paddle; graphopt reads none: save the model with Paddle, or "
        "convert it with x2paddle"
    ),
    b"PK\x03\x04": "a zip file (as of PyTorch, Keras or NumPy), not a model of Paddle",
    b"\x89HDF": "an HDF5 file (as of Keras), not a model of Paddle",
    b"\x1f\x8b": "a gzip file; unpack it first",
    b"\x93NUMPY": "an array of NumPy, not a model; --input takes it",
}
_IR = re.compile(r"func\.func|builtin\.module|\bpd\.\w+")


@dataclass(frozen=True)
class LoadedModel:
    """A program with its parameters.

    `feed_names` and `fetch_names` are in the order of the model's inputs and outputs, empty for a
    training program. `parameters` are read-only arrays by variable name; empty when the program
    came without them.
    """

    program: Program
    feed_names: list[str]
    fetch_names: list[str]
    parameters: dict[str, Array]


def load_model(
    path: PathLike,
    params: PathLike | None = None,
    limits: Limits | None = None,
    *,
    program_only: bool = False,
) -> LoadedModel:
    """Load a model that Paddle 1.x, 2.x or 3.x saved.

    `path` is a `.pdmodel` or `.json` file or the prefix before that suffix, a folder that holds
    `__model__` or `__model__.json`, or a file with a bare serialized program. A prefix of both
    formats means the `.pdmodel`, which needs no translation. `params` is a combined parameter file
    or a folder with one file per variable, also relative to the program's folder; left out, it is
    what Paddle writes beside the program; with `program_only` none are read. Formats are recognised
    by content, never by suffix.

    Raises FormatError for files that are malformed or do not belong together, LimitError for ones
    that exceed `limits`, UnsafeError for ones that point out of their folder, UnsupportedError for
    formats that this reader does not take, and FileNotFoundError.
    """
    limits = limits or Limits()
    settle_at(Path(path))
    file = _program_file(Path(path))
    source = None
    if not program_only:
        source = _beside(file) if params is None else _given(file, Path(params))
    files = {file: limits.program_bytes}
    if source is not None and not source.is_dir():
        files[source] = limits.params_bytes
    contents = read_together(lambda: files)
    program = read_any_program(contents[file], str(file), limits)
    declare_lengths(program)
    feeds, fetches = column_names(program, "feed"), column_names(program, "fetch")
    tensors: dict[str, SavedTensor] = {}
    if source is None:
        if not program_only and (feeds or fetches):
            _refuse_missing_parameters(program, file)
    elif source.is_dir():
        beside = {file: limits.program_bytes}
        tensors, again = read_folder_with(source, stored_variables(program), beside, limits)
        if again[file] != contents[file]:  # another save since the first look
            return load_model(path, params, limits)
    else:
        tensors = _combined(contents[source], program, source, limits)
    parameters = {name: tensor.array for name, tensor in tensors.items()}
    return LoadedModel(program, feeds, fetches, parameters)


def read_any_program(
    data: bytes, source: str = "<program>", limits: Limits | None = None
) -> Program:
    """The program that the bytes of a file hold, in one of the formats of `load_model`.

    Raises as `load_model` does.
    """
    limits = limits or Limits()
    if _PICKLE.match(data):
        raise UnsupportedError(
            f"{source}: this is a pickle (.pdparams, .pdopt, paddle.save), not a program; "
            "give the path of the .pdmodel, .json or __model__ file"
        )
    if not _JSON.match(data):
        try:
            return read_program(data, source, limits)
        except FormatError:
            kind = _other_kind(data)
            if kind is None:
                raise
            raise UnsupportedError(f"{source}: this is {kind}") from None
    # the importer itself imports records from this package
    from graphopt.ir.formats.pir import import_pir

    program = import_pir(read_pir(data, source, limits))
    check_program(program, source, limits)
    return program


def _other_kind(data: bytes) -> str | None:
    """The kind of a file that is no program, with a remedy; None for damaged programs."""
    for start, kind in _KINDS.items():
        if data.startswith(start):
            return kind
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    is_plain = all(character.isprintable() or character in "\t\r\n\f" for character in text)
    if not text or not is_plain:
        return None
    if _IR.search(text):
        return "a program as text, which graphopt-opt reads, not a saved model"
    return (
        "a text file, not a saved model; graphopt run SCRIPT.py runs a script, whose name ends "
        "with .py"
    )


def _program_file(path: Path) -> Path:
    # Paddle 3 takes the .json where both are there. They hold one network with the same numbers,
    # and graphopt has its operators by the names of the .pdmodel.
    in_folder = [path / "__model__", path / "__model__.json"] if path.is_dir() else [path]
    candidates = [*in_folder, *(Path(f"{path}{suffix}") for suffix in (".pdmodel", ".json"))]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise MissingModelError(f"no model: looked for {', '.join(map(str, candidates))}")


def _beside(file: Path) -> Path | None:
    """The path of Paddle's parameters for a program file; None without such a file."""
    if file.name in ("__model__", "__model__.json"):
        combined = file.with_name("__params__")
        return combined if combined.exists() else file.parent
    prefix = str(file).removesuffix(".pdmodel").removesuffix(".json")
    combined = Path(f"{prefix}.pdiparams")
    return combined if combined.exists() else None


def _given(file: Path, params: Path) -> Path:
    for candidate in (params, file.parent / params):
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"no parameters at {params}, nor at {file.parent / params}")


def _refuse_missing_parameters(program: Program, file: Path) -> None:
    stored = stored_variables(program)
    if stored:
        raise FormatError(
            f"{file}: expected a parameter file beside it for the program's {len(stored)} stored "
            f"variables ({quote(stored[0].name)} ...), found none; pass it as params"
        )


def _combined(
    data: bytes, program: Program, source: Path, limits: Limits
) -> dict[str, SavedTensor]:
    if _PICKLE.match(data):
        raise UnsupportedError(
            f"{source}: this is a pickle (.pdparams), not a file of tensors; give the .pdiparams "
            "file that save_inference_model or jit.save wrote"
        )
    return read_combined(data, stored_variables(program), str(source), limits)
