"""The directory of what is kept on disk, and its size, found without importing JAX.

JAX's own settings decide about it, as the user gave them to JAX or to its environment.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from graphopt.runtime.devices.cache_place import machine_directory
from graphopt.runtime.disk.entries import MAX_BYTES

_OFF = ("0", "f", "false", "n", "no", "off")


def our_directory() -> Path | None:
    """Our directory; None where the user gave JAX another one or none, or ours is not writable."""
    if "jax" in sys.modules:
        from graphopt.runtime.disk.cache import use_cache

        return use_cache()
    is_on = os.environ.get("JAX_ENABLE_COMPILATION_CACHE", "").lower() not in _OFF
    has_other = bool(os.environ.get("JAX_COMPILATION_CACHE_DIR"))
    return machine_directory() if is_on and not has_other else None


def most_bytes() -> int:
    """The bytes of a directory at most."""
    if "jax" in sys.modules:
        import jax

        given = int(jax.config.jax_compilation_cache_max_size)  # pyright: ignore
    else:
        given = int(os.environ.get("JAX_COMPILATION_CACHE_MAX_SIZE", "-1"))
    return MAX_BYTES if given == -1 else given
