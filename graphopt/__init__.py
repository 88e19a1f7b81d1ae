"""graphopt: Paddle's static-graph API as an optimising compiler; `import graphopt as paddle`.

Its names are in `__init__.pyi`; each is imported when a script first uses it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphopt.frontend import lazy as _lazy

_NAMES = _lazy.names_in(Path(__file__).with_suffix(".pyi"), __name__)
__all__ = _lazy.public(_NAMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        from graphopt.frontend.calls import published

        found = published(_lazy.load(_NAMES[name]), __name__, name)
        globals()[name] = found
        return found
    if name == "__version__":
        from graphopt.frontend.version import version

        return version()
    if not name.startswith("_"):
        from graphopt.frontend.refused import NAMES, refuse

        if name in NAMES:
            return refuse("paddle", name, NAMES)
    raise _lazy.missing(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_NAMES})
