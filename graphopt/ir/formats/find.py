"""Find the program file that a path means, and its parameters in the same folder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from graphopt.errors import MissingModelError, UnsupportedError
from graphopt.ir.formats.quote import quote

_PROGRAMS = (".pdmodel", ".json")
_PARAMETERS = (".pdiparams", ".pdparams", ".pdopt", ".pdiparams.info")
_IN_FOLDER = ("__model__", "__model__.json")
# `{"base_code": {"magic": "pir"` near the start of a JSON file; other JSON files are no models. An
# ONNX file contains its parameters; a path without suffix means an ONNX file if Paddle saved none.
_ONNX = ".onnx"
_PIR = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"(?:base_code|program)"')


def find_program(path: Path) -> Path:
    """Find the program file that `path` names.

    It is the file itself, or `path` followed by `.pdmodel` or `.json`, also where `path` is a
    parameter file; in a folder it is `__model__`, or the only model. Raises FileNotFoundError with
    the paths tried, ValueError for a folder with several models.
    """
    if path.is_dir():
        return _in_folder(path)
    stem = _without_suffix(path, _PARAMETERS)
    if stem == path and path.is_file():
        return path
    suffixed = [Path(f"{stem}{suffix}") for suffix in (*_PROGRAMS, _ONNX)]
    for candidate in suffixed:
        if candidate.is_file():
            return candidate
    is_whole = path.suffix in (*_PROGRAMS, _ONNX)
    looked = map(str, [path] if is_whole else [path, *suffixed])
    raise MissingModelError(f"no model: looked for {', '.join(looked)}")


def _without_suffix(path: Path, suffixes: Iterable[str]) -> Path:
    for suffix in suffixes:
        if path.name.endswith(suffix):
            return path.with_name(path.name.removesuffix(suffix))
    return path


def _in_folder(folder: Path) -> Path:
    for name in _IN_FOLDER:
        if (folder / name).is_file():
            return folder / name
    # one model may be saved in both formats
    models: dict[str, Path] = {}
    for suffix in _PROGRAMS:
        for file in sorted(folder.glob(f"*{suffix}")):
            if suffix == ".pdmodel" or _is_pir(file):
                models.setdefault(file.stem, file)
    if not models:
        models = {file.stem: file for file in sorted(folder.glob(f"*{_ONNX}"))}
    if len(models) == 1:
        return next(iter(models.values()))
    if models:
        raise ValueError(
            f"{folder} holds {len(models)} models; give the path of one: "
            f"{', '.join(str(folder / name) for name in sorted(models))}"
        )
    there = sorted(entry.name for entry in folder.iterdir())
    if "saved_model.pb" in there:
        raise UnsupportedError(
            f"{folder}: this is a TensorFlow model; convert the model to ONNX with tf2onnx, or "
            "save the model with Paddle"
        )
    shown = ", ".join(quote(name) for name in there[:10]) + (" ..." if len(there) > 10 else "")
    raise FileNotFoundError(
        f"no model: {folder} has neither a __model__ nor a .pdmodel, .json or .onnx program; "
        f"the folder {f'has {shown}' if shown else 'is empty'}"
    )


def is_pir(data: bytes) -> bool:
    """True for data that begin like a program of Paddle 3."""
    return _PIR.match(data[:256]) is not None


# Field 1 is the version of the format, at least 3 since 2017, and another field follows. A
# SavedModel of TensorFlow has version 1.
_ONNX_START = re.compile(rb"\x08[\x03-\x1f][\x12\x1a\x22\x28\x32\x3a\x42\x72]")


def is_onnx(data: bytes) -> bool:
    """True for data that begin like an ONNX file."""
    return _ONNX_START.match(data) is not None


def _is_pir(file: Path) -> bool:
    with file.open("rb") as opened:
        return is_pir(opened.read(256))


def find_tensors(program: Path) -> Path | None:
    """Find the tensors beside a program file: Paddle's combined file, or the folder."""
    if program.name in _IN_FOLDER:
        combined = program.with_name("__params__")
        return combined if combined.is_file() else program.parent
    tensors = Path(f"{_without_suffix(program, _PROGRAMS)}.pdiparams")
    return tensors if tensors.is_file() else None


def find_parameters(program: Path) -> list[Path]:
    """Find the parameters beside a program file: tensors, or pickles; [] without any."""
    if tensors := find_tensors(program):
        return [tensors]
    stem = _without_suffix(program, _PROGRAMS)
    pickles = [Path(f"{stem}{suffix}") for suffix in (".pdparams", ".pdopt")]
    return [file for file in pickles if file.is_file()]


def find_given(program: Path, params: Path) -> Path:
    """Find `params`, also in the program's folder; raise FileNotFoundError when neither exists."""
    candidates = dict.fromkeys((params, program.parent / params))
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise FileNotFoundError(f"no parameters at {', nor at '.join(map(str, candidates))}")
