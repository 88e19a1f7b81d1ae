"""What the rows of the pipeline may look at: flags, replicas and the kind of device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

Flags = Mapping[str, Any]


@dataclass(frozen=True)
class Setup:
    """What a row may look at: the flags by name, and the replicas (None without a strategy)."""

    flags: Flags
    asked: frozenset[str] = frozenset()
    """The flags that the user has set; `explain` is silent about the others' lack of effect."""
    replicas: int = 1
    """How many replicas a process has, over which state is spread."""
    data_parallel: bool = False
    loss_grad: str = ""
    sample_weighted: bool = False
    """Replicas count by their rows."""
    platform: str = ""
    """What the program is to run on: cpu, gpu or tpu. Empty when it is to run anywhere."""
    attention_kernel: str = ""
    """Which library's kernel for attention the devices have: cudnn, pallas, or empty for none."""
    without: frozenset[str] = frozenset()
    """The names of passes to leave out."""

    @property
    def trainers(self) -> int:
        """How many processes train together."""
        return int(self.flags.get("num_trainers", 1))

    @property
    def ranks(self) -> int:
        """How many gradients are averaged: devices times trainers."""
        return self.replicas * self.trainers

    @property
    def communicates(self) -> bool:
        """True when several replicas run one program, here or in several processes."""
        return self.data_parallel and self.ranks > 1

    @property
    def reduction(self) -> str:
        """The name of the reduce strategy; where a process has one device, there are no parts."""
        name = getattr(self.flags.get("reduce_strategy"), "name", "AllReduce")
        alone = self.data_parallel and self.replicas == 1
        return "AllReduce" if name == "Reduce" and alone else name

    def quiet(self) -> Setup:
        """The same without files of graphs, for a run that is only looked at."""
        return replace(self, flags={**self.flags, "debug_graphviz_path": ""})
