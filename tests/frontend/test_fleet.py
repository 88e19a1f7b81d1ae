"""fleet in one process: strategies, roles, tools and files, of 2.x and of 1.8."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.distributed import fleet
from graphopt.distributed.fleet.base.strategy_fields import CONFIGS, FIELDS
from graphopt.errors import ProgramError, UnsupportedError
from graphopt.fluid.incubate.fleet import collective
from graphopt.fluid.incubate.fleet.base import role_maker as fluid_roles
from graphopt_tests.frontend import mixed_networks as networks
from graphopt_tests.frontend.programs import fresh, run, start, types

GUIDE = Path(__file__).parents[2] / "docs/how-to/train-on-many-machines.md"


def network() -> tuple[Any, str]:
    """Build a loss; return it and the name of a hidden value."""
    loss = networks.mlp(static.data("x", [None, 8]), static.data("y", [None, 1], "int64"))
    return loss, "fc_0.tmp_2"


def sequence(strategy: Any, optimizer: Any) -> tuple[Any, Any, list[str]]:
    """Minimize a network with fleet; return its program, loss and operator types."""
    fleet.init(is_collective=True)
    loss, _ = network()
    fleet.distributed_optimizer(optimizer, strategy).minimize(loss)
    main = loss.block.program
    return main, loss, types(main)


@pytest.mark.exhaustive
def test_the_order_of_the_wrappers_is_paddles() -> None:
    """Gradient merging wraps half precision, which wraps recomputation and the optimizer."""
    with fresh() as (main, _):
        strategy = fleet.DistributedStrategy()
        strategy.amp = strategy.recompute = strategy.gradient_merge = True
        strategy.recompute_configs = {"checkpoints": ["fc_0.tmp_2"]}
        strategy.gradient_merge_configs = {"k_steps": 2}
        strategy.amp_configs = {"init_loss_scaling": 64.0}
        main, loss, found = sequence(strategy, paddle.optimizer.Adam(0.02))
        assert "cast" in found
        branches = [t for block in main.blocks[1:] for t in (op.type for op in block.ops)]
        assert branches.index("check_finite_and_unscale") < branches.index("adam")
        assert fleet.get_loss_scaling().name == "loss_scaling_0"
        start()
        fleet.amp_init(paddle.CPUPlace())
        losses = [float(run([loss], **networks.batch(0))[0]) for _ in range(5)]
        assert losses[0] == losses[1] > losses[2] == losses[3] > losses[4]
        assert "pd.recompute" in text_of(main, loss)


def text_of(main: Any, loss: Any) -> str:
    """Return the optimized module of a program that fleet has minimized."""
    compiled = main.runs_as()
    static.Executor(paddle.CPUPlace()).run(compiled, networks.batch(0), [loss])
    return compiled.text()


def test_layers_have_rates_of_their_own() -> None:
    """lars needs Momentum, lamb needs Adam; other optimizers are refused."""
    for name, optimizer, operator in (
        ("lars", paddle.optimizer.Momentum(0.1, 0.9), "lars_momentum"),
        ("lamb", paddle.optimizer.Adam(0.1), "lamb"),
    ):
        strategy = fleet.DistributedStrategy()
        setattr(strategy, name, True)
        with fresh():
            _, _, found = sequence(strategy, optimizer)
            assert operator in found
        with fresh(), pytest.raises(UnsupportedError, match=f"strategy.{name} goes with"):
            sequence(strategy, paddle.optimizer.SGD(0.1))


def test_flags_of_the_strategy_reach_the_passes() -> None:
    """The strategy's flags reach the build strategy, and so does the scale of gradients."""
    strategy = fleet.DistributedStrategy()
    strategy.build_strategy.memory_optimize = True
    strategy.sync_batch_norm = strategy.sharding = True
    strategy.fuse_all_reduce_ops = False
    strategy.gradient_scale_configs = {"scale_strategy": "sum"}
    built = strategy.to_build_strategy()
    assert built.memory_optimize
    assert built.sync_batch_norm
    assert built.fuse_all_reduce_ops is False
    assert built.reduce_strategy is static.BuildStrategy.ReduceStrategy.Reduce
    assert built.shard_parameters is False
    strategy.sharding_configs = {"stage": 3}
    assert strategy.to_build_strategy().shard_parameters is True
    strategy.sharding_configs = {"stage": 4}
    with pytest.raises(ValueError, match="is 4; it is 1, 2 or 3"):
        strategy.to_build_strategy()
    strategy.sharding_configs = {"stage": 1}
    assert built.gradient_scale_strategy is static.BuildStrategy.GradientScaleStrategy.One
    strategy.gradient_scale_configs = {"scale_strategy": "median"}
    with pytest.raises(ValueError, match="it is one of avg, sum, customized"):
        strategy.to_build_strategy()


