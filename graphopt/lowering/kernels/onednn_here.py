"""The builds of jaxlib in which oneDNN is known to run its custom calls; without JAX."""

from __future__ import annotations

import functools
import platform
import sys
from importlib.metadata import version

from graphopt.lowering.kernels.processor import instructions, limit_of_half

JAXLIBS = ("0.10.2", "0.12.0.1")


@functools.cache
def why_not_here() -> str:
    """Return the reason why this machine has no oneDNN kernels; "" where it may have them."""
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        return f"jaxlib has oneDNN on Linux on x86, not on {sys.platform} on {platform.machine()}"
    if version("jaxlib") not in JAXLIBS:
        return f"it was seen to work in jaxlib {', '.join(JAXLIBS)}, here is {version('jaxlib')}"
    return ""


@functools.cache
def why_not_half() -> str:
    """Return the reason why oneDNN has no bfloat16 products here; "" where it may have them.

    Without the instructions oneDNN ends the process.
    """
    if reason := why_not_here():
        return reason
    if not instructions() & {"avx512_bf16", "amx_bf16"}:
        return "the processor has no instructions for bfloat16"
    if limit := limit_of_half():
        return f"{limit} keeps oneDNN from the instructions for bfloat16"
    return ""
