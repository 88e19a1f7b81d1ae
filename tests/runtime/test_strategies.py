"""BuildStrategy and ExecutionStrategy as objects: defaults, setters, freezing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphopt import static
from graphopt.runtime.settings.strategies import BuildStrategy, ExecutionStrategy
from graphopt_tests.runtime.nets import close, fc_mean, rows, value

# The defaults of Paddle 2.6.2, as read from the live object.
DEFAULTS: dict[str, Any] = {
    "allow_cuda_graph_capture": False,
    "async_mode": False,
    "bkcl_comm_num": 1,
    "nccl_comm_num": 1,
    "build_cinn_pass": False,
    "cache_runtime_context": False,
    "debug_graphviz_path": "",
    "enable_addto": False,
    "enable_auto_fusion": False,
    "enable_backward_optimizer_op_deps": True,
    "enable_inplace": True,
    "enable_sequential_execution": False,
    "fix_op_run_order": False,
    "fuse_adamw": False,
    "fuse_all_optimizer_ops": False,
    "fuse_all_reduce_ops": True,
    "fuse_bn_act_ops": False,
    "fuse_bn_add_act_ops": True,
    "fuse_broadcast_ops": True,
    "fuse_elewise_add_act_ops": False,
    "fuse_gemm_epilogue": False,
    "fuse_relu_depthwise_conv": False,
    "fused_attention": False,
    "fused_feedforward": False,
    "gradient_scale_strategy": BuildStrategy.GradientScaleStrategy.CoeffNumDevice,
    "hierarchical_allreduce_inter_nranks": 0,
    "use_hierarchical_allreduce": False,
    "is_distribution": False,
    "memory_optimize": None,
    "mkldnn_enabled_op_types": set(),
    "num_trainers": 1,
    "trainer_id": 0,
    "trainers_endpoints": [],
    "reduce_strategy": BuildStrategy.ReduceStrategy.AllReduce,
    "remove_unnecessary_lock": True,
    "sequential_run": False,
    "sync_batch_norm": False,
}
# Flags of Paddle 3 that are here too.
LATER = {"fuse_dot_product_attention": False, "fuse_resunit": False}
OWN = {"shard_parameters": False, "tensor_parallel_degree": 1}
FLAGS = [n for n, v in {**DEFAULTS, **LATER, **OWN}.items() if isinstance(v, bool)]
ENUMS = ["gradient_scale_strategy", "reduce_strategy"]
SIZES = [n for n, v in DEFAULTS.items() if isinstance(v, int) and not isinstance(v, bool)]
FROZEN = {
    "debug_graphviz_path",
    "enable_auto_fusion",
    "enable_sequential_execution",
    "remove_unnecessary_lock",
    "sync_batch_norm",
    "build_cinn_pass",
    "sequential_run",
    "shard_parameters",
    "tensor_parallel_degree",
    *ENUMS,
    *(n for n in FLAGS if n.startswith(("fuse_", "fused_")) and n != "fuse_all_reduce_ops"),
}


def test_defaults() -> None:
    """Every property of 2.6.2 has its default; the only others are Paddle 3's and our own."""
    strategy = BuildStrategy()
    assert {name: getattr(strategy, name) for name in strategy.all_settings()} == {
        **DEFAULTS,
        **LATER,
        **OWN,
    }
    assert isinstance(strategy.mkldnn_enabled_op_types, set)


def test_enumerations() -> None:
    """Members have Paddle's numbers."""
    scales = {m.name: m.value for m in BuildStrategy.GradientScaleStrategy}
    assert scales == {"CoeffNumDevice": 0, "One": 1, "Customized": 2}
    reductions = {m.name: m.value for m in BuildStrategy.ReduceStrategy}
    assert reductions == {"AllReduce": 0, "Reduce": 1, "_NoReduce": 2}


