"""Paddle's flags: name, default and effect of each, the source of docs/reference/flags.md.

It has the public flags of Paddle 2.6.2 and of 1.8.5, and flags of GPU builds that scripts set.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Flag:
    """A flag, named without FLAGS_; its default determines its type."""

    name: str
    default: Any
    obeyed: bool
    effect: str


_REPEATS = (
    "compiles each program in its full form at once, unless `FLAGS_graphopt_tier` names another "
    "form, so that each run gives the same bits"
)

# the flags with an effect: their defaults and descriptions
OBEYED: Mapping[str, tuple[Any, str]] = {
    "check_nan_inf": (
        False,
        "looks for NaN and Inf in the feeds of each step and in the results of its operators. The "
        "first one raises NotFiniteError with the operator, variable and source line, and the step "
        "stores nothing. Programs compile again, and steps take longer",
    ),
    "check_nan_inf_level": (
        0,
        "0 raises NotFiniteError; a higher level warns of each value and keeps the step",
    ),
    "fuse_parameter_groups_size": (
        1,
        "the least number of gradients in a group of `fuse_all_reduce_ops`, from the next "
        "compilation on",
    ),
    "fuse_parameter_memory_size": (
        -1.0,
        "the megabytes of a group of `fuse_all_reduce_ops`: -1 for one group per layer, 0 for one "
        "group in all",
    ),
    "paddle_num_threads": (
        1,
        "the most threads that compute on the CPU; set it before the first run. Without it, one "
        "thread for each core (docs/how-to/run-on-a-cpu.md)",
    ),
    "selected_gpus": ("", "the GPUs of `cuda_places()`, from the environment"),
    "graphopt_cuda_place": (
        "strict",
        "the meaning of `CUDAPlace` where JAX has no GPU: `strict` raises an error; `best` takes "
        "the best device with a warning, and `is_compiled_with_cuda()` is True (not Paddle's)",
    ),
    "graphopt_paddle_version": (
        "",
        "the release of Paddle that `paddle.__version__`, `paddle.version` and `require_version` "
        "report, such as `2.4.2`. By default it is 1.8.5 in a script with `paddle.fluid`, and "
        "2.6.2 in others. It changes no operator (not Paddle's)",
    ),
    "graphopt_without": ("", "the passes to leave out, separated by commas (not Paddle's)"),
    "graphopt_tf32": (
        True,
        "lets GPUs compute float32 products and convolutions in TF32 (10 bits after the point), as "
        "Paddle does by default, from the next compilation on; `explain` reports the precision "
        "(not Paddle's, which has `core.set_cublas_switch` and `set_cudnn_switch`)",
    ),
    "graphopt_kernels": (
        "auto",
        "special kernels. On CPUs, `auto` compiles a program that has run for ten seconds again "
        "with kernels of oneDNN (part of jaxlib on x86), alternates the two forms for some runs, "
        "and keeps the quicker one; each kind of kernel is first tried in another process. `on` "
        "uses the kernels from the first step on, and stores nothing of the program on disk. On "
        "GPUs and TPUs, `auto` measures an op with and without its kernel, once for each kind of "
        "device, and `on` chooses by rules. `off` uses no kernels (not Paddle's)",
    ),
    "graphopt_keep_scratch": (
        True,
        "keeps the memory of a step's intermediate values in the process, on CPUs with glibc; "
        "otherwise the system maps and clears it in each step. A compiled step that takes more "
        "than 32 MB has it only in the main thread, and if graphopt was the first to import JAX "
        "(not Paddle's)",
    ),
    "graphopt_mapper": (
        "auto",
        "the function that maps one replica of a data-parallel program over the devices, from the "
        "next compilation on: `auto`, `pmap`, `shard_map` or `vmap`; `ExecutionStrategy.mapper` "
        "takes precedence (not Paddle's)",
    ),
    "graphopt_full_traceback": (
        False,
        "shows the frames of graphopt in tracebacks of errors, too (not Paddle's)",
    ),
    "graphopt_buckets": (
        "auto",
        "the padding of feeds of many sizes in an Executor without buckets: `auto` pads sequences "
        "with lengths, and, in trainings and predictors, feeds whose open sizes have changed, to a "
        "few sizes if the results stay the same, and keeps the caches of decoders in buffers; "
        "`off` compiles each size (not Paddle's)",
    ),
    "graphopt_tier": (
        "auto",
        "the form of programs on CPUs: `host` runs NumPy, where it has all operators and their "
        "derivatives; `fast` runs XLA's quickest compilation, and `full` its quickest code. `auto` "
        "begins with the first of the three that a program has, and compiles the full form in the "
        "background once the same sizes recur; in a training from a seed it changes at a counted "
        "run. Small programs, programs over several places, and programs that call Python have "
        "the full form at once. The forms differ by rounding (not Paddle's)",
    ),
    "cpu_deterministic": (False, _REPEATS),
    "cudnn_deterministic": (False, _REPEATS),
    "graphopt_progress": (
        True,
        "reports compilations of more than two seconds on standard error: the program, its size "
        "and the reason. If it is set to 1, commands report their progress to files as well as "
        "terminals. GLOG_minloglevel=1 in the environment silences it (not Paddle's)",
    ),
    "graphopt_check_ids": (
        "fed",
        "the ids of rows and classes that are checked: `fed` ones before each step; `all`, also "
        "those that a step computes, which keeps the old state until the step ends; or `off`. "
        "Unless it is `off`, integer divisors are checked for 0 (not Paddle's)",
    ),
    "graphopt_cache_dir": (
        "",
        "the folder of compiled programs for later processes; set it before the first "
        "compilation. Empty for no cache (not Paddle's)",
    ),
}

# the flags without an effect, with their defaults, by reason
_WITHOUT_EFFECT: Mapping[str, str] = {
    "XLA plans the memory of a program as a whole": """
        alloc_fill_value -1, allocator_strategy 'auto_growth', auto_growth_chunk_size_in_mb 0,
        eager_delete_scope True, eager_delete_tensor_gb 0.0, fast_eager_deletion_mode True,
        fraction_of_cpu_memory_to_use 1.0, fraction_of_cuda_pinned_memory_to_use 0.5,
        fraction_of_gpu_memory_to_use 0.9200000166893005, free_idle_chunk False,
        free_when_no_cache_hit False, gpu_allocator_retry_time 10000, gpu_memory_limit_mb 0,
        init_allocated_mem False,
        initial_cpu_memory_in_mb 500, initial_gpu_memory_in_mb 0, local_exe_sub_scope_limit 256.0,
        log_memory_stats False, memory_fraction_of_eager_deletion 1.0,
        print_allocator_trace_info False, reallocate_gpu_memory_in_mb 0, sync_after_alloc False,
        use_auto_growth_pinned_allocator False, use_cuda_managed_memory False,
        use_pinned_memory True, use_stream_safe_cuda_allocator True, use_system_allocator False,
        use_virtual_memory_auto_growth False, enable_record_memory False,
        cuda_malloc_async_pool_memory_throttle_ratio 0.8, enable_gpu_memory_usage_log False""",
    "XLA chooses the kernels, and gives the same numbers for the same program": """
        benchmark False, conv2d_disable_cudnn False, conv_workspace_size_limit 512,
        cublaslt_exhaustive_search_times 0,
        cudnn_batchnorm_spatial_persistent False,
        cudnn_exhaustive_search False, cudnn_exhaustive_search_times -1,
        embedding_deterministic 0, enable_api_kernel_fallback True,
        enable_cublas_tensor_op_math False, gemm_use_half_precision_compute_type False,
        inner_op_parallelism 0, low_precision_op_list 0, npu_storage_format False,
        run_kp_kernel False, search_cache_max_number 1000000,
        use_autotune False, use_fast_math False, use_mkldnn False, use_ngraph False,
        use_stride_kernel True, tracer_mkldnn_ops_off '', tracer_mkldnn_ops_on '', einsum_opt False,
        trt_ibuilder_cache False, set_to_1d False""",
    "a program is one compiled function; no executor walks over its operators": """
        add_dependency_for_communication_op True, allreduce_record_one_event False,
        apply_pass_to_program False, async_trace_count 5, cache_inference_while_scope False,
        enable_adjust_op_order 0, enable_async_trace False,
        enable_dependency_builder_debug_info False, enable_dump_main_program False,
        enable_parallel_graph False, enable_pir_api False, enable_pir_in_executor False,
        enable_pir_in_executor_trace_run False, enable_pir_with_pt_in_dy2st True,
        enable_unused_var_check False, executor_log_deps_every_microseconds 0,
        ir_inplace_kernel_blacklist '', max_inplace_grad_add 0, new_executor_sequential_run False,
        new_executor_serial_run False, new_executor_static_build False,
        new_executor_use_cuda_graph False, new_executor_use_inplace False,
        new_executor_use_local_scope True, pe_profile_fname '', pir_apply_inplace_pass True,
        pir_subgraph_saving_dir '', prim_enabled False, print_ir False, print_sub_graph_dir '',
        static_executor_perfstat_filepath '', auto_free_cudagraph_allocations_on_launch True""",
    "there is no dynamic mode, and a traced function is one program": """
        convert_all_blocks True, dygraph_debug 0, jit_engine_type 'Predictor',
        sort_sum_gradient False, tensor_operants_mode 'eager'""",
    "errors always name the operator and the source line": """
        call_stack_level 1""",
    "JAX's profiler records traces": """
        enable_rpc_profiler False, host_trace_level 1, multiple_of_cupti_buffer_size 1,
        tracer_profile_fname 'xxgperf'""",
    "feeds are arrays; there is no reader in another process": """
        reader_queue_speed_test_mode False, use_shm_cache False""",
    "JAX's runtime connects the trainers of a job": """
        dist_threadpool_size 0, enable_all2all_use_fp16 False, enable_auto_detect_gpu_topo True,
        enable_auto_rdma_trans True, enable_tracker_all2all False,
        fleet_executor_with_standalone False, get_host_by_name_time 120,
        nccl_blocking_wait False, nccl_nrings 1, selected_xpus '',
        sync_nccl_allreduce True""",
    "there is no parameter server": """
        communicator_is_sgd_optimizer True, communicator_max_merge_var_num 20,
        communicator_send_queue_size 20, enable_exit_when_partial_worker False,
        rocksdb_path 'database', rpc_deadline 180000, rpc_send_thread_num 12""",
    "there is no graph learning engine": """
        enable_graph_multi_node_sampling False, enable_neighbor_list_use_uva False,
        enable_opt_get_features False, enable_sparse_inner_gather False,
        gpugraph_debug_gpu_memory False, gpugraph_dedup_pull_push_mode 0,
        gpugraph_enable_gpu_direct_access False, gpugraph_enable_hbm_table_collision_stat False,
        gpugraph_enable_print_op_debug False, gpugraph_enable_segment_merge_grads False,
        gpugraph_force_device_batch_num_equal False, gpugraph_hbm_table_load_factor 0.75,
        gpugraph_load_node_list_into_hbm True, gpugraph_merge_grads_segment_size 128,
        gpugraph_offload_gather_copy_maxsize 16,
        gpugraph_offload_param_extends '.w_0_moment,.b_0_moment', gpugraph_offload_param_stat 0,
        gpugraph_parallel_copyer_split_maxsize 64, gpugraph_parallel_stream_num 8,
        gpugraph_slot_feasign_max_num 5, gpugraph_sparse_table_storage_mode 0,
        gpugraph_storage_mode 1, graph_edges_debug_node_id 0, graph_edges_debug_node_num 2,
        graph_edges_split_debug False, graph_edges_split_mode 'hard',
        graph_edges_split_only_by_src_id False, graph_embedding_split_infer_mode True,
        graph_get_neighbor_id False, graph_load_in_parallel False, graph_metapath_split_opt False,
        graph_neighbor_size_percent 1.0, multi_node_sample_use_gpu_table True,
        query_dest_rank_by_multi_node False""",
}


def _flags() -> dict[str, Flag]:
    found = {name: Flag(name, value, True, text) for name, (value, text) in OBEYED.items()}
    for reason, listed in _WITHOUT_EFFECT.items():
        for entry in re.split(r",\s+", listed.strip()):
            name, default = entry.split()
            found[name] = Flag(name, literal_eval(default), False, reason)
    return dict(sorted(found.items()))


FLAGS = _flags()
