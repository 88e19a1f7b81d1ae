"""Compiled programs are kept for the next process: JAX's persistent cache, in a directory of ours.

A directory that the user gave JAX, or a cache switched off, is respected.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from graphopt.runtime.flags import cache_directory
from graphopt.runtime.machine import instructions

MAX_BYTES = 1 << 30
"""The bytes of the directory at most, unless `jax_compilation_cache_max_size` says otherwise."""
MIN_SECONDS = 0.1
"""Programs that compile faster are not kept, unless JAX's setting says otherwise.

A small network compiles in less than JAX's own default of a second.
"""


@functools.cache
def use_cache() -> Path | None:
    """Let JAX look up what it compiles, and keep what takes it longer than MIN_SECONDS.

    Returns our directory; None where the user gave JAX another one or none, and where ours cannot
    be written. Does nothing after the first call.
    """
    config: Any = jax.config
    if config.jax_compilation_cache_dir is not None or not config.jax_enable_compilation_cache:
        return None
    directory = _directory()
    if directory is None:
        return None
    config.update("jax_compilation_cache_dir", str(directory))
    if config.jax_compilation_cache_max_size == -1:
        config.update("jax_compilation_cache_max_size", MAX_BYTES)
    if config.jax_persistent_cache_min_compile_time_secs == 1.0:  # as JAX sets it
        config.update("jax_persistent_cache_min_compile_time_secs", MIN_SECONDS)
    compilation_cache.reset_cache()  # JAX may have noted already that there is none
    return directory


def least_seconds() -> float:
    """Programs that compile faster are not kept."""
    config: Any = jax.config
    return config.jax_persistent_cache_min_compile_time_secs


def most_bytes() -> int:
    """The bytes of a directory at most."""
    config: Any = jax.config
    return config.jax_compilation_cache_max_size


def _directory() -> Path | None:
    """The directory to use, made if need be; None when it is switched off or cannot be written."""
    given = cache_directory()
    if given == "":
        return None
    try:
        base = Path(given) if given else _home() / "graphopt" / "xla"
        directory = base.expanduser() / _machine()
        directory.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home directory, or not ours to write
        return None
    return directory if os.access(directory, os.W_OK | os.X_OK) else None


def _home() -> Path:
    """The user's cache directory, as the XDG specification says."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if os.path.isabs(given) else Path.home() / ".cache"


def _machine() -> str:
    """A name for this kind of processor: machines that share a directory may differ in theirs."""
    kind = f"{platform.machine()} {platform.processor()} {sorted(instructions())}"
    return hashlib.sha256(kind.encode()).hexdigest()[:12]
