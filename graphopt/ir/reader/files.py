"""Files: reading a whole one of bounded size, finding a variable's without leaving its folder."""

from __future__ import annotations

import stat
from pathlib import Path

from graphopt.errors import FormatError, LimitError, UnsafeError
from graphopt.ir.reader.quote import quote


def read_file(path: Path, limit: int, source: str) -> bytes:
    """The bytes of a regular file of at most `limit` bytes, which errors call `source`.

    Raises LimitError for a larger file, FormatError for a folder, pipe or device, and the usual
    OSError when there is no such file.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise FormatError(f"{source}: expected a regular file, found something else")
    if status.st_size > limit:
        raise LimitError(f"{source}: expected at most {limit} bytes, found {status.st_size}")
    with path.open("rb") as file:
        return file.read(status.st_size)


def path_of_variable(folder: Path, name: str) -> Path:
    """The file in `folder` that is named like a variable, which may contain slashes.

    Raises UnsafeError for a name that leads out of the folder, through `..` or a link.
    """
    root = folder.resolve()
    try:
        path = (root / name).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise FormatError(f"{folder}: variable {quote(name)} names no file: {error}") from None
    if path == root or not path.is_relative_to(root):
        raise UnsafeError(
            f"{folder}: expected variable {quote(name)} to be stored in the folder, "
            f"but its file would be {quote(str(path))}"
        )
    return path
