"""Operators, by Paddle's own types, as `pd` ops: `table.py` says most, the other files the rest.

Importing this fills the registry.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _found in iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")
