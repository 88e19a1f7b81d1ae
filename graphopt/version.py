"""The version of Paddle whose names a script uses (paddle.version); outside a script, graphopt's.

`full_version`, `major`, `minor`, `patch` and `rc` are text.
"""

from __future__ import annotations

from graphopt.frontend import lazy
from graphopt.frontend.version import OWN, version

rc = "0"
istaged = True
commit = f"graphopt-{OWN}"
with_mkl = "OFF"
_PARTS = ("major", "minor", "patch")


def _find(name: str) -> str:
    """Return the version or a part of it; KeyError for another name."""
    if name == "full_version":
        return version()
    parts: dict[str, str] = dict(zip(_PARTS, version().split("."), strict=True))
    return parts[name]


def show() -> None:
    """Print the version and its parts (paddle.version.show)."""
    print("full_version:", version())
    for name in _PARTS:
        print(f"{name}:", _find(name))
    print("rc:", rc)
    for library in ("cuda", "cudnn"):
        print(f"{library}:", "False")


def mkl() -> str:
    """Return OFF: XLA brings its own libraries for products."""
    return with_mkl


def cuda() -> str:
    """Return False: only JAX is compiled for CUDA here (paddle.version.cuda)."""
    return "False"


def cudnn() -> str:
    """Return False: only JAX is compiled for cuDNN here (paddle.version.cudnn)."""
    return "False"


lazy.attach(globals(), find=_find)
