"""Reader of NumPy's `.npz` as named arrays, safe for untrusted files.

The names, shapes and element types come first, so that a caller can reject them before anything is
unpacked. Headers are matched, not evaluated as NumPy does.
"""

from __future__ import annotations

import math
import re
import struct
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np

from graphopt.errors import FormatError, LimitError
from graphopt.ir.formats.files import read_one
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.quote import quote

Array = np.ndarray[Any, Any]

_SUFFIX = ".npy"
_MAGIC = b"\x93NUMPY"
# The struct format of the header's length, by the major version of the format.
_LENGTHS = {1: "<H", 2: "<I", 3: "<I"}
_LONGEST_HEADER = 10_000
_HEADER = re.compile(
    r"\{'descr': '([<>|=]?[a-zA-Z][0-9]{0,4})', 'fortran_order': (True|False), "
    r"'shape': \(((?:[0-9]{1,20}L?,? ?)*)\),? ?\}\s*"
)
# The most bytes that Deflate expands one byte to.
_INFLATION = 1032
_PROBLEMS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    ArithmeticError,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True)
class Entry:
    """A packed array."""

    source: str
    archive: zipfile.ZipFile
    info: zipfile.ZipInfo
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_transposed: bool
    start: int

    def stand_in(self) -> Array:
        """Create an array of this shape and element type that takes no memory."""
        return np.broadcast_to(np.zeros((), self.dtype), self.shape)

    def read(self) -> Array:
        """Unpack the array; raise FormatError when its bytes are damaged."""
        with _name_errors(self.source), self.archive.open(self.info) as stream:
            stream.read(self.start)
            data = stream.read()
            array = np.frombuffer(data, self.dtype, math.prod(self.shape))
        order = "F" if self.is_transposed else "C"
        return array.reshape(self.shape, order=order)


def read_entries(path: Path) -> dict[str, Entry]:
    """Read the entries of a file by name.

    Raises FormatError, naming the file, when it is damaged or holds anything but arrays of numbers,
    LimitError when it holds more than `Limits` allow.
    """
    data = read_one(path)
    with _name_errors(str(path)):
        archive = zipfile.ZipFile(BytesIO(data))
        infos = archive.infolist()
        size = sum(info.file_size for info in infos)
        if size > Limits().params_bytes:
            raise LimitError(
                f"{path}: expected at most {Limits().params_bytes} bytes unpacked, found {size}"
            )
        entries: dict[str, Entry] = {}
        for info in infos:
            name = info.filename.removesuffix(_SUFFIX)
            if name in entries:
                raise ValueError(f"two arrays are named {quote(name)}")
            if info.file_size > _INFLATION * (info.compress_size + 1):
                raise ValueError(
                    f"array {quote(name)} has {info.compress_size} bytes in the file and declares "
                    f"{info.file_size} bytes unpacked, more than its compression can yield"
                )
            with archive.open(info) as stream:
                entries[name] = _entry(f"{path}, array {quote(name)}", archive, info, stream)
        return entries


def _entry(
    source: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo, stream: IO[bytes]
) -> Entry:
    with _name_errors(source):
        start = stream.read(8)
        if start[:6] != _MAGIC or len(start) != 8 or start[6] not in _LENGTHS:
            raise ValueError("the array has no .npy header")
        layout = _LENGTHS[start[6]]
        (length,) = struct.unpack(layout, stream.read(struct.calcsize(layout)))
        if length > _LONGEST_HEADER:
            raise ValueError(f"the header has {length} bytes, expected {_LONGEST_HEADER} at most")
        found = _HEADER.fullmatch(stream.read(length).decode("latin1"))
        if found is None:
            raise ValueError("the header does not describe an array of numbers")
        dtype = np.dtype(found[1])
        if dtype.kind not in "biufcV" or dtype.hasobject or not dtype.itemsize:
            raise ValueError(f"the array has dtype {dtype}; only numbers are supported")
        shape = tuple(int(dim.rstrip("L")) for dim in found[3].replace(",", " ").split())
        begin = 8 + struct.calcsize(layout) + length
        if begin + math.prod(shape) * dtype.itemsize != info.file_size:
            raise ValueError(
                f"the array has {info.file_size} bytes, expected "
                f"{begin + math.prod(shape) * dtype.itemsize} for {dtype} {list(shape)}"
            )
        entry = Entry(source, archive, info, dtype, shape, found[2] == "True", begin)
        entry.stand_in()
        return entry


@contextmanager
def _name_errors(source: str) -> Generator[None]:
    """Raise readers' errors on damaged bytes as FormatError with the name of the file."""
    try:
        yield
    except FormatError:
        raise
    except _PROBLEMS as error:
        text = str(error) or type(error).__name__
        raise FormatError(f"{source}: not a readable .npz file: {text}") from None