@pytest.mark.parametrize("name", FLAGS)
def test_flags_take_the_truth_of_numbers(name: str) -> None:
    """None is False, numbers count by their truth, text is refused."""
    strategy = BuildStrategy()
    for given, wanted in (
        (True, True),
        (False, False),
        (None, False),
        (1, True),
        (1.5, True),
        (0, False),
        (np.bool_(True), True),
    ):
        setattr(strategy, name, given)
        assert getattr(strategy, name) is wanted
    for wrong in ("True", [True], {}):
        with pytest.raises(TypeError, match=rf"{name}: incompatible function arguments"):
            setattr(strategy, name, wrong)


@pytest.mark.parametrize("name", ENUMS)
def test_enumerations_take_their_members_only(name: str) -> None:
    """Numbers, names and members of the other enumeration are refused."""
    strategy = BuildStrategy()
    other = getattr(strategy, next(n for n in ENUMS if n != name))
    for wrong in (1, "One", None, other):
        with pytest.raises(TypeError, match=rf"{name}: incompatible function arguments"):
            setattr(strategy, name, wrong)
    for member in type(getattr(strategy, name)):
        setattr(strategy, name, member)
        assert getattr(strategy, name) is member


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name: str) -> None:
    """Sizes are whole numbers from zero on."""
    strategy = BuildStrategy()
    setattr(strategy, name, np.int64(3))
    assert getattr(strategy, name) == 3 and type(getattr(strategy, name)) is int
    for wrong in (-1, 1.5, "1", None):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            setattr(strategy, name, wrong)


def test_memory_optimize() -> None:
    """It takes three values, and no other true or false value."""
    strategy = BuildStrategy()
    for given in (True, False, None):
        strategy.memory_optimize = given
        assert strategy.memory_optimize is given
    for wrong in (1, 0, "True", 1.0):
        with pytest.raises(ValueError, match="must be set to None, False or True"):
            strategy.memory_optimize = wrong


def test_texts_and_lists() -> None:
    """A path is text; endpoints and op types are several texts; reads give copies."""
    strategy = BuildStrategy()
    strategy.debug_graphviz_path = "./graph"
    strategy.trainers_endpoints = ("a:1", "b:2")
    strategy.mkldnn_enabled_op_types = {"relu"}
    assert strategy.trainers_endpoints == ["a:1", "b:2"]
    strategy.trainers_endpoints.append("c:3")
    BuildStrategy().trainers_endpoints.append("c:3")
    assert strategy.trainers_endpoints == ["a:1", "b:2"]
    assert BuildStrategy().trainers_endpoints == []
    for name, wrong in (
        ("debug_graphviz_path", 3),
        ("debug_graphviz_path", None),
        ("trainers_endpoints", "a:1"),
        ("mkldnn_enabled_op_types", [1]),
    ):
        with pytest.raises(TypeError, match=rf"{name}: incompatible"):
            setattr(strategy, name, wrong)


@pytest.mark.parametrize("kind", [BuildStrategy, ExecutionStrategy])
def test_unknown_names(kind: type[Any]) -> None:
    """Unknown names cannot be set or read; a similar name is suggested."""
    strategy = kind()
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        strategy.nonsense = True
    with pytest.raises(AttributeError, match="has no attribute"):
        _ = strategy.nonsense
    if kind is BuildStrategy:
        with pytest.raises(AttributeError, match="did you mean fuse_bn_act_ops"):
            strategy.fuse_bn_act = True


def test_finalising_freezes() -> None:
    """The same settings as in Paddle are blocked; a copy and `_clear_finalized` unblock them."""
    strategy = BuildStrategy()
    strategy.fuse_gemm_epilogue = True
    names = strategy._finalize_strategy_and_create_passes()
    assert "fuse-gemm-epilogue" in names
    blocked: set[str] = set()
    for name in strategy.all_settings():
        try:
            setattr(strategy, name, getattr(strategy, name))
        except RuntimeError as error:
            assert "cannot be configured again" in str(error)
            blocked.add(name)
    assert blocked == FROZEN
    copy = strategy._copy()
    copy.fuse_gemm_epilogue = False
    assert strategy.fuse_gemm_epilogue
    strategy._clear_finalized()
    strategy.fuse_gemm_epilogue = False