def test_the_program_obeys_the_strategy_when_it_runs() -> None:
    """Operators added after minimize run, too, and a clone for tests is a plain program."""
    with fresh() as (main, _):
        strategy = fleet.DistributedStrategy()
        strategy.build_strategy.fuse_gemm_epilogue = True
        main, loss, _ = sequence(strategy, paddle.optimizer.SGD(0.1))
        doubled = loss * 2.0
        start()
        value, twice = run([loss, doubled], **networks.batch(0))
        assert twice == pytest.approx(2 * value)
        assert "fused_gemm_epilogue" in text_of(main, loss)
        assert main.clone(for_test=True).runs_as is None


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_is_obeyed_or_says_why_not(name: str) -> None:
    """A field without effect warns once, a refused one raises, and the guide lists the others."""
    strategy, field = fleet.DistributedStrategy(), FIELDS[name]
    assert getattr(strategy, name) == field.default
    other = not field.default if isinstance(field.default, bool) else field.default + 1
    if field.refused:
        with pytest.raises(UnsupportedError, match=f"DistributedStrategy.{name}"):
            setattr(strategy, name, other)
    elif field.no_effect:
        with pytest.warns(UserWarning, match=f"{name} has no effect"):
            setattr(strategy, name, other)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            setattr(strategy, name, other)
    else:
        setattr(strategy, name, other)
        assert f"`{name}`" in GUIDE.read_text()
    assert repr(strategy).count(name) == (not field.refused)


def test_unknown_settings() -> None:
    """Names, keys and types are checked; a copy is independent."""
    strategy = fleet.DistributedStrategy()
    with pytest.raises(TypeError, match="nothing is not a attribute"):
        strategy.nothing = True
    with pytest.raises(AttributeError, match="nothing"):
        _ = strategy.nothing
    with pytest.raises(TypeError, match="amp must be a bool"):
        strategy.amp = "yes"
    with pytest.raises(ValueError, match="amp_configs has no key 'scale'"):
        strategy.amp_configs = {"scale": 1.0}
    with pytest.raises(TypeError, match="must be a BuildStrategy"):
        strategy.build_strategy = 1
    with pytest.raises(UnsupportedError, match="pp_degree"):
        strategy.hybrid_configs = {"pp_degree": 2}
    twin = copy.deepcopy(strategy)
    twin.amp_configs = {"custom_white_list": ["relu"]}
    assert strategy.amp_configs["custom_white_list"] == []
    assert all(isinstance(getattr(strategy, name), dict) for name in CONFIGS)


def test_devices_of_a_replica() -> None:
    """Paddle's two names set the same degree; without either a replica is one device."""
    strategy = fleet.DistributedStrategy()
    strategy.tensor_parallel_configs = {"tensor_parallel_degree": 4}
    assert strategy.to_build_strategy().tensor_parallel_degree == 1
    strategy.tensor_parallel = True
    assert strategy.to_build_strategy().tensor_parallel_degree == 4
    other = fleet.DistributedStrategy()
    other.hybrid_configs = {"mp_degree": 2}
    assert other.to_build_strategy().tensor_parallel_degree == 2


