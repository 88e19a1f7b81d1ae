"""Control flow as `with` blocks, and tensor arrays, against plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.errors import ProgramError, UnsupportedError
from graphopt.static.nn.if_else import IfElse
from graphopt.static.nn.static_rnn import StaticRNN
from graphopt.tensor.array import (
    array_length,
    array_read,
    array_write,
    create_array,
    tensor_array_to_tensor,
)
from graphopt.tensor.blocks import Switch, While
from graphopt_tests.frontend.differences import Array, X, check, count, data
from graphopt_tests.frontend.programs import fresh, run, start

while_loop = static.nn.while_loop


# Switch and While ------------------------------------------------------------------------------


def test_switch_changes_state() -> None:
    """Cases assign to a persistable variable, which keeps its value for the next run."""
    with fresh():
        x = data()
        rate = static.create_global_var([1], 0.5, "float32", persistable=True, name="rate")
        with Switch() as switch:
            with switch.case(paddle.sum(x) > 10.0):
                paddle.assign(rate * 2, rate)
            with switch.case(paddle.sum(x) > 0.0):
                paddle.assign(rate * 10, rate)
            with switch.default():
                paddle.assign(paddle.full([1], 0.25), rate)
        start()
        executor = static.Executor(paddle.CPUPlace())
        feeds = [{"x": value} for value in (X, X + 5, -X, -X, X)]
        found = [float(executor.run(feed=f, fetch_list=[rate])[0][0]) for f in feeds]
    assert found == [5.0, 10.0, 0.25, 0.25, 2.5]


def test_while_block() -> None:
    """The While class updates variables in place, state included."""
    with fresh():
        x, i = data(), count(0)
        steps = static.create_global_var([1], 0, "int64", persistable=True, name="steps")
        y, going = x * 1, i < 3
        with While(going).block():
            paddle.assign(y * x, y)
            paddle.increment(i)
            paddle.assign(steps + 1, steps)
            paddle.assign(i < 3, going)
        start()
        grads = static.gradients([y], [x])
        run([], x=X)
        value, at, ended, gradient, total = run([y, i, going, *grads, steps], x=X)
    np.testing.assert_allclose(value, X**4)
    np.testing.assert_allclose(gradient, 4 * X**3)
    assert (at[0], ended[0], total[0]) == (3, False, 6)


# Arrays ----------------------------------------------------------------------------------------


def test_arrays_in_loops() -> None:
    """A loop computes each element from the previous one; the joined elements have gradients."""

    def build(x: Any) -> Any:
        array = array_write(x, count(0))

        def body(i: Any, array: Any) -> list[Any]:
            after = i + 1
            return [after, array_write(paddle.tanh(array_read(array, i)) * 2, after, array)]

        _, array = while_loop(lambda i, a: i < 3, body, [count(0), array])
        return tensor_array_to_tensor(array, axis=0)[0]

    def wanted(x: Array) -> Array:
        rows = [x]
        for _ in range(3):
            rows.append(np.tanh(rows[-1]) * 2)
        return np.concatenate(rows)

    check(build, wanted)


def test_arrays_are_fetched_as_lists() -> None:
    """A fetched array is a list of elements, per device or merged, with lengths of sequences."""
    with fresh() as (main, _):
        x = data(shape=(-1, 3))
        total = paddle.sum(x)
        array = array_write(total, count(1), array_write(x * 2, count(0)))
        (rows, number), after = run([array, total], x=X)
        np.testing.assert_array_equal(rows, X * 2)
        assert number == after == X.sum()
        exe = static.Executor(paddle.CPUPlace())
        tensors = exe.run(main, {"x": X}, array, return_numpy=False, use_prune=True)[0]
        assert [np.array(each).shape for each in tensors] == [X.shape, ()]
        half = static.CompiledProgram(main).with_data_parallel(places=static.cpu_places(2))
        merged = exe.run(half, {"x": X}, [array])[0]
        np.testing.assert_array_equal(merged[0], X * 2)
        np.testing.assert_array_equal(merged[1], X.sum(1))
        apart = exe.run(half, {"x": X}, [array], return_merged=False)[0]
        np.testing.assert_array_equal(apart[1][0], X[1:] * 2)
        with pytest.raises(ProgramError, match="has positions that were never written"):
            run([array_write(x, count(1))], x=X)


def test_fetched_elements_have_lengths() -> None:
    with fresh():
        words = fluid.data("words", [None, 1], lod_level=1)
        array = fluid.layers.array_write(words, count(0))
        fluid.layers.array_write(fluid.layers.sequence_expand(words, words), count(1), array)
        feed = {"words": fluid.create_lod_tensor(np.ones((3, 1), "float32"), [[1, 2]])}
        (found,) = fluid.Executor().run(feed=feed, fetch_list=[array], return_numpy=False)
    assert [each.recursive_sequence_lengths() for each in found] == [[[1, 2]], [[1, 2, 2]]]


def test_what_is_declared_of_joined_arrays() -> None:
    """Only the size along the axis is unknown, so operators can follow."""
    with fresh():
        array = fluid.layers.array_write(data(), count(0))
        stacked, sizes = fluid.layers.tensor_array_to_tensor(array, axis=1, use_stack=True)
        assert (stacked.shape, stacked.dtype, sizes.dtype) == ((2, -1, 3), "float64", "int32")
        assert run([fluid.layers.reduce_sum(stacked)], x=X) == [X.sum()]


def test_arrays() -> None:
    """Elements may differ in shape; a write past the end leaves a hole, which counts."""
    with fresh():
        x = data()
        array = create_array("float64", [x, x[:1]])
        array_write(paddle.sum(x), count(3), array)
        outs = [array_length(array), array_read(array, count(1)), array_read(array, count(3))]
        length, row, total = run(outs, x=X)
        assert (length.tolist(), row.shape, total) == ([4], (1, 3), X.sum())
        (first,) = run([array_read(array_write(x * 2, 0, array), 0)], x=X)
        np.testing.assert_array_equal(first, X * 2)
        with pytest.raises(ProgramError, match=r"position 2 of .* was never written"):
            run([array_read(array, count(2))], x=X)
        with pytest.raises(TypeError, match="'array' should be a tensor array"):
            array_length(x)
        with pytest.raises(TypeError, match="must be int64"):
            array_read(array, paddle.full([1], 0, "int32"))


# StaticRNN and IfElse --------------------------------------------------------------------------


@pytest.mark.parametrize("boot", [True, False])
def test_static_rnn(boot: bool) -> None:
    """The network runs over the first axis; its memory starts from a shape or a value."""

    def build(x: Any) -> Any:
        rnn = StaticRNN()
        words = paddle.reshape(x, [3, 2, 1])
        first = None if boot else paddle.full([2, 1], 0.5, "float64")
        with rnn.step():
            word = rnn.step_input(words)
            memory = rnn.memory(first, [-1, 1], word, init_value=0.5)
            new = paddle.tanh(word + memory)
            rnn.update_memory(memory, new)
            rnn.output(new, new * word)
        one, two = rnn()
        return one * two

    def wanted(x: Array) -> Array:
        memory, rows = np.full((2, 1), 0.5), []
        for word in x.reshape(3, 2, 1):
            memory = np.tanh(word + memory)
            rows.append(memory * memory * word)
        return np.stack(rows)

    check(build, wanted)


def test_static_rnn_errors() -> None:
    """Memories must be updated, and results exist only after the step."""
    with fresh():
        x, rnn = data(), StaticRNN()
        with pytest.raises(ValueError, match="step_input in rnn block"):
            rnn.step_input(x)
        with pytest.raises(ValueError, match="after rnn block"):
            rnn()
        with pytest.raises(ProgramError, match="should be updated in every step"), rnn.step():
            rnn.step_input(x)
            rnn.memory(shape=[-1, 1], batch_ref=x, ref_batch_dim_idx=0)
        rnn = StaticRNN()
        with pytest.raises(ProgramError, match="is computed inside the step"), rnn.step():
            rnn.memory(x * 2)
        assert static.default_main_program().num_blocks == 1
        rnn, total = StaticRNN(), x * 0
        with rnn.step():
            item = rnn.step_input(x)
            paddle.assign(total + item, total)
            rnn.step_output(item)
        with pytest.raises(UnsupportedError, match=r"outside of the step; make .* a memory"):
            run([rnn()], x=X)


def test_if_else() -> None:
    """Each row takes its branch; a value that is valid only in the other branch does no harm."""

    def build(x: Any) -> Any:
        total = paddle.sum(x, axis=1, keepdim=True)
        branches = IfElse(total > 0)
        with branches.true_block():
            branches.output(paddle.log(branches.input(total)) * branches.input(x))
        with branches.false_block():
            branches.output(branches.input(x) - 5)
        return branches()[0]

    def wanted(x: Array) -> Array:
        total = x.sum(1, keepdims=True)
        return np.where(total > 0, np.log(np.abs(total)) * x, x - 5)

    check(build, wanted, np.concatenate([X, -X, X * 3]))


def test_if_else_with_rows_that_meet() -> None:
    """A branch in which rows depend on each other is refused."""
    with fresh():
        x = data()
        branches = IfElse(paddle.sum(x, axis=1, keepdim=True) > 0)
        with branches.true_block():
            branches.output(branches.input(x) - paddle.mean(branches.input(x)))
        with branches.false_block():
            branches.output(branches.input(x))
        with pytest.raises(UnsupportedError, match=r"pd\.mean in a branch of IfElse"):
            run(branches(), x=X)
