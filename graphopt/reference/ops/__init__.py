"""The reference rules, one file per family, named like the files of `ir/dialect/ops`.

Importing this fills the registry.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

for _found in walk_packages(__path__, f"{__name__}."):
    import_module(_found.name)
