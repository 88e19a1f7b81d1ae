"""Imports of packages that may be missing (paddle.utils.lazy_import)."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


def try_import(module_name: str, err_msg: str | None = None) -> ModuleType:
    """Import a module; ImportError with `err_msg`, or with advice (utils.try_import)."""
    try:
        return import_module(module_name)
    except ImportError:
        package = "opencv-python" if module_name == "cv2" else module_name.partition(".")[0]
        advice = f"cannot import {module_name}; `pip install {package}` may help"
        raise ImportError(err_msg or advice) from None
