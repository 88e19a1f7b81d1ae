"""The programs and feeds that processes met before; JAX is not imported to look them up."""

from __future__ import annotations

from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.disk.directory import most_bytes, our_directory
from graphopt.runtime.disk.entries import hashed, read_entry, write_entry
from graphopt.runtime.disk.own_code import code_settings
from graphopt.runtime.state.arrays import FedArrays

FOLDER = "seen"
# what this process has noted
_own: set[str] = set()


def came_before(compiled: Compiled, fed: FedArrays) -> bool:
    """True when another process has asked this. Where nothing can be written, none has."""
    directory = our_directory()
    if directory is None:
        return False
    types = [(array.shape, str(array.dtype)) for array in fed if not isinstance(array, list)]
    name = hashed((compiled.key or compiled.text, types, code_settings()))
    if name in _own:
        return False
    file = directory / FOLDER / name
    if read_entry(file, len) is not None:
        return True
    _own.add(name)
    write_entry(file, b"", most_bytes())
    return False
