"""Executor.run on plain programs: arguments, feeds, pruning, caching."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import FeedError, ScopeError
from graphopt.ir.program import Program, Variable
from graphopt_tests.runtime.nets import Net, build, close, fc_mean, parameter, rows, value

FEED = rows(0, 1, 2, 3)


def test_closed_executor() -> None:
    """A closed executor runs no program."""
    net = fc_mean()
    net.executor.close()
    with pytest.raises(RuntimeError, match="Attempted to use a closed Executor"):
        net.run(FEED, net.loss)


def test_default_program_and_scope() -> None:
    """Without a program the default one runs, in the current global scope."""
    net = fc_mean()
    with static.program_guard(net.main):
        (loss,) = net.executor.run(feed=FEED, fetch_list=[net.loss])
    close(loss, 3.0)
    other = static.Scope()
    with static.scope_guard(other), pytest.raises(ScopeError, match="startup_program"):
        net.run(FEED, net.loss)


def test_empty_programs_only_warn() -> None:
    """An empty program gives a warning and no results."""
    with pytest.warns(UserWarning, match="no operators"):
        assert static.Executor(paddle.CPUPlace()).run(Program()) == []


def test_every_operator_runs_whatever_is_fetched() -> None:
    """A run without fetches trains, and needs every feed that an operator reads."""
    net = fc_mean()
    assert net.run(FEED) == []
    assert net.run(FEED, None) == []
    close(value("w"), [[1.7]])
    with pytest.raises(FeedError, match="Need feed data for variable X"):
        net.run({}, "w")
    with pytest.raises(FeedError, match="Need feed data for variable X"):
        net.run(None, "w")


def two_losses() -> Net:
    """Build two independent heads, both trained; `out` belongs to the second one."""

    def make() -> tuple[Variable, Variable]:
        x, z = static.data("X", [None, 1], "float32"), static.data("Z", [None, 1], "float32")
        first = paddle.mean(paddle.matmul(x, parameter("w", [[2.0]])))
        second = paddle.mean(paddle.matmul(z, parameter("v", [[2.0]])))
        for loss in (first, second):
            paddle.optimizer.SGD(0.1).minimize(loss)
        return first, second

    return build(make)


def test_use_prune_keeps_the_updates() -> None:
    """Unneeded operators are pruned, but fetching a forward value still trains."""
    net = fc_mean()
    block = net.main.global_block()
    with static.program_guard(net.main, net.startup):
        unused = static.data("unused", [None, 1], "float32")
        block.append_op("relu", {"X": unused}, {"Out": block.create_var("r")}, {})
    with pytest.raises(FeedError, match="unused"):
        net.run(FEED, net.out)
    close(net.run(FEED, net.out, use_prune=True)[0], [[0], [2], [4], [6]])
    close(value("w"), [[1.85]])


def test_optimizer_operators_select_the_updates() -> None:
    """In a fetch list they have no value, and exclude all other updates."""
    net = two_losses()
    update = next(op for op in net.main.global_block().ops if op.input("Param") == ["v"])
    (loss,) = net.run({"Z": FEED["X"]}, [net.out, update])
    close(loss, 3.0)
    close(value("v"), [[1.85]])
    close(value("w"), [[2.0]])
    assert net.run({"Z": FEED["X"]}, [([update], [])]) == []
    close(value("v"), [[1.7]])


def test_feeding_an_intermediate() -> None:
    """The operator that computes it overwrites a fed intermediate, unless it is pruned."""
    net = fc_mean(train=False)
    block = net.main.global_block()
    with static.program_guard(net.main, net.startup):
        doubled = paddle.scale(net.out, 2.0)
    fed = {net.out.name: np.ones((4, 1), "float32")}
    assert block.find_var(doubled.name) is not None
    close(net.run({**FEED, **fed}, doubled)[0], [[0], [4], [8], [12]])
    close(net.run(fed, doubled, use_prune=True)[0], [[2]] * 4)
    close(net.run(fed, net.out, use_prune=True)[0], [[1]] * 4)


def test_lists_and_numbers_as_feeds() -> None:
    """Lists and numbers take the variable's dtype and rank."""
    net = fc_mean()
    close(net.run({"X": [[0], [1], [2], [3]]}, net.loss)[0], 3.0)
    close(net.run([FEED], net.loss)[0], 2.775)
    close(net.run((FEED,), net.loss)[0], 2.55)


def test_feeds_stay_as_they_are() -> None:
    """A run changes neither the caller's dict nor its arrays; extra names warn."""
    net = fc_mean()
    extra = {**FEED, "zzz": np.zeros(3, "float32")}
    with pytest.warns(UserWarning, match="zzz is not found in program"):
        net.run(extra, net.loss)
    assert list(extra) == ["X", "zzz"]
    np.testing.assert_array_equal(FEED["X"].ravel(), [0, 1, 2, 3])


def test_no_rows() -> None:
    """Zero rows give zero rows."""
    net = fc_mean(train=False)
    (out,) = net.run({"X": np.zeros((0, 1), "float32")}, net.out)
    assert out.shape == (0, 1)


def test_executables_are_cached() -> None:
    """One set of names has one program; a new shape does not change it, an edit does."""
    net = fc_mean(train=False)
    for count in (4, 2, 4):
        net.run(rows(*range(count)), net.loss)
    before = net.executor.stats
    assert before["runs"] == 4 and before["compiled_programs"] == 2  # with the startup program
    with static.program_guard(net.main):
        paddle.scale(net.out, 2.0)
    net.run(FEED, net.loss)
    assert net.executor.stats["compiled_programs"] == 3
    assert net.executor.stats["compiled_shapes"] >= 3


def test_startup_runs_again() -> None:
    """Running the startup program again resets the parameters, and can fetch them."""
    net = fc_mean()
    net.run(FEED)
    (initial,) = net.executor.run(net.startup, fetch_list=["w"])
    close(initial, [[2.0]])
    close(value("w"), [[2.0]])


def test_one_program_in_two_scopes() -> None:
    """Plain programs run in any scope; each holds its own values."""
    net = fc_mean()
    other = static.Scope()
    net.executor.run(net.startup, scope=other)
    net.run(FEED, scope=other)
    net.run(FEED, scope=other)
    slot = other.find_var("w")
    assert slot is not None
    close(np.array(slot.get_tensor()), [[1.7]])
    close(value("w"), [[2.0]])


def test_learning_rate_schedule() -> None:
    """The schedule's current value is written before each run, on one device and on two."""

    def make() -> tuple[Variable, Variable]:
        out = paddle.matmul(static.data("X", [None, 1], "float32"), parameter("w", [[2.0]]))
        loss = paddle.mean(out)
        paddle.optimizer.SGD(schedule).minimize(loss)
        return loss, out

    schedule = paddle.optimizer.lr.StepDecay(0.1, step_size=1, gamma=0.1)
    net = build(make)
    rate = next(iter(net.main.lr_schedulers))
    program = net.parallel(2)
    for target, wanted in ((None, 1.85), (program, 1.835), (None, 1.8335)):
        found = net.run(FEED, rate, target)[0]
        close(found, np.full(2 if target else (), schedule()))
        schedule.step()
        close(value("w"), [[wanted]])


def test_no_warnings_in_an_ordinary_run() -> None:
    """Donation and feeds give no warnings."""
    net = fc_mean()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            net.run(FEED, (net.loss, "w"))
        net.run(FEED, net.loss, net.parallel(2))
        net.run(rows(1, 2, 3, 4), net.loss, net.parallel(2))
