"""The pass table: the passes in their order, when each runs, and why in that place.

`schedule.py` makes the steps of a run from the rows that apply; `flags.py` describes the flags. A
pass is imported when its row applies, and xDSL with the first such pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from inspect import isclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphopt.passes.table.conditions import (
    ASKS_FOR_KERNELS,
    CUT,
    FUSES_LAYERS,
    MEASURED,
    ON_ONE_DEVICE,
    RECOMPUTES,
    REPLICATED,
    SCALED,
    SEVERAL_TRAINERS,
    WITH_STRATEGY,
    Options,
    When,
    apart,
    degree,
    flag,
    groups,
    kernel,
    kind_of_device,
    least_gain,
    library,
    no_options,
    on,
    parts,
    reduces,
    replicas,
    rolling,
    seed,
    stacking,
    tried_kernels,
)
from graphopt.passes.table.context import PassContext

if TYPE_CHECKING:
    from xdsl.passes import ModulePass


class Phase(Enum):
    """The phase in which a row runs; the fusions of one program share one sweep."""

    PREPARE = "prepare"
    CLEAN = "clean"
    FUSE = "fuse"
    SHARE = "share"
    TARGET = "target"
    UPDATE = "update"
    PARALLELIZE = "parallelize"


@dataclass(frozen=True)
class Row:
    """One line of the table: a pass and its folder, when it runs, and why in this place.

    The pass is in the file of its name, or in `file`.
    """

    phase: Phase
    room: str
    pass_name: str
    when: When
    why_here: str
    options: Callable[[PassContext], Options] = no_options
    file: str = ""

    @property
    def flag(self) -> str:
        """The flag that requests the pass, or a description where no flag does."""
        return self.when.flag

    @property
    def is_required(self) -> bool:
        """True for a pass that several devices require for their exchange; no optimization."""
        return self.room == "parallel" and self.phase is not Phase.UPDATE

    @property
    def path(self) -> Path:
        """The file of the pass."""
        file = self.file or self.pass_name.replace("-", "_")
        return Path(__file__).parents[1] / self.room / f"{file}.py"

    def load(self) -> type[ModulePass]:
        """Import the pass's module, and return the class of the pass."""
        from xdsl.passes import ModulePass

        module = import_module(f"graphopt.passes.{self.room}.{self.path.stem}")
        found = (c for c in vars(module).values() if isclass(c) and issubclass(c, ModulePass))
        return {getattr(made, "name", ""): made for made in found}[self.pass_name]


PREPARE, CLEAN, FUSE, SHARE = Phase.PREPARE, Phase.CLEAN, Phase.FUSE, Phase.SHARE
TARGET, UPDATE, PARALLELIZE = Phase.TARGET, Phase.UPDATE, Phase.PARALLELIZE

