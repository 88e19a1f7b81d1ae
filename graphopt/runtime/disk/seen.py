"""Notes of feed sizes that processes meet: NumPy's seconds, or that XLA compiled; no JAX."""

from __future__ import annotations

from pathlib import Path

from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.disk.directory import most_bytes, our_directory
from graphopt.runtime.disk.entries import hash_value, read_entry, write_entry
from graphopt.runtime.disk.own_code import code_settings
from graphopt.runtime.state.arrays import FedArrays

FOLDER = "seen"
_COMPILED = b"compiled"


def note_of(compiled: Compiled, fed: FedArrays) -> Path | None:
    """Return the note file of a program with these feed sizes; None where nothing is kept."""
    directory = our_directory()
    if directory is None:
        return None
    types = [(array.shape, str(array.dtype)) for array in fed if not isinstance(array, list)]
    return directory / FOLDER / hash_value((compiled.key or compiled.text, types, code_settings()))


def seconds_before(note: Path | None) -> float:
    """Read the seconds that NumPy took for these sizes in earlier processes, 0 if none."""
    return (None if note is None else read_entry(note, _seconds)) or 0.0


def _seconds(payload: bytes) -> float:
    return 0.0 if payload == _COMPILED else float(payload)


def note_seconds(note: Path, seconds: float) -> None:
    """Write the seconds that NumPy has taken for these sizes in all processes."""
    write_entry(note, repr(seconds).encode(), most_bytes())


def was_compiled(note: Path | None) -> bool:
    """Return whether the full form for these sizes was kept."""
    return note is not None and read_entry(note, bytes) == _COMPILED


def note_compiled(note: Path | None) -> None:
    """Note that the full form for these sizes is kept."""
    if note is not None and not was_compiled(note):
        write_entry(note, _COMPILED, most_bytes())
