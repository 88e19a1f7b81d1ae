"""The sizes that processes met before, and those that one compiled; without JAX."""

from __future__ import annotations

from pathlib import Path

from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.disk.directory import most_bytes, our_directory
from graphopt.runtime.disk.entries import hashed, read_entry, write_entry
from graphopt.runtime.disk.own_code import code_settings
from graphopt.runtime.state.arrays import FedArrays

FOLDER = "seen"
_COMPILED = b"compiled"
# what this process has noted
_own: set[Path] = set()


def note_of(compiled: Compiled, fed: FedArrays) -> Path | None:
    """The note of a program with feeds of these sizes; None where nothing is kept."""
    directory = our_directory()
    if directory is None:
        return None
    types = [(array.shape, str(array.dtype)) for array in fed if not isinstance(array, list)]
    return directory / FOLDER / hashed((compiled.key or compiled.text, types, code_settings()))


def came_before(note: Path | None) -> bool:
    """True when another process has asked this. Where nothing can be written, none has."""
    if note is None or note in _own:
        return False
    if read_entry(note, len) is not None:
        return True
    _own.add(note)
    write_entry(note, b"", most_bytes())
    return False


def was_compiled(note: Path | None) -> bool:
    """True when the full form for these sizes was kept."""
    return note is not None and read_entry(note, bytes) == _COMPILED


def note_compiled(note: Path | None) -> None:
    """The full form for these sizes is kept."""
    if note is not None and not was_compiled(note):
        write_entry(note, _COMPILED, most_bytes())
