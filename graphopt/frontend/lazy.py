"""Packages that import their names on first use (PEP 562).

The stub beside a package, `__init__.pyi`, is the one list of its names: type checkers and editors
read it, and here it names the module of each name. A stub holds imports and assignments of imported
names (`Tensor = Variable`), nothing else.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

# module and name in it; no name for the module itself
Source = tuple[str, str]


def names_in(stub: Path, package: str) -> dict[str, Source]:
    """The modules that the public names of a package come from."""
    found: dict[str, Source] = {}
    for node in ast.parse(stub.read_text("utf-8")).body:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                for alias in names:
                    own = module == package and (stub.parent / alias.name).exists()
                    own = own or (module == package and (stub.parent / f"{alias.name}.py").exists())
                    source = (f"{package}.{alias.name}", "") if own else (module, alias.name)
                    found[alias.asname or alias.name] = source
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Name(id=other)):
                found[name] = found[other]
            case _:
                pass
    return found


def load(source: Source) -> Any:
    """The object that a name of a package stands for."""
    module, name = source
    found = import_module(module)
    return getattr(found, name) if name else found


def missing(package: str, name: str) -> AttributeError:
    """The error for a name that a package does not have."""
    text = f"module '{package}' has no attribute '{name}'"
    return AttributeError(text, name=name, obj=sys.modules[package])


def public(names: Mapping[str, Source]) -> list[str]:
    """The names that `from package import *` takes."""
    return sorted(name for name in names if not name.startswith("_"))
