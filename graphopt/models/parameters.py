"""Parameters of an imported model: files of any kind, recognized by content, checked against it.

No code in a file is executed: graphopt's own reader reads pickles, and `.npz` is read without
pickles.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np

from graphopt.errors import FormatError, MismatchError
from graphopt.frontend.framework_io import NAME_TABLE, state_in
from graphopt.ir.formats.parameters import stored_variables
from graphopt.ir.formats.quote import quote
from graphopt.ir.program import Program, Variable
from graphopt.models.npz_reader import read_entries

Array = np.ndarray[Any, Any]

_PICKLE = re.compile(rb"\x80[\x02-\x05]")
# Entries of optimizers' state dicts that are no arrays; the program does not read them.
_NOT_ARRAYS = ("LR_Scheduler", "master_weights")


def kind_of_file(path: Path) -> str:
    """Recognize "folder", "pickle", "npz", "safetensors" or "tensors" by the first bytes."""
    if path.is_dir():
        return "folder"
    with path.open("rb") as file:
        head = file.read(9)
    if _PICKLE.match(head):
        return "pickle"
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "npz"
    # a length and a JSON object; a tensor stream starts with a zero word
    if len(head) == 9 and head[8:] == b"{" and 0 < struct.unpack("<Q", head[:8])[0] < 1 << 32:
        return "safetensors"
    return "tensors"


def read_pickles(contents: Mapping[Path, bytes], files: Iterable[Path]) -> dict[str, Any]:
    """Decode the pickles of one program from the files' contents; merge their named values."""
    given: dict[str, Any] = {}
    for file in files:
        given.update(_by_structured_name(state_in(contents[file], file)))
    return given


def read_arrays(program: Program, path: Path, kind: str) -> dict[str, Any]:
    """Read the named arrays of an `.npz` or a `.safetensors` file.

    Arrays of an `.npz`, whose packed size does not bound the unpacked one, are checked against the
    program before they are unpacked.
    """
    if kind == "npz":
        entries = read_entries(path)
        check_values(
            program, {name: entry.stand_in() for name, entry in entries.items()}, str(path)
        )
        return {name: entry.read() for name, entry in entries.items()}
    from graphopt.models.export.safetensors_file import read_safetensors

    return dict(read_safetensors(path))


def _by_structured_name(state: dict[str, Any]) -> dict[str, Any]:
    """Rename a state to variable names; `layer.state_dict()` has the layers' names and a table."""
    table = state.pop(NAME_TABLE, None)
    names = cast(dict[Any, Any], table) if isinstance(table, dict) else {}
    return {names.get(key, key): v for key, v in state.items() if key not in _NOT_ARRAYS}


def check_values(program: Program, given: Mapping[str, Any], source: str) -> dict[str, Array]:
    """Check values against the program; return read-only arrays in the order of their names.

    Raises FormatError (ValueError) when one is missing, is none of the program's stored variables,
    is no array, or has another dtype or shape than its variable declares.
    """
    declared = {variable.name: variable for variable in stored_variables(program)}
    missing = [name for name in declared if name not in given]
    if missing:
        raise FormatError(
            f"{source}: expected values for the program's {len(declared)} stored variables, found "
            f"none for {len(missing)} of them: {_some(missing)}"
        )
    unexpected = [name for name in given if name not in declared]
    if unexpected:
        raise FormatError(
            f"{source}: {len(unexpected)} names are not stored variables of the program: "
            f"{_some(unexpected)}"
        )
    return {name: read_only(_fitting(v, given[name], source)) for name, v in declared.items()}


def _some(names: Iterable[str]) -> str:
    names = sorted(map(str, names))
    return ", ".join(quote(name) for name in names[:5]) + (" ..." if len(names) > 5 else "")


def _fitting(variable: Variable, value: Any, source: str) -> Array:
    """Convert a value to the declared dtype and shape of its variable.

    NumPy files hold bfloat16 as two bytes without a type, and releases of Paddle differ on whether
    a single number, such as a learning rate, has the shape [] or [1].
    """
    where = f"{source}, variable {quote(variable.name)}"
    if isinstance(value, np.ndarray | np.generic | bool | int | float) or hasattr(
        value, "__array__"
    ):
        array = np.asarray(value)
    else:
        raise FormatError(f"{where}: expected an array, found a {type(value).__name__}")
    if not variable.has_type:
        return array
    dtype, shape = variable.dtype, variable.shape
    if dtype == "bfloat16" and (array.dtype == np.uint16 or array.dtype.str == "|V2"):
        array = array.view(dtype.numpy)
    if array.size == 1 and math.prod(shape) == 1:
        array = array.reshape(shape)
    fits = array.ndim == len(shape) and all(
        want in (-1, have) for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits or array.dtype != dtype.numpy:
        raise MismatchError(
            f"{where}: expected {dtype} {list(shape)} as the program declares, "
            f"found {array.dtype} {list(array.shape)}"
        )
    return array


def read_only(array: Array) -> Array:
    """Return a view of the array that is not writable."""
    view = array.view()
    view.flags.writeable = False
    return view
