"""Lazy lookup of module names at their first use (PEP 562), and errors for unknown names.

The stub beside a package, `__init__.pyi`, is the one list of its names: type checkers and editors
read it, and here it names the module of each name. A stub holds only imports and assignments of
imported names (`Tensor = Variable`).
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, MutableMapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

# (module, name in it); an empty name stands for the module itself
Source = tuple[str, str]
# (the reason for a refusal, the replacement)
Refusal = tuple[str, str]


def names_in(stub: Path, package: str) -> dict[str, Source]:
    """Parse a stub: map each public name of a package to the module that defines it."""
    found: dict[str, Source] = {}
    for node in ast.parse(stub.read_text("utf-8")).body:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                for alias in names:
                    own = module == package and (stub.parent / alias.name).exists()
                    own = own or (module == package and (stub.parent / f"{alias.name}.py").exists())
                    source = (f"{package}.{alias.name}", "") if own else (module, alias.name)
                    found[alias.asname or alias.name] = source
            case ast.Assign(targets=targets, value=ast.Name(id=other)):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                found.update(dict.fromkeys(names, found[other]))
            case _:
                pass
    return found


def names_from(stub: Path, package: str, room: str) -> dict[str, Source]:
    """Parse a stub as `names_in`; keep only the names from modules below the package `room`."""
    found = names_in(stub, package)
    return {name: source for name, source in found.items() if source[0].startswith(f"{room}.")}


def attach(
    module: MutableMapping[str, Any],
    names: Mapping[str, Source] | None = None,
    *,
    refused: Mapping[str, Refusal] | None = None,
    find: Callable[[str], Any] | None = None,
) -> None:
    """Let a module look up names at their first use, and explain the names that it lacks.

    `names` are imported, `refused` names become classes that raise UnsupportedError when called,
    and `find` may return any other name; it raises KeyError for unknown names.
    """
    own = module["__name__"]
    known = names or {}

    def look(name: str) -> Any:
        if name in known:
            from graphopt.frontend.calls import publish_object

            found = module[name] = publish_object(load(known[name]), own, name)
            return found
        if refused and name in refused:
            from graphopt.frontend.refused import refuse

            return refuse(own.replace("graphopt", "paddle", 1), name, refused)
        try:
            if find is not None:
                return find(name)
        except KeyError:
            pass
        from graphopt.frontend.missing import name_error

        raise name_error(own, name)

    module["__getattr__"] = look
    module["__dir__"] = lambda: sorted({*module, *known})
    # marks it as a package, so that imports of a missing name reach `finders.MissingNames`
    module.setdefault("__path__", list[str]())


def attach_stub(module: MutableMapping[str, Any], find: Callable[[str], Any] | None = None) -> None:
    """Attach the names of the stub beside a package, and list them in its `__all__`."""
    names = names_in(Path(module["__file__"]).with_suffix(".pyi"), module["__name__"])
    module["__all__"] = public(names)
    attach(module, names, find=find)


def join_package(module: MutableMapping[str, Any]) -> None:
    """Let a module find functions of the other modules of its package.

    Scripts import functions from Paddle's module (`paddle.tensor.math`), and here another module of
    the package may define them.
    """
    package = module["__name__"].rpartition(".")[0]

    def find(name: str) -> Any:
        found = None if name.startswith("_") else getattr(sys.modules[package], name, None)
        if not callable(found):
            raise KeyError(name)
        return found

    attach(module, find=find)


class _KeepsFunctions(ModuleType):
    """A package whose functions stay when a module of the same name is imported.

    Paddle has such pairs (`fluid.data`, `fluid.layers.rnn`), and on import, also as `paddle.…`, the
    import system would overwrite the function with the module.
    """

    def __setattr__(self, name: str, value: object) -> None:
        own = vars(self)
        is_function = callable(own.get(name)) or own["_found_later"].get(name, ("", ""))[1]
        if not (isinstance(value, ModuleType) and is_function):
            super().__setattr__(name, value)


def keep_functions(package: str, names: Mapping[str, Source] | None = None) -> None:
    """Keep the functions of a package when modules of the same names are imported.

    `names` are the package's lazy names.
    """
    module = sys.modules[package]
    vars(module)["_found_later"] = names or {}
    module.__class__ = _KeepsFunctions


def load(source: Source) -> Any:
    """Import the object of a package's name."""
    module, name = source
    found = import_module(module)
    return getattr(found, name) if name else found


def public(names: Mapping[str, Source]) -> list[str]:
    """List the names that `from package import *` imports."""
    return sorted(name for name in names if not name.startswith("_"))
