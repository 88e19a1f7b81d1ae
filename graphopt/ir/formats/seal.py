"""The mark that identifies the files of one save, where Paddle's formats leave room.

A pickle has it as a string that is dropped again before the end; a program and the description of a
tensor have it as a protobuf field that Paddle's schema lacks. Paddle's own readers skip both. The
mark follows from the contents of all files of the save, so the same state gives the same bytes.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from graphopt.errors import FormatError
from graphopt.ir.formats.protobuf.wire import LENGTH, tag_bytes, varint_bytes

Piece: TypeAlias = bytes | memoryview

# Placeholder for the mark in the pieces of a file; `write_files` replaces it by the save's own.
SEAL = b"0" * 32
_WORDS = b"graphopt set "
_TEXT_SIZE = len(_WORDS) + len(SEAL)
_FIELD = tag_bytes(15_000, LENGTH) + varint_bytes(_TEXT_SIZE) + _WORDS
_MARK = re.compile(_WORDS + b"([0-9a-f]{16})([0-9a-f]{16})")
# A mark is at the end of a file, or in the description of its first tensor.
_HEAD, _TAIL = 256, 64


def sealed_pickle(pieces: Iterable[Piece]) -> Iterable[Piece]:
    """Yield a pickle with room for the mark before its last opcode."""
    last: Piece = b""
    for piece in pieces:
        yield last
        last = piece
    yield bytes(last).removesuffix(b".") + b"X" + _TEXT_SIZE.to_bytes(4, "little") + _WORDS
    yield SEAL
    yield b"0."


def sealed_message(message: bytes) -> list[Piece]:
    """Add room for the mark after the last field of a serialized protobuf message."""
    return [message, _FIELD, SEAL]


def sealed_tensor(stream: bytes, levels: int = 0) -> list[Piece]:
    """Add room for the mark to a tensor stream, unless it begins with levels of offsets."""
    # version, number of levels, version of the tensor; then the size of the description
    at = 16
    if levels:
        return [stream]
    size = int.from_bytes(stream[at : at + 4], "little")
    end = at + 4 + size
    size += len(_FIELD) + len(SEAL)
    data = memoryview(stream)[end:]
    return [stream[:at] + size.to_bytes(4, "little") + stream[at + 4 : end] + _FIELD, SEAL, data]


def unsealed_message(data: bytes) -> bytes:
    """Strip the mark, which is no part of the message, from a serialized message."""
    size = len(_FIELD) + len(SEAL)
    if data[-size:].startswith(_FIELD) and _MARK.fullmatch(data, len(data) - _TEXT_SIZE):
        return data[:-size]
    return data


def names_hash(names: Iterable[str]) -> str:
    """Hash the file names of a save, for the half of a mark that identifies them."""
    text = "\0".join(sorted(names))
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


def mark_in(data: bytes) -> tuple[str, str] | None:
    """Find the mark of a file: the hash of the save's names, and the save; None without one."""
    found = _MARK.search(data[-_TAIL:]) or _MARK.search(data[:_HEAD])
    return None if found is None else (found[1].decode(), found[2].decode())


def check_one_save(contents: Mapping[Path, bytes]) -> None:
    """Raise FormatError when two files come from different saves of the same set of files.

    Files without a mark, such as Paddle's own, and files of different sets are not compared.
    """
    saves: dict[str, tuple[str, Path]] = {}
    for path, data in contents.items():
        mark = mark_in(data)
        if mark is None:
            continue
        which, save = mark
        first, other = saves.setdefault(which, (save, path))
        if first != save:
            raise FormatError(
                f"{path} and {other} belong to different saves; copy all files of one save "
                "together, or load each file separately and set its values (set_program_state, "
                "load_vars)"
            )
