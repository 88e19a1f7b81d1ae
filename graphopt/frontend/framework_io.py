"""Saving and loading of Python values that contain tensors (paddle.save, paddle.load).

Files are pickles as Paddle writes them, but Python's `pickle` neither writes nor reads them:
the reader builds containers, numbers and arrays, and never runs code.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import numpy as np

from graphopt.errors import FormatError, ProgramError, UnsupportedError
from graphopt.frontend.first_values import value_of
from graphopt.ir.formats.commit import is_ours, write_files
from graphopt.ir.formats.files import path_of_variable, read_one, read_together, settle_at
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.model import load_model
from graphopt.ir.formats.pickle.reader import read_first_pickle, read_pickle
from graphopt.ir.formats.pickle.writer import Named, write_pickle
from graphopt.ir.formats.protobuf.program_desc import read_program, write_program
from graphopt.ir.formats.tensor_stream import (
    SavedRows,
    read_selected_rows,
    read_tensor,
    write_selected_rows,
    write_tensor,
)
from graphopt.ir.program import Program, Variable
from graphopt.ir.program.location import caller_level
from graphopt.runtime.state.slots import SelectedRows, Slot, Tensor

NAME_TABLE = "StructuredToParameterName@@"
_BIG_TABLE = "UnpackBigParamInfor@@"
# The most bytes that Paddle stores in one array with protocols 2 and 3.
_BIG_BYTES = 2**30 - 1


def save(obj: Any, path: str | BytesIO, protocol: int = 4, **configs: Any) -> None:
    """Write a value to a file (paddle.save).

    `obj` is a Program, or consists of dicts, lists, tuples, strings, numbers, arrays and variables,
    whose values in the global scope are written. A dict of variables (`layer.state_dict()`) also
    stores their names, as Paddle's layers load them. Missing folders are created, and an existing
    file is replaced atomically. `use_binary_format` writes one tensor, or selected rows, as a
    stream.

    Raises ValueError for a path without a file name, a protocol other than 2, 3 and 4 or an unknown
    option, ScopeError for a variable without a value, ProgramError for a value of another class and
    for a container that contains itself.
    """
    options = _options(configs, "save", ("use_binary_format", "pickle_protocol"))
    _check_depth(obj)
    if not isinstance(options.get("use_binary_format", False), bool):
        raise TypeError(
            "Type of `use_binary_format` should be bool, but received "
            f"{type(options['use_binary_format'])}."
        )
    protocol = check_protocol(protocol, options)
    if options.get("use_binary_format"):
        _write(path, [_stream_of(obj)])
    elif isinstance(obj, Program):
        _write(path, [write_program(obj)])
    else:
        _write(path, write_pickle(_to_stored(obj, protocol), protocol))


def _stream_of(obj: Any) -> bytes:
    """Serialize a tensor with its sequence offsets, or selected rows, as a stream."""
    if isinstance(obj, SelectedRows):
        values = obj.get_tensor()
        if not values._is_initialized():
            raise ValueError("save(): the selected rows have no values yet; set their get_tensor()")
        return write_selected_rows(SavedRows(values.numpy(), tuple(obj.rows()), obj.height()))
    if not isinstance(obj, Variable | Slot | Tensor | np.ndarray):
        raise NotImplementedError(
            "When use_binary_format = True, `paddle.save` expected Tensor, but received "
            f"{type(obj)}."
        )
    offsets = obj.lod() if isinstance(obj, Tensor) else ()
    return write_tensor(np.asarray(_value_of(obj)), offsets)


def _check_depth(obj: Any) -> None:
    """Raise ProgramError for containers that contain themselves or are nested too deeply."""
    path: list[tuple[Any, Iterator[Any]]] = [(obj, iter(_children(obj)))]
    inside = {id(obj)}
    done: set[int] = set()
    while path:
        holder, children = path[-1]
        child = next((c for c in children if isinstance(c, dict | list | tuple)), None)
        if child is None:
            path.pop()
            inside.discard(id(holder))
            done.add(id(holder))
            continue
        child = cast(Any, child)
        kind = type(child).__name__
        if id(child) in inside:
            raise ProgramError(
                f"cannot save a {kind} that contains itself; save a copy that does not contain "
                "itself"
            )
        if len(path) > Limits().nesting:
            raise ProgramError(
                f"cannot save containers that nest deeper than {Limits().nesting}; save the inner "
                "containers separately"
            )
        if id(child) not in done:
            inside.add(id(child))
            path.append((child, iter(_children(child))))


def check_protocol(protocol: Any, options: Mapping[str, Any]) -> int:
    """Return the requested pickle protocol; raise ValueError unless it is 2, 3 or 4."""
    if options.get("pickle_protocol") is not None:
        protocol = options["pickle_protocol"]
        warnings.warn(
            "'pickle_protocol' is a deprecated argument. Please use 'protocol' instead.",
            stacklevel=caller_level(),
        )
    if not isinstance(protocol, int):
        raise ValueError(f"The 'protocol' MUST be `int`, but received {type(protocol)}")
    if protocol not in (2, 3, 4):
        raise ValueError(f"Expected 1<'protocol'<5, but received protocol={protocol}")
    return protocol


def _options(configs: Mapping[str, Any], function: str, known: tuple[str, ...]) -> dict[str, Any]:
    for key in configs:
        if key not in known:
            raise ValueError(
                f"The additional config ({key}) of `paddle.{function}` is not supported."
            )
    return dict(configs)


def _write(path: Any, pieces: Iterable[bytes | memoryview]) -> None:
    if isinstance(path, BytesIO):
        path.write(b"".join(pieces))
        return
    if not isinstance(path, str | os.PathLike):
        raise ValueError(
            f"only supports saving objects to file and `BytesIO`, but got {type(path)}"
        )
    text = os.fspath(path)
    if os.path.basename(text) == "":
        raise ValueError(
            "The input path MUST be format of dirname/filename, but received filename is empty "
            "string."
        )
    target = Path(text)
    target.parent.mkdir(parents=True, exist_ok=True)
    write_files({target: pieces})


def _value_of(obj: Any) -> np.ndarray[Any, Any]:
    """Return an array, or the value of a Variable in the global scope or of a scope's tensor."""
    if isinstance(obj, Variable):
        return value_of(obj)
    return obj if isinstance(obj, np.ndarray) else obj.numpy()


