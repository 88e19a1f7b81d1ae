"""ExecutionStrategy.mapper and FLAGS_graphopt_mapper: the choice of the mapper over replicas."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import UnsupportedError
from graphopt.ir.program import Variable
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.parallel_executor import ParallelExecutor
from graphopt.runtime.settings.strategies import ExecutionStrategy
from graphopt_tests.runtime.nets import Net, build, parameter, strategy, value

MAPPERS = ("pmap", "shard_map", "vmap")


@pytest.fixture(autouse=True)
def _two_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", "2")


def net() -> Net:
    """Build a linear layer with Momentum, which has state to pass on."""

    def make() -> tuple[Variable, Variable]:
        x = static.data("x", [None, 3], "float32")
        out = paddle.matmul(x, parameter("w", np.arange(6, dtype="float32").reshape(3, 2)))
        loss = paddle.mean(paddle.square(out))
        paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
        return loss, out

    return build(make)


def by(mapper: str) -> ExecutionStrategy:
    """Make an ExecutionStrategy with this mapper."""
    execution = ExecutionStrategy()
    execution.mapper = mapper
    return execution


def parallel(made: Net, execution: ExecutionStrategy | None = None, **flags: Any) -> Any:
    """Compile the net for the two devices."""
    return CompiledProgram(made.main).with_data_parallel(
        made.loss.name, strategy(**flags), execution
    )


FEED = {"x": np.arange(12, dtype="float32").reshape(4, 3) / 12}


def trained(made: Net, program: Any, steps: int = 3) -> list[np.ndarray[Any, Any]]:
    """Train for some steps; return the losses and the weight."""
    return [*(made.run(FEED, made.loss, program)[0] for _ in range(steps)), value("w")]


@pytest.mark.every(5)
@pytest.mark.parametrize("reduce", ["AllReduce", "Reduce"])
@pytest.mark.parametrize("mapper", MAPPERS)
def test_a_chosen_mapper_runs(mapper: str, reduce: str) -> None:
    """A chosen mapper trains as the default one, also with sharded updates, and is reported."""
    found = []
    for execution in (None, by(mapper)):
        made = net()
        program = parallel(
            made, execution, reduce_strategy=static.BuildStrategy.ReduceStrategy[reduce]
        )
        found.append(trained(made, program))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, 1e-6)
    assert program.stats["mapper"] == mapper
    assert program.stats["devices"] == 2
    assert f"mapper: {mapper}, as it was requested" in program.explain()


def test_the_default_says_why() -> None:
    """The report gives the reason: a device for each place, or fewer."""
    made = net()
    program = parallel(made)
    made.run(FEED, made.loss, program)
    assert "mapper: shard_map, as there is a device for each place" in program.explain()
    shared = CompiledProgram(made.main).with_data_parallel(
        made.loss.name, places=[paddle.CPUPlace()] * 64
    )
    made.run({"x": np.ones((64, 3), "float32")}, made.loss, shared)
    assert "mapper: vmap, as there are fewer devices than places" in shared.explain()


def test_the_strategy_wins_over_the_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    """The strategy wins over the flag, also with `auto` once it is set."""
    monkeypatch.setenv("FLAGS_graphopt_mapper", "pmap")
    for execution, mapper in ((None, "pmap"), (by("vmap"), "vmap"), (by("auto"), "shard_map")):
        made = net()
        program = parallel(made, execution)
        made.run(FEED, made.loss, program)
        assert program.stats["mapper"] == mapper


def test_wrong_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both errors list the valid names."""
    listed = "one of 'auto', 'pmap', 'shard_map', 'vmap', found 'xmap'"
    with pytest.raises(ValueError, match=f"mapper must be {listed}"):
        by("xmap")
    monkeypatch.setenv("FLAGS_graphopt_mapper", "xmap")
    made = net()
    with pytest.raises(ValueError, match=f"FLAGS_graphopt_mapper should be {listed}"):
        made.run(FEED, made.loss, parallel(made))


@pytest.mark.parametrize("mapper", ["pmap", "shard_map"])
def test_fewer_devices_than_places(mapper: str) -> None:
    """Only vmap supports fewer devices than places."""
    made = net()
    program = CompiledProgram(made.main).with_data_parallel(
        made.loss.name, exec_strategy=by(mapper), places=[paddle.CPUPlace()] * 64
    )
    with pytest.raises(UnsupportedError, match=f"'{mapper}' needs a device for each of the 64"):
        made.run({"x": np.ones((64, 3), "float32")}, made.loss, program)


