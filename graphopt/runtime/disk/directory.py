"""The directory of cached files and its size limit, found without importing JAX.

JAX's own settings decide both, whether the user set them in JAX or in the environment.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from graphopt.runtime.devices.cache_place import machine_directory
from graphopt.runtime.disk.entries import MAX_BYTES

_OFF = ("0", "f", "false", "n", "no", "off")


def our_directory() -> Path | None:
    """Return our directory; None where the user gave JAX another or none, or ours is read-only."""
    if "jax" in sys.modules:
        from graphopt.runtime.disk.cache import use_cache

        return use_cache()
    is_on = os.environ.get("JAX_ENABLE_COMPILATION_CACHE", "").lower() not in _OFF
    has_other = bool(os.environ.get("JAX_COMPILATION_CACHE_DIR"))
    return machine_directory() if is_on and not has_other else None


def most_bytes() -> int:
    """Return the size limit of a directory in bytes."""
    if "jax" in sys.modules:
        import jax

        given = int(jax.config.jax_compilation_cache_max_size)  # pyright: ignore
    else:
        given = int(os.environ.get("JAX_COMPILATION_CACHE_MAX_SIZE", "-1"))
    return MAX_BYTES if given == -1 else given
