"""Programs of Paddle 3 (PIR) as Programs with Paddle's legacy operators.

Importing this fills the registry.
"""

from importlib import import_module
from pkgutil import iter_modules

from graphopt.ir.formats.pir.importer import import_pir as import_pir

for _found in iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")
