"""The fields of DistributedStrategy, each with its default and its meaning here.

The defaults are from Paddle 2.6.2. A field is obeyed, has no effect, or is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StrategyField:
    """A field: its default, and the reason where it is not obeyed."""

    default: Any
    no_effect: str = ""
    refused: str = ""


_XLA = "XLA owns the communicators and the streams"
_SERVER = "there is no parameter server"
_PARTS = "a program is not cut into parts for several devices"
_DEVICE = "XLA chooses the kernels and the memory of the device"

FIELDS: Mapping[str, StrategyField] = {
    "amp": StrategyField(False),
    "recompute": StrategyField(False),
    "gradient_merge": StrategyField(False),
    "sharding": StrategyField(False),
    "tensor_parallel": StrategyField(False),
    "lars": StrategyField(False),
    "lamb": StrategyField(False),
    "sync_batch_norm": StrategyField(False),
    "fuse_all_reduce_ops": StrategyField(True),
    "without_graph_optimization": StrategyField(True, "build_strategy is always obeyed"),
    "fuse_grad_size_in_MB": StrategyField(
        32, "FLAGS_fuse_parameter_memory_size sets the size of a sum"
    ),
    "fuse_grad_size_in_num": StrategyField(
        8, "FLAGS_fuse_parameter_groups_size sets the size of a sum"
    ),
    "_fuse_grad_size_in_TFLOPS": StrategyField(
        50.0, "FLAGS_fuse_parameter_memory_size sets the size of a sum"
    ),
    "_calc_comm_same_stream": StrategyField(False, _XLA),
    "fuse_grad_merge": StrategyField(False, "gradients are merged one by one"),
    "last_comm_group_size_MB": StrategyField(1.0, "all sums of gradients have one size"),
    "find_unused_parameters": StrategyField(
        False, "a static program knows which parameters it uses"
    ),
    "fp16_allreduce": StrategyField(False, "devices add up gradients in float32"),
    "dgc": StrategyField(False, "gradients are not compressed"),
    "nccl_comm_num": StrategyField(1, _XLA),
    "sync_nccl_allreduce": StrategyField(True, _XLA),
    "use_hierarchical_allreduce": StrategyField(False, _XLA),
    "hierarchical_allreduce_inter_nranks": StrategyField(1, _XLA),
    "heter_ccl_mode": StrategyField(False, _XLA),
    "cudnn_exhaustive_search": StrategyField(False, _DEVICE),
    "cudnn_batchnorm_spatial_persistent": StrategyField(False, _DEVICE),
    "conv_workspace_size_limit": StrategyField(512, _DEVICE),
    "elastic": StrategyField(False, "a job does not go on with fewer trainers"),
    "split_data": StrategyField(True, "each trainer feeds its own rows"),
    "a_sync": StrategyField(False, refused=_SERVER),
    "is_fl_ps_mode": StrategyField(False, refused=_SERVER),
    "is_with_coordinator": StrategyField(False, refused=_SERVER),
    "adam_d2sum": StrategyField(False, refused=_SERVER),
    "pipeline": StrategyField(False, refused=_PARTS),
    "auto": StrategyField(False, refused="strategies are not searched for"),
    "semi_auto": StrategyField(False, refused=_PARTS),
    "auto_search": StrategyField(False, refused="strategies are not searched for"),
    "localsgd": StrategyField(False, refused="trainers keep one value of each parameter"),
    "adaptive_localsgd": StrategyField(False, refused="trainers keep one value of each parameter"),
    "asp": StrategyField(False, refused="weights are not made sparse"),
    "qat": StrategyField(False, refused="saved quantised models run, but training makes none"),
}

_AMP = {
    "init_loss_scaling": StrategyField(32768.0),
    "incr_every_n_steps": StrategyField(1000),
    "decr_every_n_nan_or_inf": StrategyField(2),
    "incr_ratio": StrategyField(2.0),
    "decr_ratio": StrategyField(0.8),
    "use_dynamic_loss_scaling": StrategyField(True),
    "custom_white_list": StrategyField(()),
    "custom_black_list": StrategyField(()),
    "custom_black_varnames": StrategyField(()),
    "use_pure_fp16": StrategyField(False),
    "use_pure_bf16": StrategyField(False),
    "use_fp16_guard": StrategyField(True),
    "use_optimizer_fp16": StrategyField(False, "optimizer state is float32"),
}
_SHARDING = {
    **dict.fromkeys(
        ("sharding_segment_strategy", "segment_anchors", "enable_tuning", "use_calc_stream"),
        StrategyField(None, "XLA decides when updates are exchanged"),
    ),
    "segment_broadcast_MB": StrategyField(32.0, "XLA decides when updates are exchanged"),
    "hybrid_dp": StrategyField(False, "the devices of a trainer share state, and trainers average"),
    "sharding_degree": StrategyField(8, "state is spread over the devices of each trainer"),
    "dp_degree": StrategyField(1, "the number of trainers is that of the job"),
    "stage": StrategyField(1),
    "mp_degree": StrategyField(1, refused=_PARTS),
    "pp_degree": StrategyField(1, refused=_PARTS),
    "gradient_merge_acc_step": StrategyField(1, "gradient_merge_configs has k_steps"),
    "optimize_offload": StrategyField(False, "state stays on the devices"),
    "optimize_cast": StrategyField(False, "XLA moves the casts"),
    "pp_allreduce_in_optimize": StrategyField(False, _XLA),
}
_UNUSED = StrategyField(None, "the field that it belongs to is not obeyed")

# dict of settings -> its keys
CONFIGS: Mapping[str, Mapping[str, StrategyField]] = {
    "amp_configs": _AMP,
    "recompute_configs": {
        "checkpoints": StrategyField(()),
        "enable_offload": StrategyField(False, refused="kept values are not moved to the host"),
        "checkpoint_shape": StrategyField((), "kept values are not moved to the host"),
        "enable_tuning": StrategyField(False, "the compiler chooses where to cut"),
    },
    "gradient_merge_configs": {"k_steps": StrategyField(1), "avg": StrategyField(True)},
    "lars_configs": {
        "lars_coeff": StrategyField(0.001),
        "lars_weight_decay": StrategyField(0.0005),
        "epsilon": StrategyField(0.0),
        "exclude_from_weight_decay": StrategyField(()),
    },
    "lamb_configs": {
        "lamb_weight_decay": StrategyField(0.01),
        "exclude_from_weight_decay": StrategyField(()),
    },
    "sharding_configs": _SHARDING,
    "gradient_scale_configs": {
        "scale_strategy": StrategyField("avg"),
        "scale_gradient": StrategyField(False, "the seed of the derivative is scaled"),
    },
    "hybrid_configs": {
        "dp_degree": StrategyField(-1, "the number of trainers is that of the job"),
        "mp_degree": StrategyField(1),
        **dict.fromkeys(
            ("pp_degree", "sharding_degree", "sep_degree"), StrategyField(1, refused=_PARTS)
        ),
    },
    "dgc_configs": dict.fromkeys(("rampup_begin_step", "rampup_step", "sparsity"), _UNUSED),
    "localsgd_configs": dict.fromkeys(("k_steps", "begin_step"), _UNUSED),
    "adaptive_localsgd_configs": dict.fromkeys(("init_k_steps", "begin_step"), _UNUSED),
    "pipeline_configs": dict.fromkeys(
        ("micro_batch_size", "accumulate_steps", "schedule_mode", "p2p_cache_shape"), _UNUSED
    ),
    "tensor_parallel_configs": {
        "tensor_parallel_degree": StrategyField(1),
        "tensor_init_seed": StrategyField(-1, "the startup program computes whole parameters"),
    },
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