def test_running_does_not_freeze() -> None:
    """A finalized strategy can run; flags set after a run change no result."""
    net = fc_mean()
    strategy = BuildStrategy()
    strategy._finalize_strategy_and_create_passes()
    program = static.CompiledProgram(net.main).with_data_parallel(
        net.loss.name, strategy, places=static.cpu_places(2)
    )
    net.run(rows(1, 2, 3, 4), net.loss, program)
    strategy._clear_finalized()
    strategy.gradient_scale_strategy = BuildStrategy.GradientScaleStrategy.One
    net.run(rows(1, 2, 3, 4), "w@GRAD", program)
    close(value("w"), [[1.5]])
    assert strategy.gradient_scale_strategy.name == "One"


def test_one_strategy_for_two_programs() -> None:
    """One object serves two programs, changed or not."""
    strategy = BuildStrategy()
    for scale, weight in (("CoeffNumDevice", 1.75), ("One", 1.5)):
        net = fc_mean()
        strategy.gradient_scale_strategy = BuildStrategy.GradientScaleStrategy[scale]
        program = static.CompiledProgram(net.main, strategy).with_data_parallel(
            net.loss.name, places=static.cpu_places(2)
        )
        net.run(rows(1, 2, 3, 4), net.loss, program)
        close(value("w"), [[weight]])


def test_a_later_strategy_replaces_the_first() -> None:
    """with_data_parallel's strategy wins over the constructor's; None keeps the latter."""
    one = BuildStrategy()
    one.gradient_scale_strategy = BuildStrategy.GradientScaleStrategy.One
    for first, second, weight in ((one, None, 1.5), (one, BuildStrategy(), 1.75)):
        net = fc_mean()
        program = static.CompiledProgram(net.main, first).with_data_parallel(
            net.loss.name, second, places=static.cpu_places(2)
        )
        net.run(rows(1, 2, 3, 4), net.loss, program)
        close(value("w"), [[weight]])


def test_execution_strategy() -> None:
    """ExecutionStrategy has Paddle's defaults and setters."""
    strategy = ExecutionStrategy()
    assert {name: getattr(strategy, name) for name in strategy.all_settings()} == {
        "num_threads": 0,
        "num_iteration_per_drop_scope": 100,
        "num_iteration_per_run": 1,
        "allow_op_delay": False,
        "use_experimental_executor": True,
        "use_thread_barrier": False,
        "use_cuda": True,
        "mapper": "auto",
        "_dry_run": False,
    }
    for name in ("num_threads", "num_iteration_per_drop_scope", "num_iteration_per_run"):
        setattr(strategy, name, 4)
        assert getattr(strategy, name) == 4
        for wrong in (-1, 1.5, "4"):
            with pytest.raises(TypeError, match=rf"{name}: incompatible function arguments"):
                setattr(strategy, name, wrong)
    strategy.allow_op_delay = 1
    assert strategy.allow_op_delay is True
    assert repr(strategy).startswith("ExecutionStrategy(allow_op_delay=True, ")
    net = fc_mean()
    program = static.CompiledProgram(net.main).with_data_parallel(
        net.loss.name, exec_strategy=strategy, places="cpu"
    )
    net.run(rows(1, 2), (), program)
    assert "num_threads: no effect here (XLA has threads of its own)" in program.explain()
    assert "num_iteration_per_run: steps in one call, on the same feed or" in program.explain()


def test_documented_difference_of_broadcast() -> None:
    """Paddle's page says False, but every release has True; so do we."""
    assert BuildStrategy().fuse_broadcast_ops is True
    assert isinstance(BuildStrategy.fuse_broadcast_ops.default, bool)
