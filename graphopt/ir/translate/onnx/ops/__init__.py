"""The rules by family. Importing this registers them."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

for _found in iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")