def test_pmap_in_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """pmap runs in one process only."""
    made = net()
    program = parallel(made, by("pmap"))
    with monkeypatch.context() as patched:
        patched.setattr(jax, "process_count", lambda: 2)
        with pytest.raises(UnsupportedError, match="'pmap' supports one process only"):
            made.run(FEED, made.loss, program)


def test_unequal_rows_fall_back() -> None:
    """Unequal rows run in lockstep, with a warning; later runs use the mapper again."""
    made = net()
    program = parallel(made, by("pmap"))
    made.run(FEED, made.loss, program)
    with pytest.warns(UserWarning, match="mapper: lockstep, as .* which pmap cannot run"):
        made.run({"x": FEED["x"][:3]}, made.loss, program)
    assert program.stats["mapper"] == "lockstep"
    assert "mapper: lockstep, as the replicas have different numbers of rows" in program.explain()
    made.run(FEED, made.loss, program)
    assert program.stats["mapper"] == "pmap"


@pytest.mark.parametrize("mapper", MAPPERS)
def test_one_place(mapper: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one place there is no mapping, and the report says so."""
    monkeypatch.setenv("CPU_NUM", "1")
    made = net()
    program = parallel(made, by(mapper))
    assert [loss.shape for loss in trained(made, program)[:3]] == [(1,)] * 3
    assert program.stats["mapper"] == "alone"
    assert "mapper: alone, as there is one place" in program.explain()


@pytest.mark.parametrize("inplace", [True, False])
def test_pmap_takes_the_buffers_of_the_state(
    inplace: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pmap donates the state unless `enable_inplace` is off; a script reads copies."""
    made = net()
    program = parallel(made, by("pmap"), enable_inplace=inplace)
    made.run(FEED, made.loss, program)
    slot = static.global_scope().find_var("w")
    assert slot is not None
    before, read = slot.value, value("w")
    made.run(FEED, made.loss, program)
    assert before.is_deleted() is inplace
    assert not np.array_equal(read, value("w"))
    # such a step is one call of C, as no interrupt may lose the state
    called: list[int] = []
    call = jax.stages.Compiled.call

    def noting(*args: Any, **kwargs: Any) -> Any:
        called.append(1)
        return call(*args, **kwargs)

    executable = next(iter(program._runner.executables()))
    assert executable.form.donates is inplace
    monkeypatch.setattr(jax.stages.Compiled, "call", staticmethod(noting))
    made.run(FEED, made.loss, program)
    assert not called


def test_pmap_gives_xla_what_shard_map_does() -> None:
    """The gradient has one sum over devices: in the IR, in StableHLO, in XLA's own text."""
    for mapper in ("pmap", "shard_map"):
        made = net()
        program = parallel(made, by(mapper))
        assert program.text() == program.text("stablehlo") == program.text("hlo") == ""
        made.run(FEED, made.loss, program)
        assert program.text().count("pd.all_reduce(") == 1
        assert program.text("stablehlo").count("stablehlo.all_reduce") == 1
        assert program.text("hlo").count(" all-reduce(") == 1
        with pytest.raises(ValueError, match="must be 'pd', 'stablehlo' or 'hlo', found 'ptx'"):
            program.text("ptx")


@pytest.mark.parametrize("mapper", MAPPERS)
def test_parallel_executor(mapper: str) -> None:
    """It runs by the mapper of its ExecutionStrategy."""
    made = net()
    executor = ParallelExecutor(False, made.loss.name, made.main, exec_strategy=by(mapper))
    losses = [executor.run([made.loss.name], feed=FEED)[0] for _ in range(2)]
    assert executor.device_count == 2 and losses[0].shape == (2,)
    assert losses[1].sum() < losses[0].sum()
    assert executor._program.stats["mapper"] == mapper
    executor.drop_local_exe_scopes()


def test_a_switch_keeps_the_state() -> None:
    """Programs with different mappers train the same parameters in turn."""
    made = net()
    programs = [parallel(made, by(mapper)) for mapper in MAPPERS]
    switched = [made.run(FEED, made.loss, program)[0] for program in programs * 2]
    other = net()
    straight = trained(other, parallel(other), len(switched))[:-1]
    np.testing.assert_allclose(switched, straight, 1e-5)
