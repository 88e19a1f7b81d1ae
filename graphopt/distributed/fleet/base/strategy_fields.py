"""The fields of DistributedStrategy, each with its default and its meaning here.

Defaults are those of Paddle 2.6.2. A field is obeyed, has no effect, or is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Field:
    """A field: its default, and the reason where it is not obeyed."""

    default: Any
    no_effect: str = ""
    refused: str = ""


_XLA = "XLA owns the communicators and the streams"
_SERVER = "there is no parameter server"
_PARTS = "a program is not cut into parts for several devices"
_WHOLE = "each trainer has all parameters; their optimizer state is spread (stage 1)"
_DEVICE = "XLA chooses the kernels and the memory of the device"

FIELDS: Mapping[str, Field] = {
    "amp": Field(False),
    "recompute": Field(False),
    "gradient_merge": Field(False),
    "sharding": Field(False),
    "lars": Field(False),
    "lamb": Field(False),
    "sync_batch_norm": Field(False),
    "fuse_all_reduce_ops": Field(True),
    "without_graph_optimization": Field(True, "build_strategy is always obeyed"),
    "fuse_grad_size_in_MB": Field(32, "FLAGS_fuse_parameter_memory_size sets the size of a sum"),
    "fuse_grad_size_in_num": Field(8, "FLAGS_fuse_parameter_groups_size sets the size of a sum"),
    "_fuse_grad_size_in_TFLOPS": Field(
        50.0, "FLAGS_fuse_parameter_memory_size sets the size of a sum"
    ),
    "_calc_comm_same_stream": Field(False, _XLA),
    "fuse_grad_merge": Field(False, "gradients are merged one by one"),
    "last_comm_group_size_MB": Field(1.0, "all sums of gradients have one size"),
    "find_unused_parameters": Field(False, "a static program knows which parameters it uses"),
    "fp16_allreduce": Field(False, "devices add up gradients in float32"),
    "dgc": Field(False, "gradients are not compressed"),
    "nccl_comm_num": Field(1, _XLA),
    "sync_nccl_allreduce": Field(True, _XLA),
    "use_hierarchical_allreduce": Field(False, _XLA),
    "hierarchical_allreduce_inter_nranks": Field(1, _XLA),
    "heter_ccl_mode": Field(False, _XLA),
    "cudnn_exhaustive_search": Field(False, _DEVICE),
    "cudnn_batchnorm_spatial_persistent": Field(False, _DEVICE),
    "conv_workspace_size_limit": Field(512, _DEVICE),
    "elastic": Field(False, "a job does not go on with fewer trainers"),
    "split_data": Field(True, "each trainer feeds its own rows"),
    "a_sync": Field(False, refused=_SERVER),
    "is_fl_ps_mode": Field(False, refused=_SERVER),
    "is_with_coordinator": Field(False, refused=_SERVER),
    "adam_d2sum": Field(False, refused=_SERVER),
    "pipeline": Field(False, refused=_PARTS),
    "tensor_parallel": Field(False, refused=_PARTS),
    "auto": Field(False, refused="strategies are not searched for"),
    "semi_auto": Field(False, refused=_PARTS),
    "auto_search": Field(False, refused="strategies are not searched for"),
    "localsgd": Field(False, refused="trainers keep one value of each parameter"),
    "adaptive_localsgd": Field(False, refused="trainers keep one value of each parameter"),
    "asp": Field(False, refused="weights are not made sparse"),
    "qat": Field(False, refused="saved quantised models run, but training makes none"),
}

_AMP = {
    "init_loss_scaling": Field(32768.0),
    "incr_every_n_steps": Field(1000),
    "decr_every_n_nan_or_inf": Field(2),
    "incr_ratio": Field(2.0),
    "decr_ratio": Field(0.8),
    "use_dynamic_loss_scaling": Field(True),
    "custom_white_list": Field(()),
    "custom_black_list": Field(()),
    "custom_black_varnames": Field(()),
    "use_pure_fp16": Field(False),
    "use_pure_bf16": Field(False),
    "use_fp16_guard": Field(True),
    "use_optimizer_fp16": Field(False, "optimizer state is float32"),
}
_SHARDING = {
    **dict.fromkeys(
        ("sharding_segment_strategy", "segment_anchors", "enable_tuning", "use_calc_stream"),
        Field(None, "XLA decides when updates are exchanged"),
    ),
    "segment_broadcast_MB": Field(32.0, "XLA decides when updates are exchanged"),
    "hybrid_dp": Field(False, "the devices of a trainer share state, and trainers average"),
    "sharding_degree": Field(8, "state is spread over the devices of each trainer"),
    "dp_degree": Field(1, "the number of trainers is that of the job"),
    "stage": Field(1, _WHOLE),
    "mp_degree": Field(1, refused=_PARTS),
    "pp_degree": Field(1, refused=_PARTS),
    "gradient_merge_acc_step": Field(1, "gradient_merge_configs has k_steps"),
    "optimize_offload": Field(False, "state stays on the devices"),
    "optimize_cast": Field(False, "XLA moves the casts"),
    "pp_allreduce_in_optimize": Field(False, _XLA),
}
_UNUSED = Field(None, "the field that it belongs to is not obeyed")

# name of a dict of settings -> its keys
CONFIGS: Mapping[str, Mapping[str, Field]] = {
    "amp_configs": _AMP,
    "recompute_configs": {
        "checkpoints": Field(()),
        "enable_offload": Field(False, refused="kept values are not moved to the host"),
        "checkpoint_shape": Field((), "kept values are not moved to the host"),
        "enable_tuning": Field(False, "the compiler chooses where to cut"),
    },
    "gradient_merge_configs": {"k_steps": Field(1), "avg": Field(True)},
    "lars_configs": {
        "lars_coeff": Field(0.001),
        "lars_weight_decay": Field(0.0005),
        "epsilon": Field(0.0),
        "exclude_from_weight_decay": Field(()),
    },
    "lamb_configs": {
        "lamb_weight_decay": Field(0.01),
        "exclude_from_weight_decay": Field(()),
    },
    "sharding_configs": _SHARDING,
    "gradient_scale_configs": {
        "scale_strategy": Field("avg"),
        "scale_gradient": Field(False, "the seed of the derivative is scaled"),
    },
    "hybrid_configs": {
        "dp_degree": Field(-1, "the number of trainers is that of the job"),
        **dict.fromkeys(
            ("mp_degree", "pp_degree", "sharding_degree", "sep_degree"), Field(1, refused=_PARTS)
        ),
    },
    "dgc_configs": dict.fromkeys(("rampup_begin_step", "rampup_step", "sparsity"), _UNUSED),
    "localsgd_configs": dict.fromkeys(("k_steps", "begin_step"), _UNUSED),
    "adaptive_localsgd_configs": dict.fromkeys(("init_k_steps", "begin_step"), _UNUSED),
    "pipeline_configs": dict.fromkeys(
        ("micro_batch_size", "accumulate_steps", "schedule_mode", "p2p_cache_shape"), _UNUSED
    ),
    "tensor_parallel_configs": dict.fromkeys(
        ("tensor_parallel_degree", "tensor_init_seed"), _UNUSED
    ),
    "a_sync_configs": dict.fromkeys(
        (
            *("k_steps", "max_merge_var_num", "send_queue_size", "independent_recv_thread"),
            *("min_send_grad_num_before_recv", "thread_pool_size", "send_wait_times"),
            *("runtime_split_send_recv", "launch_barrier", "heter_worker_device_guard"),
            *("lr_decay_steps", "use_ps_gpu"),
        ),
        _UNUSED,
    ),
}
