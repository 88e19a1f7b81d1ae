"""Passes by name: what `-p` accepts, each loaded on first use.

Other packages add passes in two ways: an entry point of the group `graphopt.passes`, which is
found without importing the package, or `register_pass` in code that runs anyway.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, TypeVar

from graphopt.errors import PassError
from graphopt.passes.table.order import ROWS

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

GROUP = "graphopt.passes"
Loader = Callable[[], "type[ModulePass]"]
P = TypeVar("P", bound="type[ModulePass]")

# the passes of xDSL that make sense for our programs: pass name -> (module, class)
_XDSL = {
    "canonicalize": ("canonicalize", "CanonicalizePass"),
    "dce": ("dead_code_elimination", "DeadCodeElimination"),
}
APART = {"keep-caches": ("graphopt.passes.padding.growing", "KeepCaches")}
"""Passes outside of the table: the runtime applies them where the feeds show that they help."""
XDSL_PASSES = {
    "canonicalize": "Apply the canonicalization patterns of all ops.",
    "dce": "Remove ops without readers.",
}
"""The same passes of xDSL, with their effects."""
_registered: dict[str, type[ModulePass]] = {}


def own_passes() -> dict[str, Loader]:
    """Map the names of the table's passes to their loaders."""
    return {row.pass_name: row.load for row in ROWS}


def all_passes() -> dict[str, Loader]:
    """Map the names of graphopt's, xDSL's and added passes to their loaders.

    Only xDSL's passes that make sense on graphopt's programs are included. Raise PassError, naming
    the entry point, for one that takes the name of a built-in pass.
    """
    found = own_passes()
    found |= {name: _loader(f"xdsl.transforms.{m}", c) for name, (m, c) in _XDSL.items()}
    found |= {name: _loader(module, c) for name, (module, c) in APART.items()}
    taken = frozenset(found)
    for point in plugin_points():
        if point.name in taken:
            raise PassError(f"the entry point {_origin(point)} takes the name of a built-in pass")
        found[point.name] = _entry_loader(point)
    for name, added in _registered.items():
        found[name] = _constant(added)
    return found


def plugin_points() -> tuple[EntryPoint, ...]:
    """List the entry points of other packages; they are read again only when packages change."""
    return _read_points(tuple((folder, _changed_at(folder)) for folder in sys.path))


@lru_cache(maxsize=1)
def _read_points(path: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))


def _changed_at(folder: str) -> int:
    """Return the time at which a folder of `sys.path` last changed; 0 if it cannot be read."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


def register_pass(added: P) -> P:
    """Register a pass class by its `name`, for `graphopt-opt -p` and others (a class decorator).

    Raise PassError when the name is missing or taken by a built-in pass or another class.
    """
    name = getattr(added, "name", None)
    if not isinstance(name, str):
        raise PassError(f"{added.__qualname__} needs a class attribute `name`, a string")
    other = _registered.get(name)
    if name in {*own_passes(), *_XDSL, *APART} or (other is not None and not _same(other, added)):
        raise PassError(f"a pass named '{name}' exists already; give {added.__qualname__} another")
    _registered[name] = added
    return added


def _same(a: type[ModulePass], b: type[ModulePass]) -> bool:
    """True for one class, or for two versions of it when a module is loaded again."""
    return (a.__module__, a.__qualname__) == (b.__module__, b.__qualname__)


def _origin(point: EntryPoint) -> str:
    package = f" of {point.dist.name}" if point.dist is not None else ""
    return f"{GROUP}: {point.name} = {point.value}{package}"


def _entry_loader(point: EntryPoint) -> Loader:
    def load() -> type[ModulePass]:
        from xdsl.passes import ModulePass

        try:
            found = point.load()
        except Exception as error:
            raise PassError(f"the entry point {_origin(point)} does not load: {error}") from error
        if not isinstance(found, type) or not issubclass(found, ModulePass):
            raise PassError(
                f"the entry point {_origin(point)} is not a subclass of xdsl's ModulePass"
            )
        if found.name != point.name:
            raise PassError(
                f"the entry point {_origin(point)} loads a pass named '{found.name}'; "
                "the two names have to agree"
            )
        return found

    return load


def _constant(added: type[ModulePass]) -> Loader:
    return lambda: added


def _loader(module: str, name: str) -> Callable[[], type[ModulePass]]:
    def load() -> type[ModulePass]:
        return getattr(import_module(module), name)

    return load
