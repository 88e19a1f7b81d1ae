"""Parameters as `.safetensors`: names and raw arrays, read by many other tools."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from graphopt.errors import FormatError, UnsupportedError
from graphopt.ir.formats.commit import write_files
from graphopt.ir.formats.files import read_one

Array = np.ndarray[Any, Any]

# element type -> its name in the format
NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "int8": "I8",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "float16": "F16",
    "bfloat16": "BF16",
    "float32": "F32",
    "float64": "F64",
    "complex64": "C64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}
_DTYPES: dict[str, Any] = {
    name: np.dtype(getattr(ml_dtypes, dtype, dtype)) for dtype, name in NAMES.items()
}


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise UnsupportedError(
            ".safetensors files need the package safetensors: pip install 'graphopt[export]'"
        ) from None


def write_safetensors(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name; an existing file is replaced atomically.

    Raises UnsupportedError for an element type that the format does not have.
    """
    write_files({path: [safetensors_bytes(arrays)]})


def safetensors_bytes(arrays: Mapping[str, Array]) -> bytes:
    """Serialize arrays by name; raise as `write_safetensors`."""
    package = _package("safetensors.numpy")
    for name, array in arrays.items():
        if array.dtype.name not in NAMES:
            raise UnsupportedError(
                f"'{name}' is {array.dtype.name}, which .safetensors does not support"
            )
    return package.save({n: np.asarray(a, order="C") for n, a in arrays.items()})


def read_safetensors(path: Path) -> dict[str, Array]:
    """Read the arrays of a file by name; raise FormatError if it is malformed."""
    package = _package("safetensors")
    data = read_one(path)
    try:
        entries = package.deserialize(data)
    except Exception as error:
        raise FormatError(f"{path}: not a readable .safetensors file: {error}") from None
    arrays: dict[str, Array] = {}
    for name, entry in entries:
        dtype = _DTYPES.get(entry["dtype"])
        if dtype is None:
            raise UnsupportedError(
                f"{path}: '{name}' is {entry['dtype']}, which NumPy does not support"
            )
        arrays[name] = np.frombuffer(entry["data"], dtype).reshape(entry["shape"])
    return arrays
