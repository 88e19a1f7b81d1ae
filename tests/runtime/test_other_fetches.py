"""Fetches that change from run to run: few compilations, with the same numbers and state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
import graphopt.fluid as fluid
from graphopt import static
from graphopt.nn import functional as F
from graphopt.runtime.steps.kept import NEW_PROGRAM, OTHER_FETCHES
from graphopt.runtime.steps.measures import MOST_MEASURES, MUCH_WORK, measures
from graphopt_tests.runtime.nets import Net, build

ROWS, WIDE, NARROW = 128, 512, 8
GENERATOR = np.random.default_rng(0)
LABELS = GENERATOR.integers(0, 4, (ROWS, 1))


@pytest.fixture(autouse=True)
def _static() -> Any:
    paddle.enable_static()


def feed(width: int) -> dict[str, Any]:
    x = np.linspace(-1, 1, ROWS * width, dtype="float32").reshape(ROWS, width)
    return {"x": np.sin(40 * x), "y": LABELS}


def classifier(width: int) -> tuple[Net, dict[str, Any]]:
    """Build a classifier that trains; return it with its variables."""
    named: dict[str, Any] = {}

    def make() -> tuple[Any, Any]:
        x, y = static.data("x", [None, width], "float32"), static.data("y", [None, 1], "int64")
        hidden = static.nn.fc(x, width, activation="relu", weight_attr="w")
        scores = static.nn.fc(hidden, 4)
        loss = paddle.mean(F.cross_entropy(scores, y))
        named["accuracy"] = static.accuracy(F.softmax(scores), y)
        named["hidden"], named["scores"] = hidden, scores
        paddle.optimizer.Momentum(0.1, 0.9).minimize(loss)
        return loss, scores

    with paddle.utils.unique_name.guard():
        return build(make), named


def values(fetch_lists: list[list[str]], width: int, *, alone: bool) -> tuple[Any, Any, Any]:
    """Run steps with these fetches; return results, state and statistics.

    With `alone`, each list of fetches is compiled separately.
    """
    with static.scope_guard(static.Scope()):
        paddle.seed(3)
        net, named = classifier(width)
        names = {**named, "loss": net.loss, "w": "w"}
        found: list[Any] = []
        executors: dict[Any, Any] = {}
        for fetches in fetch_lists:
            key = tuple(fetches) if alone else ()
            exe = executors.setdefault(key, static.Executor(paddle.CPUPlace()))
            found.append(exe.run(net.main, feed(width), [names[name] for name in fetches]))
        state = {v.name: _value(v.name) for v in net.main.list_vars() if v.persistable}
        return found, state, exe.stats


def _value(name: str) -> Any:
    return np.array(static.global_scope().find_var(name).get_tensor())


def assert_alike(fetch_lists: list[list[str]], width: int) -> Any:
    """Check that shared programs give the same numbers and state; return the statistics."""
    wanted, state, _ = values(fetch_lists, width, alone=True)
    found, changed, stats = values(fetch_lists, width, alone=False)
    for one, other in zip(found, wanted, strict=True):
        for value, exact in zip(one, other, strict=True):
            np.testing.assert_allclose(value, exact, rtol=2e-5, atol=1e-6)
    for name, value in state.items():
        np.testing.assert_allclose(changed[name], value, rtol=2e-5, atol=1e-6, err_msg=name)
    return stats


@pytest.mark.exhaustive
def test_the_measures_of_a_large_step_are_there_at_once() -> None:
    """Any measure needs no further compilation, and the state has the bits of a plain loop."""
    assert ROWS * WIDE * WIDE >= MUCH_WORK
    lists = [["loss"], ["loss", "accuracy"], ["accuracy"], ["loss"]]
    stats = assert_alike(lists, WIDE)
    assert stats["reasons"] == {NEW_PROGRAM: 1}
    assert "other_fetches" not in stats
    _, state, _ = values([["loss"]] * 4, WIDE, alone=False)
    _, changed, _ = values(lists, WIDE, alone=False)
    for name, value in state.items():
        np.testing.assert_array_equal(changed[name], value)


@pytest.mark.exhaustive
def test_a_small_step_has_its_fetches_alone() -> None:
    """The second compilation adds the measures; the report names the missing fetch."""
    stats = assert_alike([["loss"], ["loss", "accuracy"], ["accuracy"], ["hidden"]], NARROW)
    assert stats["reasons"] == {NEW_PROGRAM: 1, OTHER_FETCHES: 2}
    accuracy, hidden = stats["other_fetches"]
    assert accuracy.startswith("no step returned accuracy_0")
    assert hidden.startswith("no step returned fc_0")


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", [NARROW, pytest.param(WIDE, marks=pytest.mark.exhaustive)])
def test_state_is_read_off_the_scope(width: int) -> None:
    """A fetched parameter has its value after the step, without a compilation."""
    lists = [["loss"], ["w"], ["w", "loss"], ["loss"]]
    stats = assert_alike(lists, width)
    assert stats["reasons"] == {NEW_PROGRAM: 1}
    with static.scope_guard(static.Scope()):
        net, _ = classifier(width)
        net.run(feed(width), net.loss)
        (found,) = net.run(feed(width), "w")
        np.testing.assert_array_equal(found, _value("w"))
        (again,) = net.run(feed(width), "w")
        assert (again != found).any()
        (kept,) = net.run(feed(width), "w", return_numpy=False)
        wanted = _value("w")
        net.run(feed(width), net.loss)
        np.testing.assert_array_equal(kept.numpy(), wanted)  # not that of a later step


@pytest.mark.exhaustive
def test_state_in_stacks() -> None:
    """Parameters stored as one array are fetched one by one."""
    with static.scope_guard(static.Scope()), paddle.utils.unique_name.guard():
        main, startup = static.Program(), static.Program()
        with static.program_guard(main, startup):
            h = static.data("x", [None, 16], "float32")
            for number in range(6):
                h = static.nn.fc(h, 16, activation="tanh", weight_attr=f"w{number}")
            loss = paddle.mean(paddle.square(h))
            paddle.optimizer.Adam(0.1).minimize(loss)
        exe = static.Executor(paddle.CPUPlace())
        exe.run(startup)
        x = {"x": np.ones((3, 16), "float32")}
        exe.run(main, x, [loss])
        names = [f"w{number}" for number in range(6)]
        found = exe.run(main, x, [*names, loss])
        for name, value in zip(names, found[:-1], strict=True):
            np.testing.assert_array_equal(value, _value(name))
        assert exe.stats["reasons"] == {NEW_PROGRAM: 2}


def chosen(make: Any, rows: int = 1 << 20) -> list[str]:
    """Return the measures of a program next to the first fetch that `make` returns."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [None, 4, 4], "float32")
        loss = paddle.mean(static.nn.fc(x, 4))
        make(x, loss)
        paddle.optimizer.SGD(0.1).minimize(loss)
    return measures(main, (loss.name,), rows, first=True)


