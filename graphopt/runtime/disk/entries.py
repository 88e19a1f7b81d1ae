"""Entries on disk: bytes with their digest, in a folder that drops the least recently used.

The digest covers the bytes and the entry's name, so that a file renamed to another entry is
invalid.
Entries are code that is run, or decide about it: nothing is read from a folder that other users may
write.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from graphopt.errors import FormatError
from graphopt.ir.formats.commit import is_ours, write_files
from graphopt.runtime.devices.cache_place import is_private
from graphopt.runtime.state.aside import call_aside

MAX_BYTES = 1 << 30
"""The most bytes of a directory, unless `jax_compilation_cache_max_size` is set."""
_DIGEST = 32
_SHARE = 16
_room: dict[tuple[Path, int], int] = {}
"""By folder and limit, the bytes that this process may write before it measures the folder."""

T = TypeVar("T")


def read_entry(file: Path, made_of: Callable[[bytes], T]) -> T | None:
    """Read an entry and decode its bytes with `made_of`; None without an entry.

    Remove an entry that is damaged or cannot be decoded.
    """
    return call_aside(lambda: _read(file, made_of))


def _read(file: Path, made_of: Callable[[bytes], T]) -> T | None:
    try:
        content = file.read_bytes() if is_private(file.parent) else None
    except OSError:
        return None
    if content is None:
        return None
    payload = content[_DIGEST:]
    if _digest(file, payload) != content[:_DIGEST]:
        remove_entry(file)
        return None
    with suppress(OSError):
        os.utime(file)
    try:
        return made_of(payload)
    except Exception:  # whatever the error is, a new entry replaces the bad one
        remove_entry(file)
        return None


def write_entry(file: Path, payload: bytes, most: int) -> bool:
    """Write an entry atomically; return whether that succeeded.

    Its folder holds `most` bytes at most.
    """
    return call_aside(lambda: _write(file, payload, most))


def _write(file: Path, payload: bytes, most: int) -> bool:
    try:
        file.parent.mkdir(0o700, exist_ok=True)
        if not is_private(file.parent):
            return False
        _make_room(file.parent, len(payload), most)
        write_files({file: (_digest(file, payload), payload)}, lasting=False)
    except (OSError, FormatError):
        return False
    return True


def remove_entry(file: Path) -> None:
    """Remove an entry that cannot be decoded."""
    with suppress(OSError):
        file.unlink()


def hash_value(value: object) -> str:
    """Hash the repr of a value, which must write the value in full."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _digest(file: Path, payload: bytes) -> bytes:
    return hashlib.sha256(f"{file.parent.name}/{file.name}\n".encode() + payload).digest()


def _make_room(folder: Path, size: int, most: int) -> None:
    """Remove the least recently used entries until `size` bytes fit below `most`.

    To stat many files takes longer than to write one. So this process looks again only after it has
    written a sixteenth of the free room; other processes may use the rest. They may also remove
    files meanwhile, and files that cannot be removed stay.
    """
    left = _room.get((folder, most), 0) - size
    if left >= 0:
        _room[folder, most] = left
        return
    entries: list[tuple[float, int, Path]] = []
    for file in folder.iterdir():
        with suppress(OSError):
            status = file.stat()
            entries.append((status.st_mtime, status.st_size, file))
    size += sum(each for _, each, _ in entries)
    for _, each, file in sorted(entries):
        if size <= most:
            break
        if not is_ours(file.name):  # the temporary file of a save; the next save removes it
            remove_entry(file)
            size -= each
    _room[folder, most] = (most - size) // _SHARE
