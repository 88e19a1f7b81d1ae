"""The cells of `order.py` that look at a PassContext: when a pass runs, and with which options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from graphopt.passes.table.context import PassContext
from graphopt.passes.table.flags import BUILD_FLAGS

# in place of a flag: rows for every strategy, and rows for every program, even without one
ANY_STRATEGY, ANY_PROGRAM = "any strategy", "any program"
ANY_OF_LAYERS = "any fusion of layers"

Options = Mapping[str, Any]


@dataclass(frozen=True)
class When:
    """A condition under which a pass runs, and the flag that reports name with it.

    Conditions are joined by `&` and `|` and negated by `~`; the first one names the flag.
    """

    flag: str
    holds: Callable[[PassContext], bool]

    def __and__(self, other: When) -> When:
        return When(self.flag, lambda context: self.holds(context) and other.holds(context))

    def __or__(self, other: When) -> When:
        return When(self.flag, lambda context: self.holds(context) or other.holds(context))

    def __invert__(self) -> When:
        return When(self.flag, lambda context: not self.holds(context))


# -- conditions ------------------------------------------------------------------------------------


def flag(name: str) -> When:
    """Build the condition that a flag is on and no other flag rules it out."""
    refusal = BUILD_FLAGS[name].refusal
    return When(name, lambda context: bool(context.flags.get(name)) and not refusal(context))


def on(*platforms: str) -> When:
    """Build the condition that the platform is one of these, with or without a strategy."""
    return When(ANY_PROGRAM, lambda context: context.platform in platforms)


def kernel(*libraries: str) -> When:
    """Build the condition that the devices have an attention kernel of one of these libraries."""
    return When(ANY_PROGRAM, lambda context: context.attention_kernel in libraries)


MEASURED = When(ANY_PROGRAM, lambda context: context.measure is not None and context.trainers == 1)
"""Kernels are measured on the devices; several trainers must compile alike, and follow rules."""
ASKS_FOR_KERNELS = When(ANY_PROGRAM, lambda context: context.kernels is not None)
"""A flag allows kernels other than XLA's for ops on CPUs."""


def reduces(reduction: str) -> When:
    """Build the condition that several replicas combine their gradients in this way."""
    return When(
        "reduce_strategy",
        lambda context: context.communicates and context.reduction == reduction,
    )


WITH_STRATEGY = When(ANY_STRATEGY, lambda context: bool(context.flags))
"""There is a strategy; a program without one runs as written."""
_OF_LAYERS = tuple(
    flag(name)
    for name in (
        "fused_attention", "fused_feedforward", "fuse_dot_product_attention", "fuse_gemm_epilogue",
    )
)  # fmt: skip
FUSES_LAYERS = When(ANY_OF_LAYERS, lambda context: any(when.holds(context) for when in _OF_LAYERS))
"""A flag fuses attention or linear layers, which programs may also have in other forms."""
REPLICATED = When("data parallel", lambda context: context.communicates)
"""Several replicas run the program; one device has no collectives."""
CUT = When("tensor_parallel_degree", lambda context: context.model > 1)
"""Several devices compute each replica."""
ON_ONE_DEVICE = ~(REPLICATED | CUT)
"""One device runs the program and holds all of its state."""
RECOMPUTES = When("checkpoints", lambda context: context.recompute)
"""The program names checkpoints for recomputation (RecomputeOptimizer)."""
SEVERAL_TRAINERS = When("num_trainers", lambda context: context.trainers > 1)
"""Several processes train together."""
SCALED = When(
    "gradient_scale_strategy",
    lambda context: (
        context.loss_scale == "Customized" or (context.loss_scale != "One" and context.ranks > 1)
    ),
)
"""The initial gradient of the loss is not one."""


# -- options ---------------------------------------------------------------------------------------


def no_options(context: PassContext) -> Options:
    """Return no options, for a pass with its defaults."""
    return {}


def apart(context: PassContext) -> Options:
    """Return the reason why state keeps the variables' order and shapes; "" when it may change."""
    if context.trainers > 1:
        return {"apart": "several processes synchronize their state variable by variable"}
    if context.model > 1:
        return {"apart": "with tensor_parallel_degree, each device has pieces of the parameters"}
    if context.communicates and context.reduction != "AllReduce":
        return {
            "apart": f"with reduce_strategy={context.reduction}, each replica has state of its own"
        }
    return {"apart": ""}


def rolling(context: PassContext) -> Options:
    """Set whether loops over layers compute activations again, as other ops do."""
    wanted = context.recompute or bool(context.flags.get("memory_optimize"))
    in_parts = context.communicates and context.reduction == "Reduce"
    if in_parts and context.flags.get("shard_parameters"):
        return {"recompute": wanted}  # a loop gathers the parameters of one layer at a time
    return {"recompute": wanted, **apart(context)}


def stacking(context: PassContext) -> Options:
    """Set the fewest loose parameters to stack; 0 unless a flag requests fused updates."""
    wanted = context.flags.get("fuse_adamw") or context.flags.get("fuse_all_optimizer_ops")
    return {"fewest": 8 if wanted else 0, **apart(context)}


def seed(context: PassContext) -> Options:
    """Return the seed of the derivative: a feed, or a number for each replica."""
    if context.loss_scale == "Customized":
        return {"feed": context.loss_grad}
    if context.sample_weighted and context.communicates:
        return {"coefficient": context.replicas / context.ranks, "weighted": True}
    return {"coefficient": 1.0 / context.ranks}


def library(context: PassContext) -> Options:
    """Return the devices' library of attention kernels; several trainers choose by the rules."""
    measure = context.measure if context.trainers == 1 else None
    platform = context.platform
    return {"kernel": context.attention_kernel, "platform": platform, "measure": measure}


def tried_kernels(context: PassContext) -> Options:
    """Return the forms of kernels that were tried, and the reason why there are no more."""
    return {"forms": context.kernels or (), "why": context.no_kernels}


def kind_of_device(context: PassContext) -> Options:
    """Return the platform, and the measure of its kernels; it refuses for several trainers."""
    measure = context.measure
    if measure is not None and context.trainers > 1:
        from graphopt.passes.engine.measured import refuse

        measure = refuse(
            "several trainers must compile the same program, and none measures for the others"
        )
    return {"platform": context.platform, "measure": measure}


def least_gain(context: PassContext) -> Options:
    """Return the factor of multiplications that another order of matrix products must save."""
    return {"least_gain": 2.0}


def replicas(context: PassContext) -> Options:
    """Return the number of replicas whose gradients are summed."""
    return {"replicas": context.ranks if context.data_parallel else 1}


def parts(context: PassContext) -> Options:
    """Return the number of parts of an update: one for each device of the process."""
    return {"parts": context.replicas}


def degree(context: PassContext) -> Options:
    """Return the devices of a replica, and the number of replicas whose gradients are summed."""
    return {"degree": context.model, "replicas": context.replicas}


def groups(context: PassContext) -> Options:
    """Return the group sizes that Paddle's flags set, in MB and in variables."""
    return {
        "memory_size": context.flags.get("FLAGS_fuse_parameter_memory_size", -1.0),
        "groups_size": int(context.flags.get("FLAGS_fuse_parameter_groups_size", 1)),
    }
