"""Files: read the files of one save, of bounded size, and find the file of a variable."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from graphopt.errors import FormatError, LimitError, UnsafeError
from graphopt.ir.formats.commit import pending, settle
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.quote import quote
from graphopt.ir.formats.seal import check_one_save

# The attempts to read files that another process keeps replacing.
_ATTEMPTS = 200


def read_file(path: Path, limit: int, source: str) -> bytes:
    """Read a regular file of at most `limit` bytes, which errors call `source`.

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
    """Return the file in `folder` named like a variable, whose name may contain slashes.

    Raises UnsafeError for a name that leads out of the folder, through `..` or a link.
    """
    root = folder.resolve()
    try:
        path = (root / name).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise FormatError(
            f"{folder}: the name of variable {quote(name)} is not a valid file name: {error}"
        ) from None
    if path == root or not path.is_relative_to(root):
        raise UnsafeError(
            f"{folder}: expected variable {quote(name)} to be stored in the folder, "
            f"but its file would be {quote(str(path))}"
        )
    return path


def read_together(
    find: Callable[[], Mapping[Path, int]], folder: Path | None = None
) -> dict[Path, bytes]:
    """Read files of one save, consistently even while another process saves.

    `find` lists the files with the maximum size of each, and is called again when a save happened
    meanwhile; `folder` contains them all where they are in several folders. Raises FormatError for
    files of different saves, and as `read_file`.
    """
    files: Mapping[Path, int] = {}
    for attempt in range(_ATTEMPTS):
        if attempt:
            time.sleep(min(0.002 * attempt, 0.1))
        files = find()
        folders = {Path(os.path.realpath(f)).parent for f in files}
        if folder is not None:
            folders.add(Path(os.path.realpath(folder)))
        left = _merge_parts(settle(f) for f in folders)
        places = {file: left.get(Path(os.path.realpath(file)), file) for file in files}
        try:
            before = [version_of(place) for place in places.values()]
            contents = {
                file: read_file(place, files[file], str(file)) for file, place in places.items()
            }
            # in this order: a rename after `pending` changes the versions
            is_settled = _merge_parts(pending(f) for f in folders) == left
            after = [version_of(place) for place in places.values()]
        except FileNotFoundError:
            if left or _merge_parts(pending(f) for f in folders):
                continue
            raise
        if is_settled and before == after and list(find()) == list(files):
            check_one_save(contents)
            return contents
    raise FormatError(
        f"{', '.join(map(str, list(files)[:3]))}: another save replaces these files while they are "
        "read; wait for the save to end"
    )


def read_one(path: Path, limit: int = Limits().params_bytes) -> bytes:
    """Read one file of at most `limit` bytes, from a complete save."""
    return read_together(lambda: {path: limit})[path]


def _merge_parts(parts: Iterable[dict[Path, Path]]) -> dict[Path, Path]:
    return {target: temporary for part in parts for target, temporary in part.items()}


def version_of(path: Path) -> tuple[int, ...]:
    """Return a value that changes when a file is replaced or written to."""
    status = path.stat()
    return (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


def settle_at(path: Path) -> None:
    """Complete a save that died in its renames, before files at a path are looked up."""
    folder = Path(os.path.realpath(path))
    for place in (folder, folder.parent):
        settle(place)
