"""Executables on disk by what they are made of, so that a known program is not even traced.

JAX finds what it has on disk by a lowered program, and tracing and lowering a model take longer
than loading its executable. An entry here is found by the text of the optimised module, the types
of its arguments and all else that a trace depends on; where the program has a key (`program_key`),
by that in place of the text. Entries are beside JAX's, in the directory
of `cache.py`, and only where that is ours: like JAX's, they are code that is run.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from pickle import PicklingError
from typing import Any

import jax
from jax.experimental import serialize_executable

from graphopt.lowering.cores import CORES
from graphopt.lowering.plan import Replicated
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.devices.places import device_of
from graphopt.runtime.disk.cache import most_bytes, use_cache
from graphopt.runtime.disk.entries import hashed, read_entry, remove_entry, write_entry
from graphopt.runtime.disk.lapack import prepare_calls

FOLDER, SEEN = "steps", "seen"
# arrays, or their types, as a step takes them
Arguments = tuple[Any, ...]
# of XLA
Options = Mapping[str, Any] | None


@dataclass(frozen=True)
class Known:
    """The executables on disk of one program for certain arguments, by the options of XLA.

    `results` has the structure of what a step returns.
    """

    folder: Path
    name: str
    device: Any
    arguments: Arguments
    results: Any
    compiled: Compiled
    key: str | None
    """The key that the program had; one that has lost it is kept no more."""

    @classmethod
    def of(cls, compiled: Compiled, replicated: Replicated, arguments: Arguments) -> Known | None:
        """Those of a program for arguments of these types; None where nothing is kept.

        Nothing is kept of programs over several devices, of those that call Python (to check
        numbers, too), or with rules from elsewhere, whose code this does not know.
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
        folder, name = directory / FOLDER, hashed(parts)
        return cls(folder, name, device, arguments, structure, compiled, compiled.key)

    def load(self, options: Options) -> Any:
        """The executable; None when there is none, or none that can be loaded."""
        file = self._file(options)
        payload = read_entry(file)
        if payload is None:
            return None
        prepare_calls(payload)
        try:
            made = serialize_executable.deserialize_and_load(
                payload,
                jax.tree.structure((self.arguments, {})),
                self.results,
                backend="cpu",
                execution_devices=[self.device],
            )
        except Exception:  # whatever it is, compiling again makes a good one
            remove_entry(file)
            return None
        self._note()
        return made

    def save(self, options: Options, executable: jax.stages.Compiled) -> None:
        """Keep an executable, if JAX can write it and there is room on the disk."""
        try:
            payload, _, _ = serialize_executable.serialize(executable)
        except (AttributeError, NotImplementedError, PicklingError, TypeError, ValueError):
            return
        if self.compiled.key != self.key:
            return
        if write_entry(self._file(options), payload, most_bytes()):
            self._note()

    def came_before(self) -> bool:
        """True when a process has asked this before. Where nothing can be written, none has."""
        file = self.folder.parent / SEEN / self.name
        if read_entry(file) is not None:
            return True
        write_entry(file, b"", most_bytes())
        return False

    def _note(self) -> None:
        if self.compiled.note is not None:
            self.compiled.note(self.compiled)

    def _file(self, options: Options) -> Path:
        return self.folder / hashed((self.name, sorted((options or {}).items())))


def types_of(arguments: Arguments) -> Arguments:
    """The types of arrays, to lower a program for them; nothing keeps the arrays then."""

    def type_of(array: Any) -> jax.ShapeDtypeStruct:
        sharding = array.sharding if isinstance(array, jax.Array) else None
        return jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding)

    return jax.tree.map(type_of, arguments)


def rules_are_ours() -> bool:
    """True unless another package has lowering rules or translations of operators.

    A registry that is not imported has none.
    """
    return all(
        _all_ours(name, len(rules))
        for name, registry in _REGISTRIES.items()
        if (rules := getattr(sys.modules.get(name), registry, None)) is not None
    )


_REGISTRIES = {
    "graphopt.lowering.registry": "RULES",
    "graphopt.ir.translate.operators.registry": "TRANSLATIONS",
}


# `count` stands for the rules: a registry only grows
@functools.lru_cache(len(_REGISTRIES))
def _all_ours(name: str, count: int) -> bool:
    rules = getattr(sys.modules[name], _REGISTRIES[name])
    return all(rule.__module__.startswith("graphopt.") for rule in rules.values())


def settings() -> tuple[Any, ...]:
    """The versions and settings that a trace and a compilation depend on."""
    config: Any = jax.config
    values = {name: str(value) for name, value in config.values.items() if "cache" not in name}
    flags = [os.environ.get(name, "") for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")]
    return _versions(), sorted(values.items()), flags, CORES


@functools.cache
def _versions() -> tuple[str, ...]:
    packages = ("jax", "jaxlib", "numpy", "ml_dtypes", "xdsl")
    return sys.version, *map(version, packages), _own_code()


def _own_code() -> str:
    """A hash of the code that makes modules and traces."""
    root, found = Path(__file__).parents[2], hashlib.sha256()
    for room in ("ir", "lowering", "passes", "runtime"):
        for folder, inner, names in os.walk(root / room):
            inner.sort()
            for name in sorted(name for name in names if name.endswith(".py")):
                found.update(f"{os.path.relpath(folder, root)}/{name}\n".encode())
                found.update(Path(folder, name).read_bytes())
    return found.hexdigest()
