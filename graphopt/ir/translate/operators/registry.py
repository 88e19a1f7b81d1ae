"""Translations of operators that a row of `table.py` cannot describe, by operator type.

The package imports the files that enter them.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import SSAValue

Special = Callable[..., dict[str, SSAValue]]
"""(translator, operator) -> the values of the names that the operator writes."""

SPECIAL: dict[str, Special] = {}