ROWS: tuple[Row, ...] = (
    Row(PREPARE, "cleanup", "fold-identity", WITH_STRATEGY,
        "first: scales by one, which saved models have at every output, would hide patterns"),
    Row(PREPARE, "parallel", "sync-batch-norm", flag("sync_batch_norm"),
        "before the fusions, which leave synchronised batch norms alone, as in Paddle"),
    Row(CLEAN, "cleanup", "drop-dropout", WITH_STRATEGY,
        "before the fusions: a dropout that drops nothing would stand between their ops"),
    Row(CLEAN, "cleanup", "fold-constants", WITH_STRATEGY,
        "before the identities, some of which look for constants"),
    Row(CLEAN, "cleanup", "settle-shapes", WITH_STRATEGY,
        "after the constants, which shapes have in them; fusions look for plain reshapes"),
    Row(CLEAN, "cleanup", "einsum-to-matmul", FUSES_LAYERS,
        "before simplify, which joins its transposes and reshapes with others"),
    Row(CLEAN, "cleanup", "simplify", WITH_STRATEGY,
        "before the fusions: what changes nothing would hide their patterns"),
    Row(CLEAN, "cleanup", "recognise-gelu", FUSES_LAYERS,
        "after the constants, which its formula has; before the fusions that apply activations"),
    Row(CLEAN, "storage", "drop-kept-state", on("cpu", "gpu", "tpu") & ON_ONE_DEVICE,
        "before the passes that look for what no step writes"),
    Row(CLEAN, "target", "fold-batch-norm", on("cpu", "gpu", "tpu") & ON_ONE_DEVICE,
        "before the fusions, which would hide batch norms; prepare-weights makes it free"),
    Row(CLEAN, "parallel", "tensor-parallel", CUT,
        "before the fusions, which then see what each device computes", options=degree),
    Row(FUSE, "fusions", "fuse-relu-depthwise-conv", flag("fuse_relu_depthwise_conv"),
        "first, as in Paddle: its relu may end a pattern of another fusion"),
    Row(FUSE, "fusions", "fused-attention", flag("fused_attention"),
        "the largest pattern: it has linear layers, the attention core, a norm and adds in it"),
    Row(FUSE, "fusions", "fused-feedforward", flag("fused_feedforward"),
        "two linear layers with what is around them; before they are taken one by one"),
    Row(FUSE, "fusions", "fuse-dot-product-attention", flag("fuse_dot_product_attention"),
        "the core of attention, where the whole of it was not taken; shares no linear layer"),
    Row(FUSE, "fusions", "fuse-gemm-epilogue", flag("fuse_gemm_epilogue"),
        "matmul + add + activation is a larger pattern than the add + activation in it"),
    Row(FUSE, "fusions", "fuse-resunit", flag("fuse_resunit"),
        "its patterns are those of the next two with a convolution in front"),
    Row(FUSE, "fusions", "fuse-bn-add-act", flag("fuse_bn_add_act_ops"),
        "three ops; before the pairs batch_norm + activation and add + activation in it"),
    Row(FUSE, "fusions", "fuse-bn-act", flag("fuse_bn_act_ops"),
        "shares no op with a linear layer; before add + activation, which may end in the same op"),
    Row(FUSE, "fusions", "fuse-elewise-add-act", flag("fuse_elewise_add_act_ops"),
        "last of the fusions: the smallest pattern takes what the others left"),
    Row(SHARE, "cleanup", "cse", WITH_STRATEGY,
        "after the fusions: a shared value has two readers, which would stop them"),
    Row(TARGET, "fusions", "fuse-long-attention", on("cpu") & ~flag("fuse_dot_product_attention"),
        "after the fusions, which have larger patterns with attention in them",
        file="fuse_dot_product_attention"),
    Row(TARGET, "fusions", "fuse-cudnn-attention", kernel("cudnn"),
        "as fuse-long-attention, on GPUs", file="fuse_dot_product_attention"),
    Row(TARGET, "fusions", "fuse-pallas-attention", kernel("pallas"),
        "as fuse-long-attention, on TPUs", file="fuse_dot_product_attention"),
    Row(TARGET, "fusions", "choose-attention", kernel("cudnn", "pallas") | MEASURED,
        "after what makes attention one op", options=library),
    Row(TARGET, "target", "reassociate-matmul", on("cpu", "gpu", "tpu"),
        "after the fusions: a linear layer that was fused keeps its order", options=least_gain),
    Row(TARGET, "target", "update-rows", on("cpu", "gpu", "tpu"),
        "before updates are fused, those of tables too; after sharing, which joins lookups",
        options=replicas),
    Row(TARGET, "target", "assign-layout", on("cpu"),
        "after the fusions, whose ops follow a convolution as their parts would"),
    Row(TARGET, "target", "choose-convolution", on("cpu"),
        "any place would do: no other pass looks at how a convolution is computed"),
    Row(TARGET, "target", "choose-pooling", on("cpu"),
        "as choose-convolution"),
    Row(TARGET, "target", "fuse-conv-epilogue", on("cpu") & ASKS_FOR_KERNELS,
        "after assign-layout, and after fold-batch-norm, which makes biases"),
    Row(TARGET, "target", "choose-kernel", on("cpu") & ASKS_FOR_KERNELS,
        "after choose-convolution, whose quicker algorithms stay, and fuse-conv-epilogue",
        options=tried_kernels),
    Row(TARGET, "storage", "roll-layers", on("cpu"),
        "after the fusions and sharing, which make layers alike and short", options=rolling),
    Row(TARGET, "target", "prepare-weights", on("cpu", "gpu", "tpu") & ON_ONE_DEVICE,
        "after what computes with parameters: folded batch norms and transposed filters"),
    Row(TARGET, "target", "pack-filters", on("cpu") & ASKS_FOR_KERNELS,
        "after prepare-weights, whose results it lays out"),
    Row(UPDATE, "storage", "fuse-all-optimizer-ops", flag("fuse_all_optimizer_ops"),
        "after sharing, which may join learning rates; sums of gradients come later, in front"),
    Row(UPDATE, "storage", "fuse-adamw", flag("fuse_adamw"),
        "as fuse_all_optimizer_ops, which has other kinds of updates",
        file="fuse_all_optimizer_ops"),
    Row(UPDATE, "storage", "stack-state", on("cpu"),
        "after fuse_adamw, whose groups it lays out; in front of sums, which are then of stacks",
        options=stacking),
    Row(UPDATE, "storage", "stack-counters", on("gpu", "tpu"),
        "after fuse_adamw, whose members have counters, too", options=apart),
    Row(UPDATE, "storage", "stack-updates", on("cpu") & ON_ONE_DEVICE,
        "after stack-state, whose stacks stay between steps; takes the rest, in branches, too"),
    Row(UPDATE, "storage", "store-filters", on("cpu"),
        "after assign-layout, whose convolutions read filters so, and after stacks", options=apart),
    Row(UPDATE, "cleanup", "sort-ops", flag("fix_op_run_order"),
        "after what removes ops, and before what goes by the order of the ops"),
    Row(UPDATE, "target", "recompute-activations", flag("memory_optimize") | RECOMPUTES,
        "after everything that changes the ops of the forward computation"),
    Row(UPDATE, "target", "group-reductions", flag("build_cinn_pass"),
        "after memory_optimize, whose ops it leaves alone", file="fusion_groups"),
    Row(UPDATE, "target", "group-elementwise", flag("enable_auto_fusion"),
        "as group-reductions, which has larger groups", file="fusion_groups"),
    Row(UPDATE, "target", "choose-group-kernel", flag("build_cinn_pass") & on("gpu", "tpu"),
        "after the groups, parts of which it makes kernels of", options=kind_of_device),
    Row(UPDATE, "target", "fence-casts", on("cpu") & ~RECOMPUTES & ~flag("memory_optimize"),
        "after the groups, which fences would end; recomputed activations are not kept"),
    Row(UPDATE, "parallel", "add-to", flag("enable_addto"),
        "beside memory_optimize, which is about what the same derivatives read"),
    Row(PARALLELIZE, "parallel", "scale-loss-grad", SCALED,
        "the seed of the derivative, before anything is summed over replicas", options=seed),
    Row(PARALLELIZE, "parallel", "all-reduce-gradients", reduces("AllReduce"),
        "after the derivative and before clipping and updates, which see averaged gradients"),
    Row(PARALLELIZE, "parallel", "shard-updates", reduces("Reduce"),
        "instead, with Reduce; after the fused updates, whose parts it computes", options=parts),
    Row(PARALLELIZE, "parallel", "shard-parameters",
        flag("shard_parameters") & reduces("Reduce"),
        "after shard-updates, whose parts it keeps between steps", options=parts),
    Row(PARALLELIZE, "parallel", "fuse-all-reduce-ops",
        flag("fuse_all_reduce_ops") & reduces("AllReduce"),
        "after the sums that it joins", options=groups),
    Row(PARALLELIZE, "parallel", "fuse-broadcast-ops",
        flag("fuse_broadcast_ops") & reduces("Reduce"),
        "after reduce_strategy=Reduce, whose gathers it joins"),
    Row(PARALLELIZE, "parallel", "fence-updates",
        flag("enable_backward_optimizer_op_deps") & SEVERAL_TRAINERS,
        "after the sums, which are part of the gradients"),
    Row(PARALLELIZE, "parallel", "order-collectives",
        flag("enable_sequential_execution") & REPLICATED,
        "when all collectives are there"),
    Row(PARALLELIZE, "parallel", "order-collectives", flag("sequential_run") & REPLICATED,
        "the same for the executor of Paddle 2.6"),
    Row(PARALLELIZE, "parallel", "mark-per-replica", REPLICATED,
        "last: it looks at where collectives ended up"),
)  # fmt: skip

REQUIRED = frozenset(row.pass_name for row in ROWS if row.is_required)
"""The passes whose ops a run on several devices requires."""