def test_roles_and_tools(capsys: Any) -> None:
    """A single process is the first worker; a script may declare another rank."""
    fleet.init(is_collective=True)
    assert (fleet.worker_num(), fleet.worker_index(), fleet.is_first_worker()) == (1, 0, True)
    assert fleet.is_worker()
    assert not fleet.is_server()
    assert (fleet.server_num(), fleet.server_endpoints(), fleet.node_num()) == (0, [], 1)
    fleet.barrier_worker()
    fleet.init_worker()
    fleet.stop_worker()
    assert fleet.util.all_gather(3) == [3]
    np.testing.assert_array_equal(fleet.util.all_reduce(np.arange(3), "max"), [0, 1, 2])
    with pytest.raises(ValueError, match="sum, min or max"):
        fleet.util.all_reduce(1, "mean")
    with pytest.raises(UnsupportedError, match="comm_world 'server'"):
        fleet.util.barrier("server")
    ends = ["a:1", "b:1", "a:2"]
    role = fleet.UserDefinedRoleMaker(is_collective=True, current_id=2, worker_endpoints=ends)
    fleet.init(role)
    assert (fleet.worker_num(), fleet.worker_index(), fleet.node_num()) == (3, 2, 2)
    assert fleet.worker_endpoints(to_string=True) == "a:1,b:1,a:2"
    assert fleet.util.get_file_shard(["a", "b", "c", "d", "e"]) == ["e"]
    fleet.util.print_on_rank("here", 2)
    fleet.util.print_on_rank("there", 0)
    assert capsys.readouterr().out == "here\n"
    with pytest.raises(TypeError, match="list of file"):
        fleet.util.get_file_shard("abc")
    fleet.init(is_collective=True)


def test_parameter_servers_are_refused(monkeypatch: Any) -> None:
    """Roles, the environment, and calls of servers are refused, and dynamic mode is, too."""
    words = "graphopt has no parameter server"
    for call in (
        lambda: fleet.UserDefinedRoleMaker(role=fleet.Role.SERVER),
        lambda: fluid_roles.UserDefinedRoleMaker(0, fluid_roles.Role.WORKER, 2, ["a:1"]),
        lambda: fluid_roles.GeneralRoleMaker(),
        lambda: fluid_roles.MPISymetricRoleMaker(),
        fleet.init_server,
        fleet.run_server,
        lambda: fluid.DistributeTranspiler().transpile(0),
    ):
        with pytest.raises(UnsupportedError, match=words):
            call()
    with pytest.raises(UnsupportedError, match="dynamic mode"):
        fleet.distributed_model(None)
    monkeypatch.setenv("TRAINING_ROLE", "PSERVER")
    with pytest.raises(UnsupportedError, match=words):
        fleet.init()


def test_calls_before_init() -> None:
    """The error says which call comes first."""
    own = fleet.Fleet()
    for call in (own.worker_num, lambda: own.distributed_optimizer(None), lambda: own.util._role()):
        with pytest.raises(RuntimeError, match=r"call fleet.init\(\)"):
            call()
    own.init(is_collective=True)
    with pytest.raises(RuntimeError, match="distributed_optimizer"):
        own.amp_init(None)
    with fresh():
        strategy = fleet.DistributedStrategy()
        strategy.recompute = True
        optimizer = own.distributed_optimizer(paddle.optimizer.SGD(0.1), strategy)
        with pytest.raises(ValueError, match="recompute_configs"):
            own.minimize(network()[0])
        with pytest.raises(RuntimeError, match=r"strategy\.amp"):
            optimizer.get_loss_scaling()
        assert optimizer.get_lr() == 0.1


def test_files(tmp_path: Path) -> None:
    """Persistables and models are saved as by fluid.io and static."""
    with fresh() as (main, _):
        main, loss, _ = sequence(None, paddle.optimizer.SGD(0.1))
        start()
        executor = static.Executor(paddle.CPUPlace())
        fleet.save_persistables(executor, str(tmp_path / "all"))
        assert (tmp_path / "all" / "w1").exists()
        fleet.save_inference_model(executor, str(tmp_path / "model"), ["x", "y"], [loss])
        assert (tmp_path / "model" / "__model__").exists()
        fleet.save(str(tmp_path / "both"), ["x", "y"], [loss.name], executor=executor)
        assert (tmp_path / "both" / "model.pdmodel").exists()
        static.save(main, str(tmp_path / "state"))
        fleet.load_model(str(tmp_path / "state"))


