"""share_vars_from, ParallelExecutor, and the binding of compiled programs."""

from __future__ import annotations

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import WorldError
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.parallel_executor import ParallelExecutor
from graphopt_tests.runtime.nets import Net, close, fc_mean, rows, value

FEED = rows(0, 1, 2, 3)


def evaluation(net: Net, source: CompiledProgram | None, devices: int = 2) -> CompiledProgram:
    """Compile the net's test program, sharing from another compiled program."""
    return CompiledProgram(net.main.clone(for_test=True)).with_data_parallel(
        share_vars_from=source, places=static.cpu_places(devices)
    )


def test_the_source_must_be_parallel_and_have_run() -> None:
    """Each wrong order has its own message; in the right order, every update is visible."""
    net = fc_mean()
    plain = CompiledProgram(net.main)
    with pytest.raises(ValueError, match="is not data parallel"):
        net.run(FEED, net.out, evaluation(net, plain))
    train = net.parallel(2)
    with pytest.raises(ValueError, match="not compiled and executed"):
        net.run(FEED, net.out, evaluation(net, train))
    net.run(FEED, net.loss, train)
    with pytest.raises(ValueError, match=r"\(3\) is not equal to.*\(2\)"):
        net.run(FEED, net.out, evaluation(net, train, 3))
    tests = [evaluation(net, train), evaluation(net, None)]
    for step in range(1, 4):
        for test in tests:
            close(net.run(FEED, net.out, test)[0], FEED["X"] * (2 - 0.15 * step))
        net.run(FEED, net.loss, train)


def test_bound_to_scope_and_place() -> None:
    """The first run binds the program; another scope or place later is an error."""
    for parallel in (False, True):
        net = fc_mean()
        program = net.parallel(2) if parallel else CompiledProgram(net.main)
        net.run(FEED, net.loss, program)
        with pytest.raises(ValueError, match=r"different scope\. .* make another CompiledProgram"):
            net.run(FEED, net.loss, program, scope=static.Scope())
        elsewhere = static.Executor()
        elsewhere.place = paddle.CUDAPlace(0)
        with pytest.raises(ValueError, match="Cannot compile program with different place"):
            elsewhere.run(program, FEED, [net.loss])
        net.run(FEED, net.loss, program)


def test_with_data_parallel_returns_itself_once() -> None:
    """It changes the program in place, and only once."""
    net = fc_mean()
    program = CompiledProgram(net.main)
    assert program.with_data_parallel(net.loss.name, places="cpu") is program
    with pytest.raises(AssertionError, match="cannot be recompiled"):
        program.with_data_parallel(net.loss.name)
    assert program.explain().startswith("nothing was compiled")
    close(net.run(FEED, net.loss, program)[0], [3.0])
    assert "all-reduce" not in program.explain()


def test_extra_feeds_only_warn() -> None:
    """Extra feeds warn as in 2.6; 1.8 refused them."""
    net = fc_mean()
    for program in (CompiledProgram(net.main), net.parallel(2)):
        with pytest.warns(UserWarning, match="zzz"):
            net.run({**FEED, "zzz": np.zeros(4, "float32")}, net.loss, program)


@pytest.fixture
def two_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CPU_NUM", "2")


@pytest.mark.usefixtures("two_cpus")
def test_parallel_executor() -> None:
    """Construction, runs, device_count and a sharing test executor work."""
    net = fc_mean()
    train = ParallelExecutor(False, net.loss.name, net.main)
    assert train.device_count == 2
    close(train.run([net.loss.name], feed=FEED)[0], [1.0, 5.0])
    close(train.run(fetch_list=[net.loss], feed_dict=FEED)[0], [0.925, 4.625])
    test = ParallelExecutor(
        False, main_program=net.main.clone(for_test=True), share_vars_from=train
    )
    close(test.run([net.out], feed=FEED)[0], FEED["X"] * 1.7)
    feeds = [rows(0, 1), rows(2, 3)]
    close(train.run([net.loss], feed=feeds)[0], [0.85, 4.25])
    with pytest.raises(ValueError, match="feed data number 1"):
        train.run([net.loss], feed=feeds[:1])
    with pytest.raises(TypeError, match="Each element of feed list should be a dict"):
        train.run([net.loss], feed=[FEED["X"], FEED["X"]])
    close(value("w"), [[1.55]])


@pytest.mark.usefixtures("two_cpus")
def test_parallel_executor_with_the_default_program() -> None:
    """Without a main program the default one runs; a scope may be passed."""
    net = fc_mean()
    other = static.Scope()
    net.executor.run(net.startup, scope=other)
    with static.program_guard(net.main):
        train = ParallelExecutor(use_cuda=False, loss_name=net.loss.name, scope=other)
    train.run([net.loss], feed=FEED)
    close(value("w"), [[2.0]])
    slot = other.find_var("w")
    assert slot is not None
    close(np.array(slot.get_tensor()), [[1.85]])


def test_parallel_executor_overwrites_trainers(capsys: pytest.CaptureFixture[str]) -> None:
    """The strategy gets the trainers, with a note on stderr; they have to exist."""
    net = fc_mean()
    strategy = static.BuildStrategy()
    train = ParallelExecutor(
        False, net.loss.name, net.main, build_strategy=strategy, num_trainers=2, trainer_id=1
    )
    assert (strategy.num_trainers, strategy.trainer_id) == (2, 1)
    assert "overwritten" in capsys.readouterr().err
    with pytest.raises(WorldError, match="num_trainers is 2, but this process has joined no job"):
        train.run([net.loss], feed=FEED)


def test_parallel_executor_shares_from_its_kind() -> None:
    """A CompiledProgram is no source for a ParallelExecutor."""
    net = fc_mean()
    with pytest.raises(TypeError, match="should be ParallelExecutor"):
        ParallelExecutor(False, net.loss.name, net.main, share_vars_from=net.parallel(2))  # pyright: ignore


def test_drop_local_exe_scopes() -> None:
    """It raises before the first run, and is harmless afterwards."""
    net = fc_mean()
    train = ParallelExecutor(False, net.loss.name, net.main)
    with pytest.raises(RuntimeError, match="drop_local_exe_scopes"):
        train.drop_local_exe_scopes()
    train.run([net.loss], feed=FEED)
    for _ in range(2):
        assert train.drop_local_exe_scopes() is None  # pyright: ignore
    close(train.run([net.loss], feed=FEED)[0], [2.775])
