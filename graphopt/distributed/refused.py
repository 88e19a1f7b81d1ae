"""Names of paddle.distributed that graphopt lacks: the reason for each, and a replacement."""

from __future__ import annotations

from collections.abc import Mapping

_EAGER = (
    "it moves tensors between single processes",
    "all_reduce, all_gather and broadcast, or "
    "static.CompiledProgram(program).with_data_parallel(loss_name), which averages gradients",
)
_GROUPS = ("there is one group, that of all trainers", "the functions without the argument group")
_SHARDING = (
    "it cuts single tensors into pieces over processes",
    "build_strategy.shard_parameters, which spreads parameters over devices",
)
_SPAWN = ("it starts functions, not scripts", "python -m graphopt.launch --nproc N script.py")

# name in paddle.distributed -> the reason for the refusal, the replacement
NAMES: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(
        (
            *("all_gather_object", "alltoall", "alltoall_single"),
            *("broadcast_object_list", "reduce", "reduce_scatter", "scatter"),
            *("scatter_object_list", "gather", "send", "recv", "isend", "irecv"),
            *("batch_isend_irecv", "wait"),
        ),
        _EAGER,
    ),
    **dict.fromkeys(("new_group", "get_group", "destroy_process_group"), _GROUPS),
    **dict.fromkeys(("split", "shard_tensor", "shard_op", "reshard", "shard_layer"), _SHARDING),
    "spawn": _SPAWN,
    "launch": _SPAWN,
    **dict.fromkeys(
        ("gloo_init_parallel_env", "gloo_barrier", "gloo_release"),
        ("gloo is JAX's choice here", "init_parallel_env and barrier"),
    ),
}
