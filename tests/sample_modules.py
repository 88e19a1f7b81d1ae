"""Every module of a folder below tests/, for tests that are driven by samples."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType


def modules_in(folder: str) -> dict[str, ModuleType]:
    """The modules `tests/<folder>/*.py` by file name without `.py`, in the order of their names.

    Raises ValueError when there are none, so that a misspelt folder does not pass as an empty one.
    """
    names = sorted(path.stem for path in (Path(__file__).parent / folder).glob("*.py"))
    if not names:
        raise ValueError(f"there is no module in tests/{folder}")
    package = f"graphopt_tests.{folder.replace('/', '.')}"
    return {name: importlib.import_module(f"{package}.{name}") for name in names}
