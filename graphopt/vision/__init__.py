"""Image transforms of the input pipeline (paddle.vision), imported when first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphopt.vision import transforms as transforms


def __getattr__(name: str) -> Any:
    if name == "transforms":
        return importlib.import_module("graphopt.vision.transforms")
    raise AttributeError(f"module 'graphopt.vision' has no attribute '{name}'")
