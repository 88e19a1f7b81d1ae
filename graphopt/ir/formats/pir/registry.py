"""Operators of PIR that a row of the tables cannot describe, by name.

The package imports the file that enters them.
"""

from __future__ import annotations

from collections.abc import Callable

Handler = Callable[..., None]
"""(importer, operator): appends what the operator becomes."""

SPECIAL: dict[str, Handler] = {}
