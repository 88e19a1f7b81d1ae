"""What docs/reference/build-strategy.md says about each flag besides its pass.

`pattern` is what the flag looks for, `effect` what that means on the backends of XLA, `observe`
where one can see it. Flags that are not here have the words of `pipeline.py`.
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
    "CPU, GPU, TPU: long sequences (512 when differentiated, else 1024) go by blocks of rows, "
    "whose scores are not kept"
)
_COUNT = "op counts of `explain`; `graphopt-opt --build-strategy`"

NOTES: Mapping[str, Note] = {
    "fuse_elewise_add_act_ops": Note("act(x + y), x + act(y)", _IR, _COUNT),
    "fuse_bn_act_ops": Note("act(batch_norm(x))", _IR, _COUNT),
    "fuse_bn_add_act_ops": Note("act(batch_norm(x) + z)", _IR, _COUNT),
    "fuse_relu_depthwise_conv": Note(
        "depthwise_conv2d(relu(x), w)",
        "CPU, GPU, TPU: no relu op; its derivative starts from x, so relu(x) is not kept",
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
    "fuse_dot_product_attention": Note("softmax(q @ k + mask) @ v", _ATTENTION, _COUNT),
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
        "gradients of parameters",
        "several devices of any kind: one sum over the devices for each gradient",
        "`pd.all_reduce` in the IR",
    ),
    "gradient_scale_strategy": Note(
        "the seed of the loss's gradient",
        "several devices of any kind: 1 / devices, 1, or a feed",
        "the constant that `pd.grad` starts from",
    ),
    "enable_inplace": Note(
        "state that is updated", "CPU, GPU, TPU: its buffers are donated", "memory in use"
    ),
    "debug_graphviz_path": Note("the program", "none on the program", "the files"),
    "num_trainers": Note("the seed of the loss's gradient", "its scale", "the constant"),
}
