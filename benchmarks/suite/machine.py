"""The place and time of a run: the machine, its load, and the versions of all packages."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Any

from suite.process import python_of

PACKAGES = {
    "": ("graphopt", "jax", "jaxlib", "xdsl", "numpy"),
    "paddle": ("paddlepaddle", "numpy"),
    "torch": ("torch", "onnxruntime", "onnx", "numpy"),
}
ASK = (
    "import json, sys; from importlib.metadata import version; "
    "print(json.dumps({n: version(n) for n in sys.argv[1:]}))"
)


def cores() -> int:
    """Count the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe(peers: Path) -> dict[str, Any]:
    """Collect the facts by which a reader judges the numbers."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "machine": {
            "processor": processor(),
            "cores": cores(),
            "memory_gb": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30),
            "system": f"{platform.system()} {platform.machine()}",
            "load_at_start": [round(load, 2) for load in os.getloadavg()],
        },
        "python": platform.python_version(),
        "versions": {name or "ours": versions(name, peers) for name in PACKAGES},
    }


def processor() -> str:
    """Return the processor's model name."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def versions(environment: str, peers: Path) -> dict[str, str]:
    """List the package versions of an environment; empty when it is absent."""
    if not environment:
        return {name: version(name) for name in PACKAGES[environment]}
    python = python_of(environment, peers)
    if python is None:
        return {}
    done = subprocess.run(
        [python, "-c", ASK, *PACKAGES[environment]], capture_output=True, text=True, check=False
    )
    return json.loads(done.stdout) if done.returncode == 0 else {}


def version(package: str) -> str:
    """Return the version of a package here, "source" when it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "source"
