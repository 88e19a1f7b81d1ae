"""Executables on disk, found by their inputs, so that a known program is not even traced.

JAX finds its entries by a lowered program, and tracing and lowering a model take longer than
loading its executable. An entry here is found by the text of the optimized module, the types of its
arguments and all else that a trace depends on; where the program has a key (`program_key`), the key
replaces the text. Entries are stored beside JAX's, in the directory of `cache.py`, and only if that
is ours: like JAX's, they are code that is run.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from pickle import PicklingError, UnpicklingError
from typing import Any

import jax
from jax.experimental import serialize_executable

from graphopt.lowering.plan import Replicated
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.devices.places import device_of
from graphopt.runtime.disk.cache import use_cache
from graphopt.runtime.disk.directory import most_bytes
from graphopt.runtime.disk.entries import hash_value, read_entry, write_entry
from graphopt.runtime.disk.lapack import prepare_calls
from graphopt.runtime.disk.own_code import code_settings, rules_are_ours
from graphopt.runtime.disk.summaries import note_program

FOLDER = "steps"
# the arguments of a step: arrays or their types
Arguments = tuple[Any, ...]
# XLA's options
Options = Mapping[str, Any] | None


@dataclass(frozen=True)
class KnownExecutables:
    """The executables on disk of one program for given argument types, by XLA options.

    `results` has the tree structure of a step's results.
    """

    folder: Path
    name: str
    device: Any
    arguments: Arguments
    results: Any
    compiled: Compiled
    key: str | None
    """The program's key on disk; a program that has lost its key is saved no more."""

    @classmethod
    def of(
        cls, compiled: Compiled, replicated: Replicated, arguments: Arguments
    ) -> KnownExecutables | None:
        """Find the entries of a program for these argument types; None if nothing is kept.

        Nothing is kept of programs on several devices or off the CPU, programs that call Python
        (also to check numbers), and programs with rules of another package, whose code no key
        covers.
        """
        directory = use_cache()
        kept = replicated.name == "alone" and not compiled.calls_python
        if directory is None or not (kept and compiled.is_kept) or not rules_are_ours():
            return None
        device = device_of(compiled.compilation.places[0])
        if device.platform != "cpu":
            return None
        plan = compiled.plan
        parts = (
            compiled.key or compiled.text,
            [(leaf.shape, str(leaf.dtype)) for leaf in jax.tree.leaves(arguments)],
            str(jax.tree.structure(arguments)),
            (plan.steps, sorted(plan.stacked), replicated.donates, device.id),
            settings(),
        )
        results = tuple(plan.fetches), tuple(plan.written)
        structure = jax.tree.structure(results)
        folder, name = directory / FOLDER, hash_value(parts)
        return cls(folder, name, device, arguments, structure, compiled, compiled.key)

    def load(self, options: Options) -> Any:
        """Load the executable; None when none is on disk or it cannot be loaded."""
        made = read_entry(self._file(options), self._load)
        if made is not None:
            note_program(self.compiled, self.folder.parent)
        return made

    def _load(self, payload: bytes) -> jax.stages.Compiled:
        prepare_calls(payload)
        reader = _ExecutableReader(io.BytesIO(payload), self.device.client, [self.device])
        unloaded, types, no_kwargs = reader.load()
        structure = jax.tree.structure((self.arguments, {}))
        return jax.stages.Compiled(
            unloaded.load(), [], structure.unflatten(types), self.results, no_kwargs=no_kwargs
        )

    def save(self, options: Options, executable: jax.stages.Compiled) -> bool:
        """Write an executable, if JAX can serialize it; return whether it is kept."""
        try:
            payload, _, _ = serialize_executable.serialize(executable)
        except (AttributeError, NotImplementedError, PicklingError, TypeError, ValueError):
            return False
        if self.compiled.key != self.key:
            return False
        if not write_entry(self._file(options), payload, most_bytes()):
            return False
        note_program(self.compiled, self.folder.parent)
        return True

    def _file(self, options: Options) -> Path:
        return self.folder / hash_value((self.name, sorted((options or {}).items())))


class _ExecutableReader(serialize_executable._JaxPjrtUnpickler):
    """An unpickler of `jax.experimental.serialize_executable` that admits few classes.

    A pickle may name any function to call. This reader allows only the parts of an executable's
    record.
    """

    def find_class(self, module: str, name: str, /) -> Any:
        """Find a class or function; UnpicklingError if no executable has one of this name."""
        if (module, name) == ("builtins", "getattr"):  # as Python 3.11.0 pickles enums
            return _member
        if name not in _NAMES or module.partition(".")[0] not in ("jax", "jaxlib", "numpy"):
            raise UnpicklingError(f"{module}.{name} is not allowed in a pickled executable")
        return super().find_class(module, name)


def _member(owner: object, name: str) -> Enum:
    """Look up a member of an enumeration; UnpicklingError for any other attribute."""
    if isinstance(owner, type) and issubclass(owner, Enum) and name in owner.__members__:
        return owner[name]
    raise UnpicklingError(f"{owner!r}.{name} is not allowed in a pickled executable")


# the classes, and functions that construct some of them
_NAMES = frozenset(
    (
        *("AbstractMesh", "AllArgsInfo", "ArgInfo", "AutoLayoutSingleton", "DebugInfo"),
        *("DeviceList", "Layout"),
        *("ManualAxisType", "MemorySpace", "P", "PartitionSpec", "ShapedArray"),
        *("UnloadedMeshExecutable", "_unpickle_named_sharding"),
        *("_unpickle_single_device_sharding", "dtype"),
    )
)


def types_of(arguments: Arguments) -> Arguments:
    """Map arrays to their types, to lower a program without keeping the arrays alive."""

    def type_of(array: Any) -> jax.ShapeDtypeStruct:
        sharding = array.sharding if isinstance(array, jax.Array) else None
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)

    return jax.tree.map(type_of, arguments)


def settings() -> tuple[Any, ...]:
    """List the versions and settings that a trace and a compilation depend on."""
    config: Any = jax.config
    # the folder of executables and their dispatch do not change their code
    others = re.compile("cache|async_dispatch")
    values = {name: str(v) for name, v in config.values.items() if not others.search(name)}
    return *code_settings(), sorted(values.items())
