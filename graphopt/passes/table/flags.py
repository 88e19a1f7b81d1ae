"""The flags of BuildStrategy, each with all its facts in one record.

`runtime/settings/strategies.py` builds BuildStrategy from them, `order.py` has the passes that they
select, and docs/reference/build-strategy.md is written from both.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from graphopt.errors import UnsupportedError
from graphopt.passes.table.context import Flags, PassContext
from graphopt.passes.table.settings import (
    BuildFlag,
    Conflict,
    Settings,
    as_member,
    as_names,
    as_size,
    as_text,
    as_tristate,
)


class ReduceStrategy(Enum):
    """The updates of data parallelism: on every device, or sharded over the devices."""

    AllReduce = 0
    Reduce = 1
    _NoReduce = 2


class GradientScaleStrategy(Enum):
    """The start of the gradient of the loss: 1 / devices, 1, or a fed value."""

    CoeffNumDevice = 0
    One = 1
    Customized = 2


# texts that several flags share
_IR = "CPU, GPU, TPU: fewer ops in the IR and one derivative for the whole; XLA fuses either form"
_COUNT = "op counts of `explain`; `graphopt-opt --build-strategy`"
_ATTENTION = (
    "CPU, GPU, TPU: long sequences (512 when differentiated, else 1024) go by tiles of the scores, "
    "which are not kept"
)
_KEPT = (
    "CPU, GPU, TPU: derivatives keep what a group reads, and compute what is inside again; XLA "
    "fuses the loops of a group, as it does without"
)
_COUNT_GROUPS = "`pd.fusion_group` in the IR; the temporary bytes of XLA's memory analysis"
_GROUPS = "CPU, GPU, TPU: one op in the IR for each group, computed parameter by parameter"
_ORDER = (
    "several devices of any kind: they start one after another, in the order of the program, and "
    "XLA joins none of them"
)
_FENCES = "`pd.fence` in the IR; the all-reduces in the HLO that XLA made"
_REFUSED = "none: compiling raises, as there is no parameter server"

_WITH_REDUCE = Conflict(
    lambda context: context.reduction == "Reduce",
    "reduce_strategy=Reduce switches this flag off, as in Paddle",
)
_WITHOUT_REDUCE = Conflict(
    lambda context: context.reduction != "Reduce",
    "reduce_strategy=AllReduce switches this flag off, as in Paddle",
)
_ONE_DEVICE_EACH = Conflict(
    lambda context: (
        context.asked_to_share and context.reduction != "Reduce" and context.trainers > 1
    ),
    "each process has one device, so state cannot be spread over its devices; AllReduce is used",
)
_ORDERED_ALREADY = Conflict(
    lambda context: bool(context.flags.get("enable_sequential_execution")),
    "enable_sequential_execution already orders the same collectives",
)
_LARGER_GROUPS = Conflict(
    lambda context: bool(context.flags.get("build_cinn_pass")),
    "build_cinn_pass groups the same ops and more",
)


def _fusion(
    pattern: str,
    effect: str = _IR,
    *,
    on: bool = False,
    paddle: str = BuildFlag.paddle,
    ruled_out: Conflict | None = None,
) -> BuildFlag:
    """Declare a flag that fuses several ops into one, which op counts show."""
    return BuildFlag(
        on, paddle=paddle, pattern=pattern, effect=effect, observe=_COUNT, ruled_out=ruled_out
    )


class BuildFlags(Settings):
    """The flags of BuildStrategy, with the defaults and checks of Paddle 2.6."""

    # fusions
    fuse_elewise_add_act_ops = _fusion("act(x + y), x + act(y)")
    fuse_bn_act_ops = _fusion("act(batch_norm(x))")
    fuse_bn_add_act_ops = _fusion("act(batch_norm(x) + z)", on=True, paddle="2.6, 3.3")
    fuse_relu_depthwise_conv = _fusion(
        "depthwise_conv2d(relu(x), w)",
        "CPU, GPU, TPU: no relu op, and one derivative for both; a step takes as much memory as "
        "before, measured on a CPU",
    )
    fuse_gemm_epilogue = _fusion("act(x @ w + b), x @ w + b", paddle="2.6, 3.3")
    fused_attention = _fusion(
        "a Transformer layer's attention: projections, softmax(q @ k) @ v, residual, layer_norm",
        _ATTENTION,
        paddle="2.6, 3.3",
    )
    fused_feedforward = _fusion(
        "a Transformer layer's two linear layers with dropouts, residual and layer_norm",
        paddle="2.6, 3.3",
    )
    enable_auto_fusion = BuildFlag(
        False,
        pattern="chains of elementwise ops, casts, selections, broadcasts and views",
        effect=_KEPT,
        observe=_COUNT_GROUPS,
        ruled_out=_LARGER_GROUPS,
    )
    build_cinn_pass = BuildFlag(
        False,
        paddle="2.6, 3.3",
        pattern="reductions, norms, losses and products, each with the ops around it",
        effect=_KEPT,
        observe=_COUNT_GROUPS,
    )
    fuse_dot_product_attention = _fusion(
        "softmax(q @ k + mask) @ v",
        f"{_ATTENTION}; on CPUs these are fused without the flag too",
        paddle="3.3",
    )
    fuse_resunit = _fusion(
        "act(batch_norm(conv2d(x))), act(batch_norm(conv2d(x)) + z)", paddle="3.3"
    )
    # optimizers and communication
    fuse_adamw = _fusion(
        "adamw updates of one dtype, learning rate and properties", _GROUPS, paddle="2.6, 3.3"
    )
    fuse_all_optimizer_ops = _fusion(
        "sgd, momentum and adam updates of one dtype, learning rate and properties",
        _GROUPS,
        ruled_out=_WITH_REDUCE,
    )
    fuse_all_reduce_ops = BuildFlag(
        True,
        freezes=False,
        pattern="gradients of one layer and dtype, of 32 KB at most "
        "(FLAGS_fuse_parameter_memory_size, FLAGS_fuse_parameter_groups_size)",
        effect="several devices of any kind, AllReduce: one collective for each group; same bits",
        observe="`pd.all_reduce` in the IR, all-reduces in `--emit stablehlo`",
        ruled_out=_WITH_REDUCE,
    )
    fuse_broadcast_ops = BuildFlag(
        True,
        pattern="parameters of one dtype, of which each device has 32 KB at most",
        effect="several devices of any kind, Reduce: one collective puts all of them together; "
        "same bits",
        observe="`pd.all_gather` in the IR, all-gathers in `--emit stablehlo`",
        ruled_out=_WITHOUT_REDUCE,
    )
    reduce_strategy = BuildFlag(
        ReduceStrategy.AllReduce,
        as_member(ReduceStrategy),
        pattern="gradients of parameters, and their updates",
        effect="several devices of any kind: one sum over the devices for each gradient; with "
        "Reduce each device updates a part of every parameter and keeps that part of the "
        "optimizer's state",
        observe="`pd.all_reduce`, `pd.reduce_scatter` and `pd.all_gather` in the IR; bytes per "
        "device",
        ruled_out=_ONE_DEVICE_EACH,
    )
    shard_parameters = BuildFlag(
        False,
        paddle="none; fleet's sharding, stage 3",
        pattern="parameters of 32 KB or more that are updated, or only read",
        effect="several devices of any kind: each keeps a part of every parameter, of its gradient "
        "and of the optimizer's state, and gathers parameters when they are read; includes "
        "reduce_strategy=Reduce",
        observe="`pd.all_gather` in front of readers in the IR; bytes per device",
        ruled_out=_ONE_DEVICE_EACH,
    )
    tensor_parallel_degree = BuildFlag(
        1,
        as_size,
        paddle="none; fleet's tensor_parallel",
        pattern="products with a parameter of two axes, and lookups in tables",
        effect="several devices of any kind: each replica is so many of them, which have pieces of "
        "parameters, gradients and optimizer state, by rows or by columns, and compute with these",
        observe="`pd.cut` of parameters, `pd.mp_allreduce_sum` and `pd.c_identity` in the IR; "
        "bytes per device",
        idle="one device computes each replica, so no parameter is cut",
    )
    gradient_scale_strategy = BuildFlag(
        GradientScaleStrategy.CoeffNumDevice,
        as_member(GradientScaleStrategy),
        paddle="1.8, 2.6",
        pattern="the seed of the loss's gradient",
        effect="several devices of any kind: 1 / devices, 1, or a feed",
        observe="the constant that `pd.grad` starts from",
    )
    sync_batch_norm = BuildFlag(
        False,
        pattern="every batch_norm",
        effect="several devices of any kind: one sum over the devices for each batch norm",
        observe="`sync = true` in the IR; an all-reduce more in `--emit stablehlo`",
    )
    num_trainers = BuildFlag(
        1,
        as_size,
        freezes=False,
        obeyed="this is the number of processes that train together; it scales the loss gradient",
        pattern="the seed of the loss's gradient",
        effect="several processes: one sum over the devices of all of them for each gradient",
        observe="the constant; `stats` of the CompiledProgram",
    )
    trainer_id = BuildFlag(
        0,
        as_size,
        freezes=False,
        obeyed="this is the number of this process",
        pattern="the process",
        effect="several processes: its number",
        observe="messages",
    )
    trainers_endpoints = BuildFlag(
        list[str](),
        as_names(list),
        freezes=False,
        obeyed="these are the addresses of the processes, which meet at the first one",
        pattern="the processes",
        effect="several processes: where they meet",
        observe="messages",
    )
    nccl_comm_num = BuildFlag(
        1,
        as_size,
        freezes=False,
        no_effect="XLA owns the communicators of GPUs, and CPUs have none",
    )
    bkcl_comm_num = BuildFlag(
        1,
        as_size,
        freezes=False,
        paddle="2.6, 3.3",
        no_effect="JAX has no backend for Kunlun devices",
    )
    use_hierarchical_allreduce = BuildFlag(
        False, freezes=False, no_effect="XLA chooses the algorithm of a collective by its devices"
    )
    hierarchical_allreduce_inter_nranks = BuildFlag(
        0, as_size, freezes=False, no_effect="XLA chooses the algorithm of a collective"
    )
    async_mode = BuildFlag(
        False,
        freezes=False,
        unsupported="there is no parameter server: parameters are updated in step; use "
        "with_data_parallel, which averages the gradients of all devices",
        effect=_REFUSED,
        observe="the error; `explain`",
    )
    is_distribution = BuildFlag(
        False,
        freezes=False,
        paddle="1.8, 2.6",
        unsupported="there is no parameter server: use with_data_parallel, and num_trainers for "
        "several processes",
        effect=_REFUSED,
        observe="the error; `explain`",
    )
    # memory, order and debugging
    memory_optimize = BuildFlag(
        None,
        as_tristate,
        freezes=False,
        pattern="what derivatives go through",
        effect="CPU, GPU, TPU: activations inside segments are computed again instead of kept. On "
        "CPUs XLA is also made to keep the barriers of such a program (`xla_disable_hlo_passes`)",
        observe="`pd.recompute` in the IR; `stablehlo.optimization_barrier` in `--emit stablehlo`; "
        "the temporary bytes of XLA's memory analysis",
    )
    enable_inplace = BuildFlag(
        True,
        freezes=False,
        obeyed="parameters and optimizer state are donated, so updates reuse their buffers",
        pattern="state that is updated",
        effect="CPU, GPU, TPU: its buffers are donated",
        observe="the aliased bytes of XLA's memory analysis",
    )
    enable_addto = BuildFlag(
        False,
        freezes=False,
        paddle="2.6, 3.3",
        pattern="gradients of several parts: parameters, or other values, that several ops read",
        effect="CPU, GPU, TPU: the sum so far is finished before the next part is computed, where "
        "XLA would keep all parts to add them at once",
        observe="`addto = true` in the IR; the temporary bytes of XLA's memory analysis",
    )
    enable_sequential_execution = BuildFlag(
        False, paddle="1.8, 2.6", pattern="sums over devices", effect=_ORDER, observe=_FENCES
    )
    sequential_run = BuildFlag(
        False,
        paddle="2.6, 3.3",
        pattern="sums over devices",
        effect=_ORDER,
        observe=_FENCES,
        ruled_out=_ORDERED_ALREADY,
    )
    fix_op_run_order = BuildFlag(
        False,
        freezes=False,
        paddle="2.6",
        pattern="every op",
        effect="CPU, GPU, TPU: programs that differ in the order of independent ops are one "
        "program; Paddle also stops at equal operators, which values keep apart here",
        observe="the text of the IR",
    )
    remove_unnecessary_lock = BuildFlag(
        True, paddle="1.8, 2.6", no_effect="the runtime has no locks per operator"
    )
    cache_runtime_context = BuildFlag(
        False,
        freezes=False,
        no_effect="a compiled program and its buffers are always kept and used again",
    )
    enable_backward_optimizer_op_deps = BuildFlag(
        True,
        freezes=False,
        pattern="updates of parameters, with several trainers",
        effect="CPU, GPU, TPU: one barrier between gradients and updates",
        observe="one `pd.fence` in the IR",
        idle="one trainer needs no barrier between gradients and updates",
    )
    allow_cuda_graph_capture = BuildFlag(
        False,
        freezes=False,
        paddle="2.6, 3.3",
        no_effect="XLA captures CUDA graphs on GPUs by itself; CPUs have none",
    )
    mkldnn_enabled_op_types = BuildFlag(
        set[str](),
        as_names(set),
        freezes=False,
        no_effect="XLA chooses the library of each op on CPUs; GPUs have no oneDNN",
    )
    debug_graphviz_path = BuildFlag(
        "",
        as_text,
        obeyed="the IR is written as Graphviz, as a drawing and as text",
        pattern="the program before the passes, after the fusions, and at the end",
        effect="none on the program",
        observe="`<path>_original_graph`, `_fused_graph`, `_multi_devices_graph`, with `.dot`, "
        "`.svg` and `.mlir`",
    )


BUILD_FLAGS: Mapping[str, BuildFlag] = {
    name: flag
    for name, flag in BuildFlags.declared_settings().items()
    if isinstance(flag, BuildFlag)
}


def refused_flags(context: PassContext) -> Mapping[str, str]:
    """Map the flags that the user set and another flag rules out to the reasons."""
    asked = [f for n, f in BUILD_FLAGS.items() if n in context.asked and f.ruled_out is not None]
    return {flag.name: why for flag in asked if (why := flag.refusal(context))}


def check_supported(flags: Flags) -> None:
    """Raise UnsupportedError for a flag that a program cannot run with."""
    for name, flag in BUILD_FLAGS.items():
        if flag.unsupported and flags.get(name):
            raise UnsupportedError(f"BuildStrategy.{name} = True: {flag.unsupported}")


def check_axis(context: PassContext) -> None:
    """Raise UnsupportedError for settings that conflict with several devices for each replica."""
    if context.model == 1:
        return
    others = {
        "shard_parameters": bool(context.flags.get("shard_parameters")),
        "reduce_strategy = Reduce": context.reduction == "Reduce",
        f"{context.trainers} trainers": context.trainers > 1,
    }
    for other, is_asked in others.items():
        if is_asked:
            raise UnsupportedError(
                f"BuildStrategy.tensor_parallel_degree = {context.model} does not go together with "
                f"{other}: what a device has would be cut twice; use one of the two"
            )
