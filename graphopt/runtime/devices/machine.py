"""The kind of machine that executables are for: instructions of the processor, and the compiler."""

from __future__ import annotations

import functools
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

# Words of /proc/cpuinfo that name instructions of x86. Others name what a kernel or a microcode
# does, and differ between machines that run the same code.
_INSTRUCTIONS = (
    *("sse", "ssse3", "avx", "amx", "fma", "f16c", "bmi", "adx", "aes", "vaes", "sha", "abm"),
    *("pclmul", "vpclmul", "gfni", "popcnt", "movbe", "xop", "tbm", "cx16", "lahf", "pni"),
    *("clflush", "clwb", "rdrand", "rdseed", "prefetchw", "3dnow", "movdir", "sm3", "sm4"),
)


class Machine(NamedTuple):
    """Everything that XLA's executables depend on but the device."""

    processor: str
    instructions: frozenset[str]
    compiler: str

    def runs(self, other: Machine) -> str:
        """The reason why this machine does not run executables of another one, "" if it does."""
        if self.compiler != other.compiler:
            return f"it was compiled by {other.compiler}, here is {self.compiler}"
        if self.processor != other.processor:
            return f"it is for {other.processor}, here is {self.processor}"
        if lacking := sorted(other.instructions - self.instructions):
            return f"the processor has no {', '.join(lacking)}"
        return ""

    def record(self) -> dict[str, Any]:
        """The machine as JSON has it."""
        return {**self._asdict(), "instructions": sorted(self.instructions)}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Machine:
        """The machine of a record; whatever a malformed one leads to is raised."""
        names = frozenset(map(str, record["instructions"]))
        return cls(str(record["processor"]), names, str(record["compiler"]))


def this_machine(device: Any) -> Machine:
    """The machine and the compiler of a JAX device."""
    client = device.client
    compiler = f"jaxlib {version('jaxlib')} for {client.platform} ({client.platform_version})"
    if client.platform == "cpu":
        return Machine(platform.machine(), instructions(), compiler)
    return Machine(device.device_kind, frozenset(), compiler)


@functools.cache
def instructions() -> frozenset[str]:
    """The sets of instructions of the processor, by their names in Linux; none elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return frozenset()
    found = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    words = found.partition(":")[2].split()
    if found.startswith("flags"):
        words = [word for word in words if word.startswith(_INSTRUCTIONS)]
    return frozenset(words)
