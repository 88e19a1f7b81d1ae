"""A fingerprint of the code that makes modules and executables, for keys on disk; without JAX."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from graphopt.lowering.cores import CORES


def rules_are_ours() -> bool:
    """Return whether all lowering rules and operator translations are graphopt's own.

    A registry that is not imported counts as empty.
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


# `count` identifies the rules, since a registry only grows
@functools.lru_cache(len(_REGISTRIES))
def _all_ours(name: str, count: int) -> bool:
    rules = getattr(sys.modules[name], _REGISTRIES[name])
    return all(rule.__module__.startswith("graphopt.") for rule in rules.values())


def code_settings() -> tuple[Any, ...]:
    """List the versions and settings that modules and executables depend on, except JAX's own."""
    flags = tuple(os.environ.get(name, "") for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS"))
    return _versions(), flags, CORES


@functools.cache
def _versions() -> tuple[str, ...]:
    packages = ("jax", "jaxlib", "numpy", "ml_dtypes", "xdsl")
    return sys.version, *map(version, packages), _own_code()


def _own_code() -> str:
    """Hash the code that makes modules and traces."""
    root, found = Path(__file__).parents[2], hashlib.sha256()
    for room in ("ir", "lowering", "passes", "runtime"):
        for folder, inner, names in os.walk(root / room):
            inner.sort()
            for name in sorted(name for name in names if name.endswith(".py")):
                found.update(f"{os.path.relpath(folder, root)}/{name}\n".encode())
                found.update(Path(folder, name).read_bytes())
    return found.hexdigest()
