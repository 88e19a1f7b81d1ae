"""fluid.contrib.layers: recurrent networks of several layers and directions, as in 1.8.5."""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import numpy as np
import pytest

from graphopt import fluid
from graphopt.errors import UnsupportedError
from graphopt.fluid.contrib.layers import BasicGRUUnit, basic_gru, basic_lstm
from graphopt.incubate import layers as incubate_layers
from graphopt_tests.frontend.test_fluid import fresh


@pytest.mark.exhaustive
def test_two_layers_in_both_directions() -> None:
    with fresh() as main:
        x, lengths = fluid.data("x", [None, 4, 3]), fluid.data("n", [None], "int64")
        hidden, cell = (fluid.data(name, [4, None, 5]) for name in ("h", "c"))
        lstm = basic_lstm(x, hidden, cell, 5, 2, lengths, bidirectional=True)
        gru = basic_gru(x, hidden, 5, 2, lengths, bidirectional=True)
        names = [parameter.name for parameter in main.all_parameters()]
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        for name in names:
            tensor = fluid.global_scope().find_var(name).get_tensor()
            numbers = np.random.RandomState(crc32(name.encode()) % 1000)
            shape = np.array(tensor).shape
            tensor.set(numbers.uniform(-0.5, 0.5, shape).astype("float32"), fluid.CPUPlace())
        numbers = np.random.RandomState(0)
        shapes = {"x": (3, 4, 3), "h": (4, 3, 5), "c": (4, 3, 5)}
        feed = {k: numbers.uniform(-1, 1, s).astype("float32") for k, s in shapes.items()}
        feed["n"] = np.array([4, 2, 1])
        found = exe.run(main, feed, [*lstm, *gru])
    assert names[:2] == [f"basic_lstm_layers_0/BasicLSTMUnit_0.{end}" for end in ("w_0", "b_0")]
    assert "basic_gru_reverse_layers_1/BasicGRUUnit_0.w_1" in names
    assert [value.shape for value in found[:3]] == [(3, 4, 10), (4, 3, 5), (4, 3, 5)]
    sums = [np.abs(value).sum() for value in found]
    np.testing.assert_allclose(sums, [24.925846, 8.873394, 19.223593, 37.233337, 14.323996], 1e-5)


def test_first_states_of_one_layer_may_lack_the_first_axis() -> None:
    """First states of one layer may lack the layer axis: Paddle reshapes them."""
    with fresh():
        x, hidden = fluid.data("x", [2, 4, 3]), fluid.data("h", [2, 5])
        out, last = basic_gru(x, hidden, 5)
        assert (out.shape, last.shape) == ((2, 4, 5), (1, 2, 5))


def test_a_unit_has_the_parameters_of_its_first_call() -> None:
    with fresh():
        x, hidden = fluid.data("x", [None, 3]), fluid.data("h", [None, 5])
        unit = BasicGRUUnit("unit", 5)
        assert unit(x, hidden).shape == (-1, 5)
        assert [p.name for p in unit.parameters()] == [
            f"unit/BasicGRUUnit_0.{end}" for end in ("w_0", "b_0", "w_1", "b_1")
        ]
        fluid.parallel_executor.ParallelExecutor  # noqa: B018 - the module of 1.8 has it


def test_rows_are_shuffled_and_carry_their_gradients() -> None:
    with fresh() as main:
        x = fluid.data("x", [None, 3])
        x.stop_gradient = False
        weights = fluid.data("w", [None, 3])
        shuffled = fluid.contrib.layers.shuffle_batch(x)
        loss = fluid.layers.reduce_sum(shuffled * weights)
        (gradient,) = fluid.gradients(loss, x)
        exe = fluid.Executor()
        rows = np.arange(24, dtype="float32").reshape(8, 3)
        feed = {"x": rows, "w": rows + 100}
        orders = []
        for _ in range(2):
            found, back = exe.run(main, feed, [shuffled, gradient])
            order = (found[:, 0] / 3).astype(int)
            assert sorted(order) == list(range(8))
            np.testing.assert_array_equal(found, rows[order])
            np.testing.assert_array_equal(back[order], feed["w"])
            orders.append(list(order))
    assert orders[0] != orders[1]


def test_shuffled_rows_of_three_axes() -> None:
    with fresh() as main:
        x = fluid.data("x", [None, 2, 3])
        shuffled = fluid.contrib.layers.shuffle_batch(x)
        rows = np.arange(24, dtype="float32").reshape(4, 2, 3)
        (found,) = fluid.Executor().run(main, {"x": rows}, [shuffled])
    assert found.shape == rows.shape
    assert sorted(map(tuple, found.reshape(8, 3))) == list(map(tuple, rows.reshape(8, 3)))


def test_a_seed_fixes_the_order() -> None:
    with fresh() as main:
        x = fluid.data("x", [None, 1])
        fixed = [fluid.contrib.layers.shuffle_batch(x, seed) for seed in (5, 6)]
        with pytest.raises(UnsupportedError, match="'seed' as a Variable is not supported"):
            fluid.contrib.layers.shuffle_batch(x, x)
        exe, rows = fluid.Executor(), np.arange(50, dtype="float32")[:, None]
        first, again = (exe.run(main, {"x": rows}, fixed) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first[0], first[1])


def test_a_trainer_has_one_batch_of_each_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def batches() -> Iterator[int]:
        yield from range(8)

    alone = fluid.contrib.reader.distributed_batch_reader(batches)
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "3")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    second = fluid.contrib.distributed_batch_reader(batches)
    assert list(alone()) == list(range(8))
    assert list(second()) == list(second()) == [1, 4]
    monkeypatch.setenv("PADDLE_TRAINER_ID", "3")
    with pytest.raises(ValueError, match="numbers from 0 to 2"):
        fluid.contrib.distributed_batch_reader(batches)


def test_the_names_of_paddle_2() -> None:
    """paddle.incubate.layers has the functions, too."""
    with fresh():
        x = fluid.data("x", [None, 3])
        out = incubate_layers.nn.partial_sum([x, x], 1, 2)
        values = np.array([[1, 2, 3]], "float32")
        exe = fluid.Executor(fluid.CPUPlace())
        (found,) = exe.run(feed={"x": values}, fetch_list=[out])
        assert found.tolist() == [[4, 6]]
        (found,) = exe.run(feed={"x": values}, fetch_list=[incubate_layers.partial_concat(x, 1)])
        assert found.tolist() == [[2, 3]]
