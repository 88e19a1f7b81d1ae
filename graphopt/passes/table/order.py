"""The pass table: what each BuildStrategy flag means as passes, in order, and why in that place.

`select` turns a strategy's flags into the rows that apply; `passes/table/manager.py` runs them.
A pass is imported when its row applies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Any

from xdsl.passes import ModulePass

from graphopt.passes.table.conditions import (
    Condition,
    any_kernel,
    apart,
    asked,
    communicates,
    every_of,
    is_set,
    kernel,
    not_asked,
    on,
    reduces,
    scales,
    several_trainers,
    with_strategy,
)
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.registry import own_passes

EVERY_PLATFORM = ("cpu", "gpu", "tpu")

# in place of a flag: rows that run with every strategy; on a platform, with none, too
ANY_STRATEGY, ANY_PROGRAM = "any strategy", "any program"

Options = Mapping[str, Any]


class Phase(Enum):
    """When a row runs; the fusions of one program share one sweep."""

    PREPARE = "prepare"
    CLEAN = "clean"
    FUSE = "fuse"
    SHARE = "share"
    TARGET = "target"
    UPDATE = "update"
    PARALLELIZE = "parallelize"


def _no_options(context: PassContext) -> Options:
    return {}


@dataclass(frozen=True)
class Row:
    """One line of the table: `options` are the arguments of the pass, which runs `when`."""

    flag: str
    phase: Phase
    pass_name: str
    when: Condition
    why_here: str
    options: Callable[[PassContext], Options] = _no_options

    def make(self, context: PassContext) -> ModulePass | None:
        """The pass, or None where it has nothing to do."""
        if not self.when(context, self.flag):
            return None
        return own_passes()[self.pass_name]()(**self.options(context))


def _stacks_refused(context: PassContext) -> str:
    """The reason why state keeps the variables' order and shapes; empty when it may change."""
    if context.trainers > 1:
        return "several processes bring their state into line variable by variable"
    if context.communicates and context.reduction != "AllReduce":
        return f"with reduce_strategy={context.reduction} replicas have state of their own"
    return ""


def _apart(context: PassContext) -> Options:
    return {"apart": _stacks_refused(context)}


def _roll(context: PassContext) -> Options:
    return {"recompute": bool(context.flags.get("memory_optimize")), **_apart(context)}


def _stack(context: PassContext) -> Options:
    """Loose parameters are stacked, too, where a flag asks for fused updates."""
    wanted = context.flags.get("fuse_adamw") or context.flags.get("fuse_all_optimizer_ops")
    return {"fewest": 8 if wanted else 0, **_apart(context)}


def _scale(context: PassContext) -> Options:
    if context.loss_scale == "Customized":
        return {"feed": context.loss_grad}
    if context.sample_weighted and context.communicates:
        return {"coefficient": context.replicas / context.ranks, "weighted": True}
    return {"coefficient": 1.0 / context.ranks}


def _kernel(context: PassContext) -> Options:
    return {"kernel": context.attention_kernel}


def _least_gain(context: PassContext) -> Options:
    return {"least_gain": 2.0}


def _replicas(context: PassContext) -> Options:
    return {"replicas": context.ranks if context.data_parallel else 1}


def _parts(context: PassContext) -> Options:
    return {"parts": context.replicas}


def _groups(context: PassContext) -> Options:
    """The sizes that Paddle's flags give, in MB and in variables."""
    return {
        "memory_size": context.flags.get("FLAGS_fuse_parameter_memory_size", -1.0),
        "groups_size": int(context.flags.get("FLAGS_fuse_parameter_groups_size", 1)),
    }


