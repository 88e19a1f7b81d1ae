"""JAX's persistent cache in graphopt's directory, which keeps programs for later processes.

A directory that the user gave JAX, or a cache switched off, is respected.
"""

from __future__ import annotations

import functools
import threading
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from graphopt.runtime.devices.cache_place import machine_directory
from graphopt.runtime.disk.entries import MAX_BYTES

MIN_SECONDS = 0.1
"""The least seconds of tracing, lowering and compiling for a program to be saved, unless JAX's
setting differs.

A small network compiles in less than JAX's own default of a second.
"""


@functools.cache
def use_cache() -> Path | None:
    """Enable JAX's cache for programs that take it longer than MIN_SECONDS.

    Return our directory; None where the user gave JAX another one or none, and where ours is not
    writable. Only the first call has an effect.
    """
    config: Any = jax.config
    if config.jax_compilation_cache_dir is not None or not config.jax_enable_compilation_cache:
        return None
    directory = machine_directory()
    if directory is None:
        return None
    config.update("jax_compilation_cache_dir", str(directory))
    if config.jax_compilation_cache_max_size == -1:
        config.update("jax_compilation_cache_max_size", MAX_BYTES)
    if config.jax_persistent_cache_min_compile_time_secs == 1.0:  # JAX's default
        config.update("jax_persistent_cache_min_compile_time_secs", MIN_SECONDS)
    compilation_cache.reset_cache()  # JAX may have cached already that there is no cache
    return directory


def least_seconds() -> float:
    """Return JAX's setting: programs that compile in less time are not kept."""
    config: Any = jax.config
    return config.jax_persistent_cache_min_compile_time_secs


class _Found(threading.local):
    count = 0


_found = _Found()


def times_found() -> int:
    """Count the programs that this thread has loaded from JAX's cache."""
    return _found.count


def _note(event: str, **_: str | int) -> None:
    if event == "/jax/compilation_cache/cache_hits":
        _found.count += 1


jax.monitoring.register_event_listener(_note)
