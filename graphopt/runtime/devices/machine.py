"""The kind of machine that executables are for: instructions of the processor, and the compiler."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, NamedTuple

from graphopt.lowering.kernels.processor import instructions


class Machine(NamedTuple):
    """Everything that XLA's executables depend on except the device."""

    processor: str
    instructions: frozenset[str]
    compiler: str

    def runs(self, other: Machine) -> str:
        """Return why this machine cannot run executables of `other`, "" if it can."""
        if self.compiler != other.compiler:
            return f"it was compiled by {other.compiler}, but this process has {self.compiler}"
        if self.processor != other.processor:
            return f"it was compiled for {other.processor}, but this machine has {self.processor}"
        if lacking := sorted(other.instructions - self.instructions):
            return f"this processor does not support {', '.join(lacking)}"
        return ""

    def record(self) -> dict[str, Any]:
        """Encode the machine as JSON."""
        return {**self._asdict(), "instructions": sorted(self.instructions)}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Machine:
        """Decode a record; errors of a malformed one are raised unchanged."""
        names = frozenset(map(str, record["instructions"]))
        return cls(str(record["processor"]), names, str(record["compiler"]))


def this_machine(device: Any) -> Machine:
    """Describe the machine and the compiler of a JAX device."""
    client = device.client
    compiler = f"jaxlib {version('jaxlib')} for {client.platform} ({client.platform_version})"
    if client.platform == "cpu":
        return Machine(platform.machine(), instructions(), compiler)
    return Machine(device.device_kind, frozenset(), compiler)
