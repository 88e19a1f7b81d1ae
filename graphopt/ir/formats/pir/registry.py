"""The registry of imports: a PIR operator's name -> a function that appends legacy operators.

It has the operators that a row of the tables cannot express completely. The package imports the
modules that register them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Import = Callable[..., Any]
"""(importer, operator): append the legacy operators of a PIR operator."""

IMPORTS: dict[str, Import] = {}


def imports(*names: str) -> Callable[[Import], Import]:
    """Register the decorated function as the import of operators of these names."""

    def register(function: Import) -> Import:
        for name in names:
            assert name not in IMPORTS, f"{name} has two imports"
            IMPORTS[name] = function
        return function

    return register
