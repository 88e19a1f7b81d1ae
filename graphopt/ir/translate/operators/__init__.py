"""Translations of operators, by their types in Paddle, to `pd` ops: rows of a table, and rules.

Importing this fills the registry.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _found in iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")