def _to_stored(obj: Any, protocol: int) -> Any:
    """Convert a value to its stored form."""
    if isinstance(obj, dict):
        items = cast(dict[Any, Any], obj)
        if any(isinstance(value, Variable) for value in items.values()):
            names = {key: v.name for key, v in items.items() if isinstance(v, Variable)}
            flat = {
                key: _value_of(v) if isinstance(v, Variable) else _map_nested(v)
                for key, v in items.items()
            }
            return split_big({**flat, NAME_TABLE: names}, protocol)
        return split_big({key: _map_nested(value) for key, value in items.items()}, protocol)
    return _map_nested(obj)


def _map_nested(obj: Any) -> Any:
    if isinstance(obj, Variable):
        return Named(obj.name, _value_of(obj))
    if isinstance(obj, Slot | Tensor):
        return obj.numpy()
    if isinstance(obj, dict):
        return {key: _map_nested(value) for key, value in cast(dict[Any, Any], obj).items()}
    if isinstance(obj, list | tuple):
        items = [_map_nested(value) for value in cast(list[Any], obj)]
        return tuple(items) if isinstance(obj, tuple) else items
    return obj


def split_big(state: dict[Any, Any], protocol: int) -> dict[Any, Any]:
    """Split the large arrays of a dict into parts, as Paddle does for protocols 2 and 3."""
    if protocol >= 4:
        return state
    parts: dict[Any, Any] = {}
    table: dict[Any, Any] = {}
    for key, value in state.items():
        if not isinstance(value, np.ndarray) or value.nbytes <= _BIG_BYTES:
            parts[key] = value
            continue
        step = _BIG_BYTES // value.dtype.itemsize
        pieces = [value.reshape(-1)[at : at + step] for at in range(0, value.size, step)]
        names = [f"{key}@@.{index}" for index in range(len(pieces))]
        table[key] = {"OriginShape": value.shape, "slices": names}
        parts.update(zip(names, pieces, strict=True))
    return {**parts, _BIG_TABLE: table} if table else parts


