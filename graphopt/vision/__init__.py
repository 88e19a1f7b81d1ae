"""Images of the input pipeline: transforms and data sets (paddle.vision), imported when used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphopt.frontend import lazy as _lazy

_NAMES = _lazy.names_in(Path(__file__).with_suffix(".pyi"), __name__)
__all__ = _lazy.public(_NAMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return _lazy.load(_NAMES[name])
    raise _lazy.missing(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
