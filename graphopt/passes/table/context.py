"""The facts that rows of the pass table may look at: flags, replicas and the kind of device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

    from graphopt.passes.engine.measured import Measure

Flags = Mapping[str, Any]
TF32, FLOAT32 = "TF32", "float32"


@dataclass(frozen=True)
class PassContext:
    """The facts that a row may look at: the flags by name, and the replicas."""

    flags: Flags
    asked: frozenset[str] = frozenset()
    """The flags that the user has set; `explain` reports only these when they have no effect."""
    replicas: int = 1
    """The number of replicas of a process, over which state is sharded."""
    data_parallel: bool = False
    loss_grad: str = ""
    sample_weighted: bool = False
    """True if replicas are weighted by their rows."""
    platform: str = ""
    """The platform of the run: cpu, gpu or tpu; empty for a program that may run anywhere."""
    precision: str = ""
    """The precision of float32 products on GPUs: TF32 or FLOAT32."""
    attention_kernel: str = ""
    """The library with an attention kernel for the devices: cudnn, pallas, or empty."""
    measure: Measure | None = None
    """Measures kernels on GPUs and TPUs; None where passes follow their own rules."""
    kernels: tuple[str, ...] | None = None
    """The forms of oneDNN kernels that were tried on this machine; None for no such kernels."""
    no_kernels: str = ""
    """The reason why `kernels` has no other forms."""
    recompute: bool = False
    """True if the program itself requests recomputation of activations in derivatives."""
    without: frozenset[str] = frozenset()
    """The names of the passes to skip."""
    added: tuple[ModulePass, ...] = ()
    """Passes outside of the table."""

    @property
    def trainers(self) -> int:
        """The number of processes that train together."""
        return int(self.flags.get("num_trainers", 1))

    @property
    def model(self) -> int:
        """The number of devices of a replica, which have pieces of its parameters."""
        return int(self.flags.get("tensor_parallel_degree", 1)) if self.data_parallel else 1

    @property
    def ranks(self) -> int:
        """The number of gradients that are averaged: devices times trainers."""
        return self.replicas * self.trainers

    @property
    def communicates(self) -> bool:
        """True when several replicas run one program, here or in several processes."""
        return self.data_parallel and self.ranks > 1

    @property
    def reduction(self) -> str:
        """The name of the reduce strategy; where a process has one device, there are no parts."""
        if self.asked_to_share:
            return "AllReduce" if self.data_parallel and self.replicas == 1 else "Reduce"
        return getattr(self.flags.get("reduce_strategy"), "name", "AllReduce")

    @property
    def asked_to_share(self) -> bool:
        """True when the devices of a process are to share updates, or parameters too."""
        reduces = getattr(self.flags.get("reduce_strategy"), "name", "") == "Reduce"
        return reduces or bool(self.flags.get("shard_parameters"))

    @property
    def loss_scale(self) -> str:
        """The name of the strategy for the scale of the loss gradient."""
        return getattr(self.flags.get("gradient_scale_strategy"), "name", "CoeffNumDevice")

    def alone(self) -> PassContext:
        """Copy the context for one replica, which needs no collectives."""
        return replace(self, replicas=1, data_parallel=False)

    def quiet(self) -> PassContext:
        """Copy the context without graph files, for a run that is only inspected.

        A program without a strategy stays one: it has no flags, and fewer passes.
        """
        if "debug_graphviz_path" not in self.flags:
            return self
        return replace(self, flags={**self.flags, "debug_graphviz_path": ""})
