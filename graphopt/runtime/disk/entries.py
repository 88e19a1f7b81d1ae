"""Entries on disk: bytes with their hash, in a folder that loses the least used when it is full."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

MAX_BYTES = 1 << 30
"""The bytes of a directory at most, unless `jax_compilation_cache_max_size` says otherwise."""
_HASH = 32


def read_entry(file: Path) -> bytes | None:
    """The bytes of an entry; None without one, and for a damaged one, which is removed."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    payload = content[_HASH:]
    if hashlib.sha256(payload).digest() != content[:_HASH]:
        remove_entry(file)
        return None
    with suppress(OSError):
        os.utime(file)
    return payload


def write_entry(file: Path, payload: bytes, most: int) -> bool:
    """Write an entry, whole or not at all; True when it is there.

    Its folder has `most` bytes at most.
    """
    try:
        file.parent.mkdir(exist_ok=True)
        _make_room(file.parent, len(payload), most)
        number, name = tempfile.mkstemp(dir=file.parent)
        with os.fdopen(number, "wb") as opened:
            opened.write(hashlib.sha256(payload).digest() + payload)
        Path(name).replace(file)
    except OSError:
        return False
    return True


def remove_entry(file: Path) -> None:
    """Remove an entry that nothing can be made of."""
    with suppress(OSError):
        file.unlink()


def hashed(value: object) -> str:
    """A name for a value that is written out in full."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


def _make_room(folder: Path, size: int, most: int) -> None:
    """Remove what was used least lately, where there would be too much."""
    entries = [(file.stat(), file) for file in folder.iterdir()]
    entries.sort(key=lambda entry: entry[0].st_mtime)
    size += sum(status.st_size for status, _ in entries)
    for status, file in entries:
        if size <= most:
            break
        file.unlink(missing_ok=True)
        size -= status.st_size
