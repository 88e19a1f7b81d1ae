"""fluid.layers.DynamicRNN: each sequence runs alone, to its own end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphopt import fluid
from graphopt.errors import UnsupportedError
from graphopt_tests.example_counts import examples
from graphopt_tests.frontend.test_fluid import fresh

layers = fluid.layers
WIDTH = 3


def parameter(name: str, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return a parameter attribute, and its initial value."""
    value = np.random.default_rng(len(name)).standard_normal(shape).astype("float32") * 0.3
    initializer = fluid.initializer.NumpyArrayInitializer(value)
    return fluid.ParamAttr(name=name, initializer=initializer), value


def run_alike(lengths: list[int], start: Any) -> tuple[Any, Any, Any]:
    """Return the results of a network with two memories, of a loop, and the ends of sequences."""
    of_input, of_hidden = parameter("u", (WIDTH, 2)), parameter("ww", (2, 2))
    rows = np.random.default_rng(1).standard_normal((sum(lengths), WIDTH)).astype("float32")
    with fresh():
        x = fluid.data("x", [None, WIDTH], "float32", lod_level=1)
        first = fluid.data("first", [None, 2], "float32")
        rnn = layers.DynamicRNN()
        with rnn.block():
            row = rnn.step_input(x)
            same = rnn.static_input(first)
            hidden = rnn.memory(init=first, need_reorder=True)
            count = rnn.memory(shape=[1], value=2.0)
            attrs = [of_input[0], of_hidden[0]]
            new = layers.fc([row, hidden], 2, act="tanh", param_attr=attrs, bias_attr=False)
            rnn.update_memory(hidden, new)
            rnn.update_memory(count, layers.scale(count, bias=1.0))
            rnn.output(layers.elementwise_add(new, same), count)
        outs = rnn()
        last = layers.sequence_last_step(outs[0])
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(fluid.default_startup_program())
        feed = {"x": fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace()), "first": start}
        found = exe.run(feed=feed, fetch_list=[*outs, last], return_numpy=False)
    assert found[0].recursive_sequence_lengths() == [lengths]
    wanted: list[Any] = []
    for number, part in enumerate(np.split(rows, np.cumsum(lengths)[:-1])):
        state = start[number]
        for step, row in enumerate(part):
            state = np.tanh(row @ of_input[1] + state @ of_hidden[1])
            wanted.append([*(state + start[number]), 2 + step])
    return [np.array(each) for each in found], np.array(wanted), np.cumsum(lengths) - 1


@pytest.mark.exhaustive
@settings(max_examples=examples(5), deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_each_sequence_as_if_alone(lengths: list[int]) -> None:
    """Values of all steps, step counts, and last values equal a loop in NumPy."""
    start = np.random.default_rng(2).standard_normal((len(lengths), 2)).astype("float32")
    (outs, counts, last), wanted, ends = run_alike(lengths, start)
    np.testing.assert_allclose(outs, wanted[:, :2], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(counts, wanted[:, 2:])
    np.testing.assert_allclose(last, wanted[ends, :2], rtol=1e-5, atol=1e-6)


@pytest.mark.exhaustive
def test_the_numbers_of_paddle() -> None:
    """Rows and their gradients are those of Paddle 1.8.5 for h = x + h / 2."""
    rows = np.arange(10, dtype="float32").reshape(5, 2)
    with fresh():
        x = fluid.data("x", [None, 2], "float32", lod_level=1)
        x.stop_gradient = False
        rnn = layers.DynamicRNN()
        with rnn.block():
            row, hidden = rnn.step_input(x), rnn.memory(shape=[2], value=0.0)
            new = layers.elementwise_add(row, layers.scale(hidden, 0.5))
            rnn.update_memory(hidden, new)
            rnn.output(new)
        out = rnn()
        loss = layers.reduce_sum(layers.square(layers.sequence_last_step(out)))
        gradient = fluid.gradients([loss], [x])[0]
        feed = {"x": fluid.create_lod_tensor(rows, [[2, 3]], fluid.CPUPlace())}
        exe = fluid.Executor(fluid.CPUPlace())
        found = exe.run(feed=feed, fetch_list=[out, gradient])
    np.testing.assert_allclose(found[0], [[0, 1], [2, 3.5], [4, 5], [8, 9.5], [12, 13.75]])
    np.testing.assert_allclose(found[1], [[2, 3.5], [4, 7], [6, 6.875], [12, 13.75], [24, 27.5]])


def test_methods_in_the_wrong_place() -> None:
    """The error messages are those of Paddle 1.8."""
    with fresh():
        x = fluid.data("x", [None, 2], "float32", lod_level=1)
        rnn = layers.DynamicRNN()
        with pytest.raises(ValueError, match="step_input can only be invoked inside rnn block"):
            rnn.step_input(x)
        with pytest.raises(ValueError, match="can only be visited outside the rnn block"):
            rnn()
        with (
            pytest.raises(ValueError, match="step_input should be invoked before memory"),
            rnn.block(),
        ):
            rnn.memory(shape=[2])
        dense = fluid.data("dense", [None, 2], "float32")
        other = layers.DynamicRNN()
        with pytest.raises(UnsupportedError, match="no sequence lengths"), other.block():
            other.step_input(dense)
