"""The version of Paddle whose names a script uses (paddle.version); outside of one, graphopt's.

`full_version`, `major`, `minor`, `patch` and `rc` are text.
"""

from __future__ import annotations

from graphopt.frontend.version import OWN, version

rc = "0"
istaged = True
commit = f"graphopt-{OWN}"
with_mkl = "OFF"
_PARTS = ("major", "minor", "patch")


def __getattr__(name: str) -> str:
    if name == "full_version":
        return version()
    if name in _PARTS:
        return version().split(".")[_PARTS.index(name)]
    raise AttributeError(f"module 'graphopt.version' has no attribute '{name}'")


def show() -> None:
    """Print the version and its parts (paddle.version.show)."""
    print("full_version:", version())
    for name in _PARTS:
        print(f"{name}:", __getattr__(name))
    print("rc:", rc)
    for library in ("cuda", "cudnn"):
        print(f"{library}:", "False")


def mkl() -> str:
    """OFF: XLA brings what it multiplies with."""
    return with_mkl


def cuda() -> str:
    """False: what is compiled for CUDA here is JAX (paddle.version.cuda)."""
    return "False"


def cudnn() -> str:
    """False: what is compiled for cuDNN here is JAX (paddle.version.cudnn)."""
    return "False"