def join_big(state: dict[Any, Any], source: str) -> dict[Any, Any]:
    """Invert `split_big`; raise FormatError when parts are missing or do not fit."""
    table = state.pop(_BIG_TABLE, None)
    if table is None:
        return state
    try:
        used: set[str] = set()
        for key, info in table.items():
            names = info["slices"]
            if not used.isdisjoint(names) or len(set(names)) != len(names):
                raise ValueError("a part of a parameter is used twice")
            used.update(names)
            parts = [state.pop(name) for name in names]
            state[key] = np.concatenate(parts).reshape(info["OriginShape"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{source}: the table of split parameters is wrong: {error}") from None
    return state


def load(path: str | BytesIO, **configs: Any) -> Any:
    """Read a file of `save`, or of Paddle's own paddle.save or static.save (paddle.load).

    Tensors are returned as writable NumPy arrays, also with `return_numpy=False`: programs are
    static here, and layers and `set_program_state` take arrays. bfloat16 is returned as uint16, as
    stored. `path` may also be the prefix of an inference model, whose parameters are then returned,
    or a folder with one file per variable. `keep_name_table` keeps the entry
    "StructuredToParameterName@@". From a buffer, `load` reads the value at the current position and
    advances the position past it, where another `save` may have written the next value.

    Raises UnsafeError, naming the offender, for a pickle that would build objects other than dicts,
    lists, tuples, strings, numbers and arrays, FormatError (ValueError) for a malformed file, and
    ValueError when there is no such file.
    """
    known = ("model_filename", "params_filename", "keep_name_table", "return_numpy")
    options = _options(configs, "load", known)
    if not isinstance(path, BytesIO):
        settle_at(Path(path))
    start = 0
    if isinstance(path, BytesIO):
        start, source = path.tell(), "<memory>"
        data = path.read()
    elif os.path.isfile(path):
        data, source = read_one(Path(path)), str(path)
    else:
        return _load_folder(os.fspath(path), options)
    if not data.startswith(b"\x80"):
        return _load_stream(data, source)
    if isinstance(path, BytesIO):
        value, end = read_first_pickle(data, source)
        path.seek(start + end)
    else:
        value = read_pickle(data, source)
    if isinstance(value, dict):
        state = join_big(cast(dict[Any, Any], value), source)
        if NAME_TABLE in state and not options.get("keep_name_table"):
            del state[NAME_TABLE]
        value = state
    return _arrays(value, _holds_named(value, set()), {})


def load_states(paths: Sequence[Path]) -> dict[Path, dict[str, Any]]:
    """Read the dicts of arrays in `.pdparams` and `.pdopt` files of one save.

    Raises FormatError when a file holds no dict, or when the files are of different saves.
    """
    limit = Limits().params_bytes
    contents = read_together(lambda: dict.fromkeys(paths, limit))
    return {path: state_in(data, path) for path, data in contents.items()}


def state_in(data: bytes, path: Path) -> dict[str, Any]:
    """Decode the dict of arrays in the bytes of a `.pdparams` or `.pdopt` file."""
    value = read_pickle(data, str(path))
    if not isinstance(value, dict):
        raise FormatError(f"{path}: expected a dict of arrays, found a {type(value).__name__}")
    return join_big(cast(dict[str, Any], value), str(path))


def _is_named(value: Any) -> bool:
    """True for Paddle's stored form of a tensor: a pair of its name and its array."""
    return (
        isinstance(value, tuple)
        and len(cast(tuple[Any, ...], value)) == 2
        and isinstance(value[0], str)
        and isinstance(value[1], np.ndarray)
    )


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast(dict[Any, Any], value).values()
    return cast(list[Any], value) if isinstance(value, list | tuple) else ()


def _holds_named(value: Any, seen: set[int]) -> bool:
    if _is_named(value):
        return True
    if id(value) in seen:
        return False
    seen.add(id(value))
    return any(_holds_named(child, seen) for child in _children(value))


def _arrays(value: Any, named: bool, done: dict[int, Any]) -> Any:
    """Replace stored tensors in a value by arrays; objects shared in the file stay shared."""
    if id(value) in done:
        return done[id(value)]
    if named and _is_named(value):
        result: Any = np.array(value[1])
    elif isinstance(value, np.ndarray):
        result = np.array(value)
    elif isinstance(value, dict):
        items = cast(dict[Any, Any], value)
        result = {key: _arrays(child, named, done) for key, child in items.items()}
    elif isinstance(value, list | tuple):
        many = [_arrays(child, named, done) for child in cast(list[Any], value)]
        result = tuple(many) if isinstance(value, tuple) else many
    else:
        return value
    done[id(value)] = result
    return result


def _load_stream(data: bytes, source: str) -> Any:
    """Read a tensor, selected rows or a program; try each, as the formats have no magic number."""
    try:
        tensor, end = read_tensor(data, 0, source)
        if end == len(data):
            return np.array(tensor.array)
    except (FormatError, UnsupportedError):
        pass
    try:
        saved, end = read_selected_rows(data, 0, source)
        if end == len(data):
            rows = SelectedRows(saved.rows, saved.height)
            rows.get_tensor().set(np.array(saved.array))
            return rows
    except (FormatError, UnsupportedError):
        pass
    try:
        return read_program(data, source)
    except FormatError as error:
        raise FormatError(
            f"`paddle.load` can not parse the file:{source}: not a pickle of protocol 2 to 5, not "
            f"a tensor, and not a program: {error}"
        ) from None


def _load_folder(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Read the parameters of an inference model, or of a folder with one file per variable."""
    folder = Path(path)
    if not folder.is_dir() and not Path(f"{path}.pdmodel").exists():
        hint = ""
        if any(Path(path + suffix).exists() for suffix in (".pdparams", ".pdopt")):
            hint = (
                " Please specify the full file name, such as paddle.load('model.pdparams') "
                "instead of paddle.load('model')."
            )
        raise ValueError(f"The ``path`` ({path}) to load model not exists.{hint}")
    name = options.get("model_filename") or "__model__"
    if not folder.is_dir():
        return _writable(load_model(path).parameters)
    if (folder / name).exists():
        params = options.get("params_filename")
        return _writable(load_model(folder / name, params).parameters)
    return load_variable_files(folder)


def load_variable_files(folder: Path) -> dict[str, Any]:
    """Read the arrays of a folder with one tensor stream per variable, by name."""
    found: dict[str, Any] = {}
    for file, data in read_together(lambda: _files_in(folder), folder).items():
        name = file.relative_to(folder).as_posix()
        tensor, end = read_tensor(data, 0, str(file))
        if end != len(data):
            raise FormatError(
                f"{file}: byte {end}: expected the end, found {len(data) - end} bytes more"
            )
        found[name] = np.array(tensor.array)
    return found


def _files_in(folder: Path) -> dict[Path, int]:
    """List the files that may hold variables, without the files of an unfinished save."""
    files = sorted(f for f in folder.rglob("*") if f.is_file() and not is_ours(f.name))
    for file in files:
        path_of_variable(folder, file.relative_to(folder).as_posix())
    return dict.fromkeys(files, Limits().params_bytes)


def _writable(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: np.array(array) for name, array in arrays.items()}
