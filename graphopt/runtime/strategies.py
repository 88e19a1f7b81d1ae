"""BuildStrategy and ExecutionStrategy as tables of settings.

What a flag does is not decided here: `passes/table/pipeline.py` has the table flag -> passes.
Paddle pages: paddle.static.BuildStrategy, paddle.static.ExecutionStrategy.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from graphopt.passes.table.context import PassContext
from graphopt.passes.table.pipeline import select
from graphopt.runtime.flags import MAPPERS, coalescing, left_out, mapper_flag
from graphopt.runtime.settings import (
    Setting,
    Settings,
    as_choice,
    as_count,
    as_flag,
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


class BuildStrategy(Settings):
    """The optimisations to apply to a program; defaults and checks are those of Paddle 2.6.

    Setting a wrong type raises TypeError, an unknown name AttributeError, and a frozen strategy
    RuntimeError.
    """

    ReduceStrategy = ReduceStrategy
    GradientScaleStrategy = GradientScaleStrategy

    # fusions
    fuse_elewise_add_act_ops = Setting(False)
    fuse_bn_act_ops = Setting(False)
    fuse_bn_add_act_ops = Setting(True)
    fuse_relu_depthwise_conv = Setting(False)
    fuse_gemm_epilogue = Setting(False)
    fused_attention = Setting(False)
    fused_feedforward = Setting(False)
    enable_auto_fusion = Setting(False)
    build_cinn_pass = Setting(False)
    fuse_dot_product_attention = Setting(False)
    fuse_resunit = Setting(False)
    # optimizers and communication
    fuse_adamw = Setting(False)
    fuse_all_optimizer_ops = Setting(False)
    fuse_all_reduce_ops = Setting(True, freezes=False)
    fuse_broadcast_ops = Setting(True)
    reduce_strategy = Setting(ReduceStrategy.AllReduce, as_member(ReduceStrategy))
    gradient_scale_strategy = Setting(
        GradientScaleStrategy.CoeffNumDevice, as_member(GradientScaleStrategy)
    )
    sync_batch_norm = Setting(False)
    num_trainers = Setting(1, as_size, freezes=False)
    trainer_id = Setting(0, as_size, freezes=False)
    trainers_endpoints = Setting(list[str](), as_names(list), freezes=False)
    nccl_comm_num = Setting(1, as_size, freezes=False)
    bkcl_comm_num = Setting(1, as_size, freezes=False)
    use_hierarchical_allreduce = Setting(False, freezes=False)
    hierarchical_allreduce_inter_nranks = Setting(0, as_size, freezes=False)
    async_mode = Setting(False, freezes=False)
    is_distribution = Setting(False, freezes=False)
    # memory, order and debugging
    memory_optimize = Setting(None, as_tristate, freezes=False)
    enable_inplace = Setting(True, as_flag, freezes=False)
    enable_addto = Setting(False, freezes=False)
    enable_sequential_execution = Setting(False)
    sequential_run = Setting(False)
    fix_op_run_order = Setting(False, freezes=False)
    remove_unnecessary_lock = Setting(True)
    cache_runtime_context = Setting(False, freezes=False)
    enable_backward_optimizer_op_deps = Setting(True, freezes=False)
    allow_cuda_graph_capture = Setting(False, freezes=False)
    mkldnn_enabled_op_types = Setting(set[str](), as_names(set), freezes=False)
    debug_graphviz_path = Setting("", as_text)

    def _finalize_strategy_and_create_passes(self) -> list[str]:
        """Freeze the strategy and return the names of the passes that it selects, in order."""
        object.__setattr__(self, "is_finalized", True)
        return [made.name for _, made in select(self.pass_context())]

    def pass_context(self, **options: Any) -> PassContext:
        """The PassContext for the passes: the flags, and `options` about the run."""
        flags = {name: getattr(self, name) for name in self.all_settings()} | coalescing()
        return PassContext(flags, frozenset(self.values), without=left_out(), **options)

    def _copy(self) -> BuildStrategy:
        """A copy that is not finalised."""
        twin = BuildStrategy()
        twin.values.update(self.values)
        return twin

    def _clear_finalized(self) -> None:
        object.__setattr__(self, "is_finalized", False)


class ExecutionStrategy(Settings):
    """The settings of a run; wrong types raise TypeError, too small numbers ValueError.

    `num_iteration_per_run` steps are one call, which returns the last one's fetches. They run on
    the same feed, or each on its own: an array of [steps, rows, …], one dimension more than its
    variable has, is a batch for each step. `mapper` chooses the function of JAX that makes one
    replica several: `pmap`, `shard_map` or `vmap`; by default graphopt does. The other settings
    have no effect, as `CompiledProgram.explain` says.
    """

    num_threads = Setting(0, as_size)
    num_iteration_per_drop_scope = Setting(100, as_count)
    num_iteration_per_run = Setting(1, as_count)
    allow_op_delay = Setting(False)
    use_experimental_executor = Setting(True)
    use_thread_barrier = Setting(False)
    use_cuda = Setting(True)
    mapper = Setting("auto", as_choice(*MAPPERS))
    _dry_run = Setting(False)

    def chosen_mapper(self) -> str:
        """The mapper that was set here, else by FLAGS_graphopt_mapper; ValueError for no mapper."""
        return self.mapper if "mapper" in self.values else mapper_flag()

    def explain(self) -> list[str]:
        """A line for each setting that was set, with what it does."""
        no_effect = "no effect here"
        return [
            f"{n}: {EXECUTION.get(n, no_effect)}" for n in self.all_settings() if n in self.values
        ]


# What the settings of ExecutionStrategy do.
EXECUTION = {
    "num_iteration_per_run": "steps in one call, on the same feed or on a batch for each",
    "num_threads": "no effect here (XLA has threads of its own)",
    "num_iteration_per_drop_scope": "no effect here (XLA keeps no temporaries between steps)",
    "allow_op_delay": "no effect here, nor in Paddle",
    "use_experimental_executor": "no effect here (there is one executor)",
    "use_thread_barrier": "no effect here (there is no parameter server)",
    "use_cuda": "no effect here (the places decide)",
    "mapper": "what makes one replica several: `pmap`, `shard_map`, `vmap`, or `auto`, which takes "
    "`shard_map` where there is a device for each place and `vmap` elsewhere (not Paddle's)",
}
