"""The directory of what is kept for other processes on machines of this kind."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path

from graphopt.lowering.kernels.processor import instructions
from graphopt.runtime.settings.flags import cache_directory


def machine_directory() -> Path | None:
    """The directory, made if need be; None when it is switched off or cannot be written."""
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
