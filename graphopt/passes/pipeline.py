"""THE table: what each BuildStrategy flag means as passes, in order, with the reason for its place.

`select` turns a strategy's flags into the rows that apply; `passes/manager.py` runs them. Flags
that change nothing in the program are in `WITHOUT_PASS` with the reason, so `explain` can say so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum

from xdsl.passes import ModulePass

from graphopt.passes.add_to import AddTo
from graphopt.passes.all_reduce_gradients import AllReduceGradients
from graphopt.passes.assign_layout import AssignLayout
from graphopt.passes.choose_attention import ChooseAttention
from graphopt.passes.choose_convolution import ChooseConvolution
from graphopt.passes.choose_pooling import ChoosePooling
from graphopt.passes.conflicts import refusal_of
from graphopt.passes.drop_dropout import DropDropout
from graphopt.passes.drop_kept_state import DropKeptState
from graphopt.passes.fence_updates import FenceUpdates
from graphopt.passes.fold_batch_norm import FoldBatchNorm
from graphopt.passes.fold_constants import FoldConstants
from graphopt.passes.fold_identity import FoldIdentity
from graphopt.passes.fuse_all_optimizer_ops import FuseAdamw, FuseAllOptimizerOps
from graphopt.passes.fuse_all_reduce_ops import FuseAllReduceOps
from graphopt.passes.fuse_bn_act import FuseBnAct
from graphopt.passes.fuse_bn_add_act import FuseBnAddAct
from graphopt.passes.fuse_broadcast_ops import FuseBroadcastOps
from graphopt.passes.fuse_dot_product_attention import (
    FuseCudnnAttention,
    FuseDotProductAttention,
    FuseLongAttention,
    FusePallasAttention,
)
from graphopt.passes.fuse_elewise_add_act import FuseElewiseAddAct
from graphopt.passes.fuse_gemm_epilogue import FuseGemmEpilogue
from graphopt.passes.fuse_relu_depthwise_conv import FuseReluDepthwiseConv
from graphopt.passes.fuse_resunit import FuseResunit
from graphopt.passes.fused_attention import FuseAttention
from graphopt.passes.fused_feedforward import FuseFeedForward
from graphopt.passes.mark_per_replica import MarkPerReplica
from graphopt.passes.order_collectives import OrderCollectives
from graphopt.passes.prepare_weights import PrepareWeights
from graphopt.passes.reassociate_matmul import ReassociateMatmul
from graphopt.passes.recompute_activations import RecomputeActivations
from graphopt.passes.roll_layers import RollLayers
from graphopt.passes.scale_loss_grad import ScaleLossGrad
from graphopt.passes.settle_shapes import SettleShapes
from graphopt.passes.setup import Setup
from graphopt.passes.shard_updates import ShardUpdates
from graphopt.passes.share import ShareCommon
from graphopt.passes.simplify import Simplify
from graphopt.passes.sort_ops import SortOps
from graphopt.passes.stack_state import StackState
from graphopt.passes.store_filters import StoreFilters
from graphopt.passes.sync_batch_norm import SyncBatchNorm
from graphopt.passes.update_rows import UpdateRows

EVERY_PLATFORM = ("cpu", "gpu", "tpu")

# in place of a flag: what runs with every strategy, and on a platform with none, too
ANY_STRATEGY, ANY_PROGRAM = "any strategy", "any program"


class Phase(Enum):
    """When a row runs; the fusions of one program share one sweep."""

    PREPARE = "prepare"
    CLEAN = "clean"
    FUSE = "fuse"
    SHARE = "share"
    TARGET = "target"
    UPDATE = "update"
    PARALLELIZE = "parallelize"


@dataclass(frozen=True)
class Row:
    """One line of the table. `make` gives the pass, or None when it has nothing to do."""

    flag: str
    phase: Phase
    pass_name: str
    make: Callable[[Setup], ModulePass | None]
    why_here: str


def _when(flag: str, make: Callable[[], ModulePass]) -> Callable[[Setup], ModulePass | None]:
    """When the flag is on and no other flag rules it out."""

    def made(setup: Setup) -> ModulePass | None:
        return make() if setup.flags.get(flag) and not refusal_of(setup, flag) else None

    return made


def _always(make: Callable[[], ModulePass]) -> Callable[[Setup], ModulePass | None]:
    """Whenever there is a strategy; a plain program runs as it was written."""
    return lambda setup: make() if setup.flags else None


def _on(
    platforms: tuple[str, ...], make: Callable[[Setup], ModulePass | None]
) -> Callable[[Setup], ModulePass | None]:
    """For every program that runs on one of these platforms, with or without a strategy."""
    return lambda setup: make(setup) if setup.platform in platforms else None


def _apart(make: Callable[[], ModulePass]) -> Callable[[Setup], ModulePass | None]:
    """On CPUs, for one replica: where what is computed apart from the step can be kept."""
    on_cpu = _on(("cpu",), lambda setup: make())
    return lambda setup: None if setup.communicates else on_cpu(setup)


def _long_attention(setup: Setup) -> ModulePass | None:
    """The flag fuses all of it, long or short."""
    flag = "fuse_dot_product_attention"
    asked = setup.flags.get(flag) and not refusal_of(setup, flag)
    return None if asked else FuseLongAttention()


def _by_kernel(kernel: str, make: Callable[[], ModulePass]) -> Callable[[Setup], ModulePass | None]:
    """Where the devices have this kernel for attention."""
    return lambda setup: make() if setup.attention_kernel == kernel else None


def _stacks_refused(setup: Setup) -> str:
    """Why state cannot lie otherwise than the variables; empty where it can."""
    if setup.trainers > 1:
        return "several processes bring their state into line variable by variable"
    if setup.communicates and setup.reduction != "AllReduce":
        return f"with reduce_strategy={setup.reduction} replicas have state of their own"
    return ""


def _roll(setup: Setup) -> ModulePass:
    recompute = bool(setup.flags.get("memory_optimize"))
    return RollLayers(recompute=recompute, apart=_stacks_refused(setup))


def _stack(setup: Setup) -> ModulePass:
    asked = setup.flags.get("fuse_adamw") or setup.flags.get("fuse_all_optimizer_ops")
    return StackState(fewest=8 if asked else 0, apart=_stacks_refused(setup))


def _scale(setup: Setup) -> ModulePass | None:
    strategy = getattr(setup.flags.get("gradient_scale_strategy"), "name", "CoeffNumDevice")
    if strategy == "Customized":
        return ScaleLossGrad(feed=setup.loss_grad)
    if strategy == "One" or setup.ranks == 1:
        return None
    if setup.sample_weighted and setup.communicates:
        return ScaleLossGrad(coefficient=setup.replicas / setup.ranks, weighted=True)
    return ScaleLossGrad(coefficient=1.0 / setup.ranks)


def _fence_updates(setup: Setup) -> ModulePass | None:
    """For several trainers, as in Paddle."""
    wanted = setup.flags.get("enable_backward_optimizer_op_deps")
    return FenceUpdates() if wanted and setup.trainers > 1 else None


def _order(flag: str) -> Callable[[Setup], ModulePass | None]:
    """One device has no collectives."""
    wanted = _when(flag, OrderCollectives)
    return lambda setup: wanted(setup) if setup.communicates else None


def _sum(setup: Setup) -> ModulePass | None:
    wanted = setup.communicates and setup.reduction == "AllReduce"
    return AllReduceGradients() if wanted else None


def _shard(setup: Setup) -> ModulePass | None:
    wanted = setup.communicates and setup.reduction == "Reduce"
    return ShardUpdates(parts=setup.replicas) if wanted else None


def _join_sums(setup: Setup) -> ModulePass | None:
    wanted = setup.communicates and setup.flags.get("fuse_all_reduce_ops")
    if not wanted or setup.reduction != "AllReduce":
        return None
    return FuseAllReduceOps(
        setup.flags.get("FLAGS_fuse_parameter_memory_size", -1.0),
        int(setup.flags.get("FLAGS_fuse_parameter_groups_size", 1)),
    )


def _join_gathers(setup: Setup) -> ModulePass | None:
    wanted = setup.communicates and setup.flags.get("fuse_broadcast_ops")
    return FuseBroadcastOps() if wanted and setup.reduction == "Reduce" else None


ROWS: tuple[Row, ...] = (
    Row(
        ANY_STRATEGY,
        Phase.PREPARE,
        FoldIdentity.name,
        _always(FoldIdentity),
        "first: scales by one, which saved models have at every output, would hide patterns",
    ),
    Row(
        "sync_batch_norm",
        Phase.PREPARE,
        SyncBatchNorm.name,
        _when("sync_batch_norm", SyncBatchNorm),
        "before the fusions, which leave synchronised batch norms alone, as in Paddle",
    ),
    Row(
        ANY_STRATEGY,
        Phase.CLEAN,
        DropDropout.name,
        _always(DropDropout),
        "before the fusions: a dropout that drops nothing would stand between their ops",
    ),
    Row(
        ANY_STRATEGY,
        Phase.CLEAN,
        FoldConstants.name,
        _always(FoldConstants),
        "before the identities, some of which look for constants",
    ),
    Row(
        ANY_STRATEGY,
        Phase.CLEAN,
        SettleShapes.name,
        _always(SettleShapes),
        "behind the constants, which shapes have in them; fusions look for plain reshapes",
    ),
    Row(
        ANY_STRATEGY,
        Phase.CLEAN,
        Simplify.name,
        _always(Simplify),
        "before the fusions: what changes nothing would hide their pictures",
    ),
    Row(
        ANY_PROGRAM,
        Phase.CLEAN,
        DropKeptState.name,
        _apart(DropKeptState),
        "before the passes that look for what no step writes",
    ),
    Row(
        ANY_PROGRAM,
        Phase.CLEAN,
        FoldBatchNorm.name,
        _apart(FoldBatchNorm),
        "before the fusions, which would hide batch norms; prepare-weights makes it free",
    ),
    Row(
        "fuse_relu_depthwise_conv",
        Phase.FUSE,
        FuseReluDepthwiseConv.name,
        _when("fuse_relu_depthwise_conv", FuseReluDepthwiseConv),
        "first, as in Paddle: its relu may end a picture of another fusion",
    ),
    Row(
        "fused_attention",
        Phase.FUSE,
        FuseAttention.name,
        _when("fused_attention", FuseAttention),
        "the largest picture: it has linear layers, the attention core, a norm and adds in it",
    ),
    Row(
        "fused_feedforward",
        Phase.FUSE,
        FuseFeedForward.name,
        _when("fused_feedforward", FuseFeedForward),
        "two linear layers with what is around them; before they are taken one by one",
    ),
    Row(
        "fuse_dot_product_attention",
        Phase.FUSE,
        FuseDotProductAttention.name,
        _when("fuse_dot_product_attention", FuseDotProductAttention),
        "the core of attention, where the whole of it was not taken; shares no linear layer",
    ),
    Row(
        "fuse_gemm_epilogue",
        Phase.FUSE,
        FuseGemmEpilogue.name,
        _when("fuse_gemm_epilogue", FuseGemmEpilogue),
        "matmul + add + activation is a larger picture than the add + activation in it",
    ),
    Row(
        "fuse_resunit",
        Phase.FUSE,
        FuseResunit.name,
        _when("fuse_resunit", FuseResunit),
        "its pictures are those of the next two with a convolution in front",
    ),
    Row(
        "fuse_bn_add_act_ops",
        Phase.FUSE,
        FuseBnAddAct.name,
        _when("fuse_bn_add_act_ops", FuseBnAddAct),
        "three ops; before the pairs batch_norm + activation and add + activation in it",
    ),
    Row(
        "fuse_bn_act_ops",
        Phase.FUSE,
        FuseBnAct.name,
        _when("fuse_bn_act_ops", FuseBnAct),
        "shares no op with a linear layer; before add + activation, which may end in the same op",
    ),
    Row(
        "fuse_elewise_add_act_ops",
        Phase.FUSE,
        FuseElewiseAddAct.name,
        _when("fuse_elewise_add_act_ops", FuseElewiseAddAct),
        "last of the fusions: the smallest picture takes what the others left",
    ),
    Row(
        ANY_STRATEGY,
        Phase.SHARE,
        ShareCommon.name,
        _always(ShareCommon),
        "behind the fusions: a shared value has two readers, which would stop them",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        FuseLongAttention.name,
        _on(("cpu",), _long_attention),
        "behind the fusions, which have larger pictures with attention in them",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        FuseCudnnAttention.name,
        _by_kernel("cudnn", FuseCudnnAttention),
        "as fuse-long-attention, on GPUs",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        FusePallasAttention.name,
        _by_kernel("pallas", FusePallasAttention),
        "as fuse-long-attention, on TPUs",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        ChooseAttention.name,
        lambda setup: ChooseAttention(setup.attention_kernel) if setup.attention_kernel else None,
        "behind what makes attention one op",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        ReassociateMatmul.name,
        _on(EVERY_PLATFORM, lambda setup: ReassociateMatmul(least_gain=2.0)),
        "behind the fusions: a linear layer that was fused keeps its order",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        UpdateRows.name,
        _on(EVERY_PLATFORM, lambda setup: UpdateRows(setup.ranks if setup.data_parallel else 1)),
        "before updates are fused, which takes those of tables too; behind sharing, which joins "
        "lookups",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        AssignLayout.name,
        _on(("cpu",), lambda setup: AssignLayout()),
        "behind the fusions, whose ops follow a convolution as their parts would",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        ChooseConvolution.name,
        _on(("cpu",), lambda setup: ChooseConvolution()),
        "any place would do: no other pass looks at how a convolution is computed",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        ChoosePooling.name,
        _on(("cpu",), lambda setup: ChoosePooling()),
        "as choose-convolution",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        RollLayers.name,
        _on(("cpu",), _roll),
        "behind the fusions and sharing, which make layers alike and short",
    ),
    Row(
        ANY_PROGRAM,
        Phase.TARGET,
        PrepareWeights.name,
        _apart(PrepareWeights),
        "behind what computes with parameters: folded batch norms and turned filters",
    ),
    Row(
        "fuse_all_optimizer_ops",
        Phase.UPDATE,
        FuseAllOptimizerOps.name,
        _when("fuse_all_optimizer_ops", FuseAllOptimizerOps),
        "behind sharing, which may join learning rates; sums of gradients come later, in front",
    ),
    Row(
        "fuse_adamw",
        Phase.UPDATE,
        FuseAdamw.name,
        _when("fuse_adamw", FuseAdamw),
        "as fuse_all_optimizer_ops, which has other kinds of updates",
    ),
    Row(
        ANY_PROGRAM,
        Phase.UPDATE,
        StackState.name,
        _on(("cpu",), _stack),
        "behind fuse_adamw, whose groups it lays out; in front of sums, which are then of stacks",
    ),
    Row(
        ANY_PROGRAM,
        Phase.UPDATE,
        StoreFilters.name,
        _on(("cpu",), lambda setup: StoreFilters(apart=_stacks_refused(setup))),
        "behind assign-layout, whose convolutions read filters so, and behind stacks",
    ),
    Row(
        "fix_op_run_order",
        Phase.UPDATE,
        SortOps.name,
        _when("fix_op_run_order", SortOps),
        "behind what removes ops, and before what goes by the order of the ops",
    ),
    Row(
        "memory_optimize",
        Phase.UPDATE,
        RecomputeActivations.name,
        _when("memory_optimize", RecomputeActivations),
        "behind everything that changes the ops of the forward computation",
    ),
    Row(
        "enable_addto",
        Phase.UPDATE,
        AddTo.name,
        _when("enable_addto", AddTo),
        "beside memory_optimize, which is about what the same derivatives read",
    ),
    Row(
        "gradient_scale_strategy",
        Phase.PARALLELIZE,
        ScaleLossGrad.name,
        _scale,
        "the seed of the derivative, before anything is summed over replicas",
    ),
    Row(
        "reduce_strategy",
        Phase.PARALLELIZE,
        AllReduceGradients.name,
        _sum,
        "behind the derivative and before clipping and updates, which see averaged gradients",
    ),
    Row(
        "reduce_strategy",
        Phase.PARALLELIZE,
        ShardUpdates.name,
        _shard,
        "instead, with Reduce; behind the fused updates, whose parts it computes",
    ),
    Row(
        "fuse_all_reduce_ops",
        Phase.PARALLELIZE,
        FuseAllReduceOps.name,
        _join_sums,
        "behind the sums that it joins",
    ),
    Row(
        "fuse_broadcast_ops",
        Phase.PARALLELIZE,
        FuseBroadcastOps.name,
        _join_gathers,
        "behind reduce_strategy=Reduce, whose gathers it joins",
    ),
    Row(
        "enable_backward_optimizer_op_deps",
        Phase.PARALLELIZE,
        FenceUpdates.name,
        _fence_updates,
        "behind the sums, which are part of the gradients",
    ),
    Row(
        "enable_sequential_execution",
        Phase.PARALLELIZE,
        OrderCollectives.name,
        _order("enable_sequential_execution"),
        "when all collectives are there",
    ),
    Row(
        "sequential_run",
        Phase.PARALLELIZE,
        OrderCollectives.name,
        _order("sequential_run"),
        "the same for the executor of Paddle 2.6",
    ),
    Row(
        "data parallel",
        Phase.PARALLELIZE,
        MarkPerReplica.name,
        lambda setup: MarkPerReplica() if setup.communicates else None,
        "last: it looks at where collectives ended up",
    ),
)

WITHOUT_PASS: Mapping[str, str] = {
    "enable_auto_fusion": "XLA fuses chains of elementwise ops on every backend by itself",
    "build_cinn_pass": "every program is compiled as a whole by XLA, whatever this flag says",
    "use_hierarchical_allreduce": "XLA chooses the algorithm of a collective by its devices",
    "hierarchical_allreduce_inter_nranks": "XLA chooses the algorithm of a collective",
    "nccl_comm_num": "XLA owns the communicators of GPUs, and CPUs have none",
    "bkcl_comm_num": "JAX has no backend for Kunlun devices",
    "remove_unnecessary_lock": "the runtime has no locks per operator",
    "cache_runtime_context": "what is compiled, with its buffers, is always kept and used again",
    "allow_cuda_graph_capture": "XLA captures CUDA graphs on GPUs by itself; CPUs have none",
    "mkldnn_enabled_op_types": "XLA chooses the library of each op on CPUs; GPUs have no oneDNN",
}
# flags that the runtime itself obeys
RUNTIME: Mapping[str, str] = {
    "enable_inplace": "parameters and optimizer state are donated, so updates reuse their buffers",
    "debug_graphviz_path": "the IR is written as Graphviz and as text",
    "num_trainers": "so many processes train together; enters the scale of the loss gradient",
    "trainer_id": "which of the processes this one is",
    "trainers_endpoints": "where the processes are; the first one is where they meet",
}


def why_not(setup: Setup, flag: str) -> str:
    """Why a flag that is set selects no pass."""
    if flag == "enable_backward_optimizer_op_deps":
        return "one trainer needs no pass for it"
    if setup.communicates:
        return "this value asks for nothing"
    return "one device needs no pass for it"


def select(setup: Setup) -> list[tuple[Row, ModulePass]]:
    """The rows that apply, each with its pass, in order.

    ValueError when `setup.without` names no pass of the table.
    """
    for name in setup.without - {row.pass_name for row in ROWS}:
        near = get_close_matches(name, [row.pass_name for row in ROWS], 1)
        raise ValueError(
            f"no pass is named {name!r}" + "".join(f"; did you mean {n}?" for n in near)
        )
    chosen: list[tuple[Row, ModulePass]] = []
    for row in ROWS:
        made = row.make(setup) if row.pass_name not in setup.without else None
        if made is not None:
            chosen.append((row, made))
    return chosen