def fluid_program(strategy: Any = None) -> tuple[Any, Any]:
    """Minimize a network of 1.8 with its fleet; return loss and optimizer."""
    collective.fleet.init(fluid_roles.PaddleCloudRoleMaker(is_collective=True))
    x, y = fluid.data("x", [None, 8]), fluid.data("y", [None, 1], "int64")
    loss = networks.fluid_mlp(x, y)
    made = collective.fleet.distributed_optimizer(fluid.optimizer.SGD(0.2), strategy)
    made.minimize(loss)
    return loss, made


@pytest.mark.exhaustive
def test_fleet_of_1_8(tmp_path: Path) -> None:
    """`fleet.main_program` trains on all devices; checkpoints are numbered."""
    with fresh() as (main, startup):
        strategy = collective.DistributedStrategy()
        strategy.use_amp = strategy.forward_recompute = True
        strategy.amp_loss_scaling = 128.0
        strategy.recompute_checkpoints = ["fc_0.tmp_2"]
        strategy.fuse_all_reduce_ops = True
        with pytest.warns(UserWarning, match="nccl_comm_num has no effect"):
            strategy.nccl_comm_num = 2
        with pytest.raises(UnsupportedError, match="use_local_sgd"):
            strategy.use_local_sgd = True
        with pytest.raises(AttributeError):
            strategy.nothing = 1
        loss, made = fluid_program(strategy)
        fleet_18 = collective.fleet
        assert fleet_18.startup_program is startup
        assert made.get_lr() == 0.2
        assert "cast" in types(main)
        assert fleet_18.split_files(["a", "b"]) == ["a", "b"]
        start()
        executor = fluid.Executor(fluid.CPUPlace())
        losses = [
            executor.run(fleet_18.main_program, networks.batch(0), [loss])[0].mean()
            for _ in range(3)
        ]
        assert losses[2] < losses[1] < losses[0]
        status = collective.TrainStatus(4)
        assert fleet_18.load_check_point(executor, str(tmp_path), 0) is None
        for _ in range(2):
            fleet_18.save_check_point(executor, str(tmp_path), status)
        found = fleet_18.load_check_point(executor, str(tmp_path), 0)
        assert found == status != collective.TrainStatus()
        assert found.next() == 5
        fleet_18.save_check_point(executor, str(tmp_path), status, remain_all_checkpoint=False)
        assert [p.name for p in tmp_path.iterdir()] == ["__paddle_fleet_checkpoint__.2"]
        strategy.recompute_checkpoints = []
        with pytest.raises(ValueError, match="recompute_checkpoints"):
            made.minimize(loss)
    strategy.use_amp = True
    with fresh():
        half = fluid.contrib.mixed_precision.decorate(fluid.optimizer.SGD(0.1))
        with pytest.raises(ValueError, match="can not use OptimizerWithMixedPrecision"):
            collective.CollectiveOptimizer(half, strategy).minimize(network()[0])
        steps = collective.CollectiveOptimizer(fluid.optimizer.SGD(0.1), strategy)
        with pytest.raises(UnsupportedError, match=r"backward\(\) would leave out"):
            steps.backward(network()[0])
    with pytest.raises(TypeError, match="RoleMakerBase"):
        collective.fleet.init("worker")  # pyright: ignore


def test_transpilers_for_collectives() -> None:
    """Executors run the transpiled program; server modes and LocalSGD are refused."""
    with fresh() as (main, _):
        loss, _ = network()
        config = fluid.DistributeTranspilerConfig()
        config.mode = "nccl2"
        with pytest.raises(ProgramError, match="call minimize before"):
            fluid.DistributeTranspiler(config).transpile(0)
        paddle.optimizer.SGD(0.1).minimize(loss)
        fluid.DistributeTranspiler(config).transpile(0, trainers="127.0.0.1:6170")
        assert main.runs_as is not None
        start()
        before, after = (float(run([loss], **networks.batch(0))[0]) for _ in range(2))
        assert after < before
        main.runs_as = None
        transpiler = fluid.transpiler.collective.GradAllReduce()
        transpiler.transpile(None, main, 0, "127.0.0.1:6170", "127.0.0.1:6170")
        assert main.runs_as is not None
        config.collective_mode = "local_sgd"
        with pytest.raises(UnsupportedError, match="LocalSGD"):
            fluid.DistributeTranspiler(config).transpile(0)
        with pytest.raises(UnsupportedError, match="LocalSGD"):
            fluid.transpiler.collective.LocalSGD()
