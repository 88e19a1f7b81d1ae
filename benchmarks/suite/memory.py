"""The high-water marks of this process's resident memory, and of its first device."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_bytes() -> int:
    """Read the peak; on Linux without the parent's, which `getrusage` counts before `exec`."""
    if STATUS.exists():
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def device_bytes() -> dict[str, int]:
    """Read the peak bytes of arrays on a GPU, as the framework of this process counts them."""
    found = None
    if "torch" in sys.modules:
        cuda = sys.modules["torch"].cuda
        found = cuda.max_memory_allocated() if cuda.is_available() else None
    elif "jax" in sys.modules:
        found = (sys.modules["jax"].devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    return {} if found is None else {"device_bytes": found}
