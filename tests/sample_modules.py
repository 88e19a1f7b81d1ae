"""Imports every module of a folder below tests/, for tests that samples drive."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType


def modules_in(folder: str) -> dict[str, ModuleType]:
    """Import the modules below `tests/<folder>`, keyed by their path in it without `.py`, in order.

    Raise ValueError when there are none, so that a misspelled folder does not pass as an empty one.
    """
    root = Path(__file__).parent / folder
    names = sorted(path.relative_to(root).with_suffix("").as_posix() for path in root.rglob("*.py"))
    if not names:
        raise ValueError(f"there is no module in tests/{folder}")
    package = f"graphopt_tests.{folder.replace('/', '.')}"
    return {name: importlib.import_module(f"{package}.{name.replace('/', '.')}") for name in names}