def test_what_is_no_measure() -> None:
    """Draws, separate layers, Python calls and constants are computed only on request."""
    assert chosen(lambda x, _: paddle.mean(F.dropout(x, 0.5))) == []
    assert chosen(lambda x, _: paddle.mean(static.nn.fc(x, 4))) == []
    assert chosen(lambda *_: paddle.full([1], 2.0)) == []
    assert chosen(lambda x, _: paddle.sum(x)) == [], "as many elements as multiplications"
    assert chosen(lambda _, loss: loss * 2.0) != []
    many = chosen(lambda _, loss: [loss * float(n) for n in range(2, 20)])
    assert len(many) == MOST_MEASURES


def test_no_pass_sees_a_measure() -> None:
    """A value between two ops that passes join is no measure."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [None, 1], "float32")
        number = static.nn.fc(x, 1, activation="relu", bias_attr="b")
        loss = paddle.mean(paddle.square(number - 1.0))
        accuracy = loss * 2.0
        test = main.clone(for_test=True)
        paddle.optimizer.SGD(0.1).minimize(loss)
    rows = 1 << 26
    assert measures(main, (loss.name,), rows, first=True) == [accuracy.name]
    assert measures(test, (loss.name,), rows, first=True) == []


@pytest.mark.exhaustive
def test_sequences_share_fetches() -> None:
    """Padded programs share fetches, too: two compilations serve any fetches of three."""
    with static.scope_guard(static.Scope()), paddle.utils.unique_name.guard():
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup):
            words = fluid.data("words", [None], "int64", lod_level=1)
            y = fluid.data("y", [None, 1], "int64")
            pooled = fluid.layers.sequence_pool(fluid.embedding(words, size=[20, 4]), "sqrt")
            scores = fluid.layers.fc(pooled, size=4, act="softmax", param_attr="w")
            loss = fluid.layers.mean(fluid.layers.cross_entropy(scores, y))
            accuracy = fluid.layers.accuracy(scores, y)
            fluid.optimizer.SGD(0.1).minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        rows = fluid.create_lod_tensor(np.arange(15), [[7, 4, 4]], fluid.CPUPlace())
        given = {"words": rows, "y": LABELS[:3]}
        (first,) = exe.run(main, given, [loss])
        exe.run(main, given, [scores, accuracy])
        before = exe.stats["reasons"]
        assert before == {NEW_PROGRAM: 2, OTHER_FETCHES: 1}
        for fetches in ([accuracy], [loss, accuracy], [scores], ["w"], [scores, "w", loss]):
            found = exe.run(main, given, fetches)
            wanted = [tuple(each.shape) for each in found]
            shapes = {scores: (3, 4), "w": (4, 4)}
            assert wanted == [shapes.get(each, found[at].shape) for at, each in enumerate(fetches)]
        assert float(np.ravel(found[-1])[0]) < float(np.ravel(first)[0])
        assert exe.stats["reasons"] == before and exe.stats["exact"] == []
