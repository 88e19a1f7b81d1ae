"""The text of docs/reference/build-strategy.md about each flag, with the text of its pass.

`pattern` is the pattern of the flag, `effect` its effect on the backends of XLA, `observe` the
place to see it. Flags that are not here have the words of `pipeline.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """The columns for one flag."""

    pattern: str
    effect: str
    observe: str


_IR = "CPU, GPU, TPU: fewer ops in the IR and one derivative for the whole; XLA fuses either form"
_ATTENTION = (
    "CPU, GPU, TPU: long sequences (512 when differentiated, else 1024) go by tiles of the scores, "
    "which are not kept"
)
_REFUSED = "none: compiling raises, as there is no parameter server"
_COUNT = "op counts of `explain`; `graphopt-opt --build-strategy`"
_IN_ORDER = Note(
    "sums over devices",
    "several devices of any kind: they start one after another, in the order of the program, and "
    "XLA joins none of them",
    "`pd.fence` in the IR; the all-reduces in the HLO that XLA made",
)

NOTES: Mapping[str, Note] = {
    "fuse_elewise_add_act_ops": Note("act(x + y), x + act(y)", _IR, _COUNT),
    "fuse_bn_act_ops": Note("act(batch_norm(x))", _IR, _COUNT),
    "fuse_bn_add_act_ops": Note("act(batch_norm(x) + z)", _IR, _COUNT),
    "fuse_relu_depthwise_conv": Note(
        "depthwise_conv2d(relu(x), w)",
        "CPU, GPU, TPU: no relu op, and one derivative for both; a step takes as much memory as "
        "before, measured on a CPU",
        _COUNT,
    ),
    "fused_attention": Note(
        "a Transformer layer's attention: projections, softmax(q @ k) @ v, residual, layer_norm",
        _ATTENTION,
        _COUNT,
    ),
    "fused_feedforward": Note(
        "a Transformer layer's two linear layers with dropouts, residual and layer_norm",
        _IR,
        _COUNT,
    ),
    "fuse_dot_product_attention": Note(
        "softmax(q @ k + mask) @ v",
        f"{_ATTENTION}; on CPUs these are fused without the flag too",
        _COUNT,
    ),
    "fuse_gemm_epilogue": Note("act(x @ w + b), x @ w + b", _IR, _COUNT),
    "fuse_all_optimizer_ops": Note(
        "sgd, momentum and adam updates of one dtype, learning rate and properties",
        "CPU, GPU, TPU: one op in the IR for each group, computed parameter by parameter",
        _COUNT,
    ),
    "fuse_adamw": Note(
        "adamw updates of one dtype, learning rate and properties",
        "CPU, GPU, TPU: one op in the IR for each group, computed parameter by parameter",
        _COUNT,
    ),
    "sync_batch_norm": Note(
        "every batch_norm",
        "several devices of any kind: one sum over the devices for each batch norm",
        "`sync = true` in the IR; an all-reduce more in `--emit stablehlo`",
    ),
    "reduce_strategy": Note(
        "gradients of parameters, and their updates",
        "several devices of any kind: one sum over the devices for each gradient; with Reduce each "
        "device updates a part of every parameter and keeps that part of the optimizer's state",
        "`pd.all_reduce`, `pd.reduce_scatter` and `pd.all_gather` in the IR; bytes per device",
    ),
    "fuse_all_reduce_ops": Note(
        "gradients of one layer and dtype, of 32 KB at most "
        "(FLAGS_fuse_parameter_memory_size, FLAGS_fuse_parameter_groups_size)",
        "several devices of any kind, AllReduce: one collective for each group; same bits",
        "`pd.all_reduce` in the IR, all-reduces in `--emit stablehlo`",
    ),
    "fuse_broadcast_ops": Note(
        "parameters of one dtype, at most 32 KB of each on a device",
        "several devices of any kind, Reduce: one collective puts all of them together; same bits",
        "`pd.all_gather` in the IR, all-gathers in `--emit stablehlo`",
    ),
    "gradient_scale_strategy": Note(
        "the seed of the loss's gradient",
        "several devices of any kind: 1 / devices, 1, or a feed",
        "the constant that `pd.grad` starts from",
    ),
    "fuse_resunit": Note("act(batch_norm(conv2d(x))), act(batch_norm(conv2d(x)) + z)", _IR, _COUNT),
    "memory_optimize": Note(
        "what derivatives go through",
        "CPU, GPU, TPU: activations inside segments are computed again instead of kept. On CPUs "
        "XLA also keeps the barriers of such a program (`xla_disable_hlo_passes`)",
        "`pd.recompute` in the IR; `stablehlo.optimization_barrier` in `--emit stablehlo`; the "
        "temporary bytes of XLA's memory analysis",
    ),
    "enable_addto": Note(
        "gradients of several parts: parameters, or other values, that several ops read",
        "CPU, GPU, TPU: each part is added before the next one is computed; without the flag XLA "
        "keeps all parts and adds them at the end",
        "`addto = true` in the IR; the temporary bytes of XLA's memory analysis",
    ),
    "enable_sequential_execution": _IN_ORDER,
    "sequential_run": _IN_ORDER,
    "fix_op_run_order": Note(
        "every op",
        "CPU, GPU, TPU: programs that differ in the order of independent ops are one program; "
        "Paddle also stops at equal operators, which values keep apart here",
        "the text of the IR",
    ),
    "enable_backward_optimizer_op_deps": Note(
        "updates of parameters, with several trainers",
        "CPU, GPU, TPU: one barrier between gradients and updates",
        "one `pd.fence` in the IR",
    ),
    "async_mode": Note("", _REFUSED, "the error; `explain`"),
    "is_distribution": Note("", _REFUSED, "the error; `explain`"),
    "enable_inplace": Note(
        "state that is updated",
        "CPU, GPU, TPU: its buffers are donated",
        "the aliased bytes of XLA's memory analysis",
    ),
    "debug_graphviz_path": Note(
        "the program before the passes, after the fusions, and at the end",
        "none on the program",
        "`<path>_original_graph`, `_fused_graph`, `_multi_devices_graph`, each also with `.mlir`",
    ),
    "num_trainers": Note(
        "the seed of the loss's gradient",
        "several processes: one sum over the devices of all of them for each gradient",
        "the constant; `stats` of the CompiledProgram",
    ),
    "trainer_id": Note("the process", "several processes: its number", "messages"),
    "trainers_endpoints": Note("the processes", "several processes: where they meet", "messages"),
}

# The flags that one of the Paddle versions 1.8, 2.6 and 3.3 has not.
MISSING: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            "allow_cuda_graph_capture",
            "bkcl_comm_num",
            "build_cinn_pass",
            "enable_addto",
            "fuse_adamw",
            "fuse_bn_add_act_ops",
            "fuse_gemm_epilogue",
            "fused_attention",
            "fused_feedforward",
            "sequential_run",
        ),
        ("1.8",),
    ),
    **dict.fromkeys(("fuse_dot_product_attention", "fuse_resunit"), ("1.8", "2.6")),
    **dict.fromkeys(
        (
            "enable_sequential_execution",
            "gradient_scale_strategy",
            "is_distribution",
            "remove_unnecessary_lock",
        ),
        ("3.3",),
    ),
    "fix_op_run_order": ("1.8", "3.3"),
}


def versions_of(flag: str) -> str:
    """The Paddle versions, of those that were looked at, that have a flag."""
    return ", ".join(v for v in ("1.8", "2.6", "3.3") if v not in MISSING.get(flag, ()))