ROWS: tuple[Row, ...] = (
    Row(
        ANY_STRATEGY,
        Phase.PREPARE,
        "fold-identity",
        with_strategy,
        "first: scales by one, which saved models have at every output, would hide patterns",
    ),
    Row(
        "sync_batch_norm",
        Phase.PREPARE,
        "sync-batch-norm",
        asked,
        "before the fusions, which leave synchronised batch norms alone, as in Paddle",
    ),
    Row(
        ANY_STRATEGY,
        Phase.CLEAN,
        "drop-dropout",
        with_strategy,
        "before the fusions: a dropout that drops nothing would stand between their ops",
    ),
    Row(
        ANY_STRATEGY,
        Phase.CLEAN,
        "fold-constants",
        with_strategy,
        "before the identities, some of which look for constants",
    ),
    Row(
        ANY_STRATEGY,
        Phase.CLEAN,
        "settle-shapes",
        with_strategy,
        "after the constants, which shapes have in them; fusions look for plain reshapes",
    ),
    Row(
        ANY_STRATEGY,
        Phase.CLEAN,
        "simplify",
        with_strategy,
        "before the fusions: what changes nothing would hide their patterns",
    ),
    Row(
        ANY_PROGRAM,
        Phase.CLEAN,
        "drop-kept-state",
        apart,
        "before the passes that look for what no step writes",
    ),
    Row(
        ANY_PROGRAM,
        Phase.CLEAN,
        "fold-batch-norm",
        apart,
        "before the fusions, which would hide batch norms; prepare-weights makes it free",
    ),
    Row(
        "fuse_relu_depthwise_conv",
        Phase.FUSE,
        "fuse-relu-depthwise-conv",
        asked,
        "first, as in Paddle: its relu may end a pattern of another fusion",
    ),
    Row(
        "fused_attention",
        Phase.FUSE,
        "fused-attention",
        asked,
        "the largest pattern: it has linear layers, the attention core, a norm and adds in it",
    ),
    Row(
        "fused_feedforward",
        Phase.FUSE,
        "fused-feedforward",
        asked,
        "two linear layers with what is around them; before they are taken one by one",
    ),
    Row(
        "fuse_dot_product_attention",
        Phase.FUSE,
        "fuse-dot-product-attention",
        asked,
        "the core of attention, where the whole of it was not taken; shares no linear layer",
    ),
    Row(
        "fuse_gemm_epilogue",
        Phase.FUSE,
        "fuse-gemm-epilogue",
        asked,
        "matmul + add + activation is a larger pattern than the add + activation in it",
    ),
    Row(
        "fuse_resunit",
        Phase.FUSE,
        "fuse-resunit",
        asked,
        "its patterns are those of the next two with a convolution in front",
    ),
    Row(
        "fuse_bn_add_act_ops",
        Phase.FUSE,
        "fuse-bn-add-act",
        asked,
        "three ops; before the pairs batch_norm + activation and add + activation in it",
    ),
    Row(
        "fuse_bn_act_ops",
        Phase.FUSE,
        "fuse-bn-act",
        asked,
        "shares no op with a linear layer; before add + activation, which may end in the same op",
    ),
    Row(
        "fuse_elewise_add_act_ops",
        Phase.FUSE,
        "fuse-elewise-add-act",
        asked,
        "last of the fusions: the smallest pattern takes what the others left",
    ),
    Row(
        ANY_STRATEGY,
        Phase.SHARE,
        "cse",
        with_strategy,
        "after the fusions: a shared value has two readers, which would stop them",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        "fuse-long-attention",
        every_of(on("cpu"), not_asked("fuse_dot_product_attention")),
        "after the fusions, which have larger patterns with attention in them",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        "fuse-cudnn-attention",
        kernel("cudnn"),
        "as fuse-long-attention, on GPUs",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        "fuse-pallas-attention",
        kernel("pallas"),
        "as fuse-long-attention, on TPUs",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        "choose-attention",
        any_kernel,
        "after what makes attention one op",
        _kernel,
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        "reassociate-matmul",
        on(*EVERY_PLATFORM),
        "after the fusions: a linear layer that was fused keeps its order",
        _least_gain,
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        "update-rows",
        on(*EVERY_PLATFORM),
        "before updates are fused, those of tables too; after sharing, which joins lookups",
        _replicas,
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        "assign-layout",
        on("cpu"),
        "after the fusions, whose ops follow a convolution as their parts would",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        "choose-convolution",
        on("cpu"),
        "any place would do: no other pass looks at how a convolution is computed",
    ),
    Row(ANY_PROGRAM, Phase.TARGET, "choose-pooling", on("cpu"), "as choose-convolution"),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        "roll-layers",
        on("cpu"),
        "after the fusions and sharing, which make layers alike and short",
        _roll,
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        "prepare-weights",
        apart,
        "after what computes with parameters: folded batch norms and turned filters",
    ),
    Row(
        "fuse_all_optimizer_ops",
        Phase.UPDATE,
        "fuse-all-optimizer-ops",
        asked,
        "after sharing, which may join learning rates; sums of gradients come later, in front",
    ),
    Row(
        "fuse_adamw",
        Phase.UPDATE,
        "fuse-adamw",
        asked,
        "as fuse_all_optimizer_ops, which has other kinds of updates",
    ),
    Row(
        ANY_PROGRAM,
        Phase.UPDATE,
        "stack-state",
        on("cpu"),
        "after fuse_adamw, whose groups it lays out; in front of sums, which are then of stacks",
        _stack,
    ),
    Row(
        ANY_PROGRAM,
        Phase.UPDATE,
        "store-filters",
        on("cpu"),
        "after assign-layout, whose convolutions read filters so, and after stacks",
        _apart,
    ),
    Row(
        "fix_op_run_order",
        Phase.UPDATE,
        "sort-ops",
        asked,
        "after what removes ops, and before what goes by the order of the ops",
    ),
    Row(
        "memory_optimize",
        Phase.UPDATE,
        "recompute-activations",
        asked,
        "after everything that changes the ops of the forward computation",
    ),
    Row(
        "enable_addto",
        Phase.UPDATE,
        "add-to",
        asked,
        "beside memory_optimize, which is about what the same derivatives read",
    ),
    Row(
        "gradient_scale_strategy",
        Phase.PARALLELIZE,
        "scale-loss-grad",
        scales,
        "the seed of the derivative, before anything is summed over replicas",
        _scale,
    ),
    Row(
        "reduce_strategy",
        Phase.PARALLELIZE,
        "all-reduce-gradients",
        reduces("AllReduce"),
        "after the derivative and before clipping and updates, which see averaged gradients",
    ),
    Row(
        "reduce_strategy",
        Phase.PARALLELIZE,
        "shard-updates",
        reduces("Reduce"),
        "instead, with Reduce; after the fused updates, whose parts it computes",
        _parts,
    ),
    Row(
        "fuse_all_reduce_ops",
        Phase.PARALLELIZE,
        "fuse-all-reduce-ops",
        every_of(reduces("AllReduce"), is_set),
        "after the sums that it joins",
        _groups,
    ),
    Row(
        "fuse_broadcast_ops",
        Phase.PARALLELIZE,
        "fuse-broadcast-ops",
        every_of(reduces("Reduce"), is_set),
        "after reduce_strategy=Reduce, whose gathers it joins",
    ),
    Row(
        "enable_backward_optimizer_op_deps",
        Phase.PARALLELIZE,
        "fence-updates",
        every_of(is_set, several_trainers),
        "after the sums, which are part of the gradients",
    ),
    Row(
        "enable_sequential_execution",
        Phase.PARALLELIZE,
        "order-collectives",
        every_of(asked, communicates),
        "when all collectives are there",
    ),
    Row(
        "sequential_run",
        Phase.PARALLELIZE,
        "order-collectives",
        every_of(asked, communicates),
        "the same for the executor of Paddle 2.6",
    ),
    Row(
        "data parallel",
        Phase.PARALLELIZE,
        "mark-per-replica",
        communicates,
        "last: it looks at where collectives ended up",
    ),
)


def select(context: PassContext) -> list[tuple[Row, ModulePass]]:
    """The rows that apply, each with its pass, in order.

    ValueError when `context.without` names no pass of the table.
    """
    for name in context.without - {row.pass_name for row in ROWS}:
        near = get_close_matches(name, [row.pass_name for row in ROWS], 1)
        raise ValueError(
            f"no pass is named {name!r}" + "".join(f"; did you mean {n}?" for n in near)
        )
    chosen: list[tuple[Row, ModulePass]] = []
    for row in ROWS:
        made = row.make(context) if row.pass_name not in context.without else None
        if made is not None:
            chosen.append((row, made))
    return chosen
