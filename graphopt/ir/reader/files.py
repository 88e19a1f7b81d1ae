"""Files: reading one of bounded size, finding a variable's in its folder, writing without loss."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterable, Mapping
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


def write_files(contents: Mapping[Path, Iterable[bytes | memoryview]]) -> None:
    """Write files whole or not at all: the old ones stay until the new ones are on the disk.

    Each is written under another name in its folder, flushed to the device, and renamed, in the
    order given, once all are complete. Raises the usual OSError, and then leaves nothing behind.
    """
    done: dict[Path, Path] = {}
    try:
        for path, pieces in contents.items():
            target = Path(os.path.realpath(path))  # a link keeps pointing to the file
            temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
            with temporary.open("xb") as file:
                done[temporary] = target
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
        for temporary, target in done.items():
            os.replace(temporary, target)
    except BaseException:
        for temporary in done:
            temporary.unlink(missing_ok=True)
        raise
    for folder in {target.parent for target in done.values()}:
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    """Make renames in a folder last; some systems cannot open folders, and need no such step."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
