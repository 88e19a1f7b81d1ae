"""Load a saved model: its program in any format, and the tensors beside it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias, TypeVar

from graphopt.errors import FormatError, UnsupportedError
from graphopt.ir.formats.files import read_one, read_together, settle_at
from graphopt.ir.formats.find import find_given, find_program, find_tensors, is_onnx, is_pir
from graphopt.ir.formats.foreign import foreign_kind
from graphopt.ir.formats.graph_check import check_program, column_names
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.parameters import read_combined, read_folder_with, stored_variables
from graphopt.ir.formats.pir_json.reader import read_pir
from graphopt.ir.formats.protobuf.program_desc import read_program
from graphopt.ir.formats.quote import quote
from graphopt.ir.formats.tensor_stream import Array
from graphopt.ir.program import LENGTHS, Program
from graphopt.ir.translate.interface import data_names, output_names

PathLike: TypeAlias = str | os.PathLike[str]
T = TypeVar("T")

# Pickles start with an opcode and a protocol number; a JSON object with its first key. A newline or
# a brace alone can also begin a ProgramDesc, but a bracket cannot.
_PICKLE = re.compile(rb"\x80[\x02-\x05]")
_JSON = re.compile(rb'\[|[ \t\r\n]*\{[ \t\r\n]*"')


@dataclass(frozen=True)
class LoadedModel:
    """A program that was read from a file, with its parameters.

    `feed_names` and `fetch_names` are the model's inputs and outputs in order. The file of an
    inference model lists them. In a training program they are its data variables, and its loss
    followed by outputs that no operator reads. `parameters` are read-only arrays by variable name,
    empty when the program came without them. `content` is the bytes of the file.
    """

    program: Program = field(repr=False)
    feed_names: list[str]
    fetch_names: list[str]
    path: Path
    is_inference: bool = field(repr=False)
    content: bytes = field(repr=False)
    parameters: dict[str, Array] = field(default_factory=dict[str, Array], repr=False)

    @property
    def fed_names(self) -> list[str]:
        """The inputs, followed by the feeds with the lengths of their sequences."""
        variables = self.program.global_block().vars
        lengths = [name for name in variables if LENGTHS in name]
        of_feed = {name: f"{name}{LENGTHS}" for name in self.feed_names}
        # the feed of the innermost level has no number
        levels = [n for own in of_feed.values() for n in lengths if n.rstrip("0123456789") == own]
        return [*of_feed, *levels]


class ReplacedError(FormatError):
    """Another save replaced the program before its parameters were read."""


def load_model(
    path: PathLike, params: PathLike | None = None, limits: Limits | None = None
) -> LoadedModel:
    """Load a model that Paddle 1.x, 2.x or 3.x saved, or an ONNX file.

    `path` means a program as in `find_program`. `params` is a combined parameter file or a folder
    with one file per variable, also relative to the program's folder; the default is the file that
    Paddle writes beside the program. Formats are recognized by content, never by suffix.

    Raises FormatError for files that are malformed or do not belong together, LimitError for files
    that exceed `limits`, UnsafeError for files that point out of their folder, UnsupportedError for
    formats that this reader does not support, and FileNotFoundError.
    """

    def read() -> LoadedModel:
        loaded = load_program(path, limits)
        if loaded.parameters and params is None:
            return loaded
        file = loaded.path
        source = find_tensors(file) if params is None else find_given(file, Path(params))
        if source is None:
            refuse_missing_parameters(loaded)
            return loaded
        return replace(loaded, parameters=read_tensors(loaded, source, limits))

    return read_one_save(read)


def read_one_save(read: Callable[[], T]) -> T:
    """Read a program and then its parameters; retry when a save replaced the program between."""
    while True:
        try:
            return read()
        except ReplacedError:
            continue


def load_program(path: PathLike, limits: Limits | None = None) -> LoadedModel:
    """Load the program of `load_model` without its parameters; raises as `load_model`."""
    limits = limits or Limits()
    settle_at(Path(path))
    file = find_program(Path(path))
    return decode_model(read_one(file, _most_bytes(file, limits)), file, limits)


def _most_bytes(file: Path, limits: Limits) -> int:
    """Return the size limit of a program file; an ONNX file holds its parameters, too."""
    with file.open("rb") as opened:
        has_parameters = is_onnx(opened.read(16))
    return limits.params_bytes if has_parameters else limits.program_bytes


def decode_model(content: bytes, path: Path, limits: Limits | None = None) -> LoadedModel:
    """Decode the content of a program file; raises as `load_model`.

    `parameters` are the ones in the file itself, which only an ONNX file has.
    """
    program, parameters = _read(content, str(path), limits or Limits(), path.parent)
    feeds, fetches = column_names(program, "feed"), column_names(program, "fetch")
    block = program.global_block()
    is_inference = bool(feeds or fetches)
    if not is_inference:
        feeds, fetches = data_names(program), output_names(program)
    if any(name in block.vars and block.vars[name].lod_level for name in (*feeds, *fetches)):
        # import the operators only for a program of sequences
        from graphopt.ir.translate.operators import sequences

        sequences.declare_lengths(program, feeds)
    return LoadedModel(program, feeds, fetches, path, is_inference, content, parameters)


def read_tensors(
    loaded: LoadedModel, source: Path, limits: Limits | None = None
) -> dict[str, Array]:
    """Read the parameters of a program from a combined file, or a folder of files.

    Raises as `load_model`; ReplacedError when the program's file no longer holds this program.
    """
    limits = limits or Limits()
    stored = stored_variables(loaded.program)
    if source.is_dir():
        beside = {loaded.path: limits.program_bytes}
        tensors, contents = read_folder_with(source, stored, beside, limits)
        _check_same(loaded, contents)
    else:
        data = read_beside(loaded, [source], limits)[source]
        if _PICKLE.match(data):
            raise UnsupportedError(
                f"{source}: this is a pickle (.pdparams), not a file of tensors; give the "
                ".pdiparams file that save_inference_model or jit.save wrote"
            )
        tensors = read_combined(data, stored, str(source), limits)
    return {name: tensor.array for name, tensor in tensors.items()}


def read_beside(
    loaded: LoadedModel, sources: Iterable[Path], limits: Limits | None = None
) -> dict[Path, bytes]:
    """Read files of parameters that were saved together with a program.

    Raises FormatError for files of different saves; ReplacedError as `read_tensors`.
    """
    limits = limits or Limits()
    sizes = {loaded.path: limits.program_bytes, **dict.fromkeys(sources, limits.params_bytes)}
    contents = read_together(lambda: sizes)
    _check_same(loaded, contents)
    return contents


def _check_same(loaded: LoadedModel, contents: Mapping[Path, bytes]) -> None:
    if contents[loaded.path] != loaded.content:
        raise ReplacedError(f"{loaded.path}: another save replaced this file; load the model again")


def refuse_missing_parameters(loaded: LoadedModel) -> None:
    """Raise FormatError for an inference model that needs parameters."""
    stored = stored_variables(loaded.program)
    if stored and loaded.is_inference:
        raise FormatError(
            f"{loaded.path}: expected a parameter file next to the program for its {len(stored)} "
            f"stored variables ({quote(stored[0].name)} ...), found none; set params (--params)"
        )


def read_any_program(
    data: bytes, source: str = "<program>", limits: Limits | None = None
) -> Program:
    """Decode the program in a file's bytes, in one of the formats of `load_model`.

    Raises as `load_model` does.
    """
    return _read(data, source, limits or Limits(), None)[0]


def _read(
    data: bytes, source: str, limits: Limits, folder: Path | None
) -> tuple[Program, dict[str, Array]]:
    """Decode the program in a file of this folder, and the parameters that the file holds."""
    if is_onnx(data):
        from graphopt.ir.formats.onnx import load_onnx

        program, parameters = load_onnx(data, source, limits, folder)
        check_program(program, source, limits)
        return program, parameters
    return _read_paddle(data, source, limits), {}


def _read_paddle(data: bytes, source: str, limits: Limits) -> Program:
    if not data:
        raise FormatError(
            f"{source}: byte 0: the file is empty, expected a program; copy or save it again"
        )
    if _PICKLE.match(data):
        kind = foreign_kind(data) or (
            "a pickle (.pdparams, .pdopt, paddle.save), not a program; give the path of the "
            ".pdmodel, .json or __model__ file"
        )
        raise UnsupportedError(f"{source}: this is {kind}")
    try:
        if not _JSON.match(data):
            return read_program(data, source, limits)
        records = read_pir(data, source, limits)
    except FormatError:
        kind = None if is_pir(data) else foreign_kind(data)
        if kind is None:
            raise
        raise UnsupportedError(f"{source}: this is {kind}") from None
    # the importer itself imports records of this package
    from graphopt.ir.formats.pir import import_pir

    program = import_pir(records)
    check_program(program, source, limits)
    return program
