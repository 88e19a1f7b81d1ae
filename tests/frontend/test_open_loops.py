"""Loops whose length depends on data, with variables of changing shapes and tensor arrays."""

from __future__ import annotations

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import ProgramError, UnsupportedError
from graphopt.static.nn import cond, while_loop
from graphopt.tensor.array import (
    array_length,
    array_read,
    array_write,
    create_array,
    tensor_array_to_tensor,
)
from graphopt.tensor.blocks import ConditionalBlock
from graphopt_tests.frontend.test_control_flow import X, count, data, fresh, run

THREE = np.array([3], "int64")


def length() -> static.Variable:
    return static.data("n", [1], "int64")


def test_a_variable_that_grows() -> None:
    """The run decides the number of rows; the executor compiles the program op by op."""
    with fresh():
        x, n = data(), length()
        _, y = while_loop(
            lambda i, y: i < n, lambda i, y: [i + 1, paddle.concat([y, x])], [count(0), x * 1]
        )
        for times in (0, 1, 3):
            (grown,) = run([y], x=X, n=np.array([times], "int64"))
            np.testing.assert_allclose(grown, np.concatenate([X] * (times + 1)))


def test_an_array_that_grows() -> None:
    """A loop appends to an array, which is then stacked, joined, measured and read."""
    with fresh():
        x, n = data(), length()
        i, array = count(0), create_array("float64")
        _, _, array = while_loop(
            lambda i, h, a: i < n,
            lambda i, h, a: [i + 1, h * 2, array_write(h, i, a)],
            [i, x * 1, array],
        )
        stacked, _ = tensor_array_to_tensor(array, 1, use_stack=True)
        joined, sizes = tensor_array_to_tensor(array, 1)
        last = array_read(array, n - 1)
        fetched = run([stacked, joined, sizes, array_length(array), last], x=X, n=THREE)
    elements = [X, 2 * X, 4 * X]
    np.testing.assert_allclose(fetched[0], np.stack(elements, 1))
    np.testing.assert_allclose(fetched[1], np.concatenate(elements, 1))
    assert fetched[2].tolist() == [X.shape[1]] * 3
    assert fetched[3].tolist() == [3]
    np.testing.assert_allclose(fetched[4], elements[2])


def test_an_array_from_before_the_loop_is_read_and_changed() -> None:
    with fresh():
        x, n = data(), length()
        array = array_write(x, count(0))
        array = array_write(x + 1, count(1), array)

        def step(i: static.Variable, a: static.Variable) -> list[static.Variable]:
            return [i + 1, array_write(array_read(a, i) * 10, i, a)]

        while_loop(lambda i, a: i < n, step, [count(0), array])
        values = run([array_read(array, count(0)), array_read(array, count(1))], x=X, n=THREE - 2)
    np.testing.assert_allclose(values[0], X * 10)
    np.testing.assert_allclose(values[1], X + 1)


def test_a_position_that_data_decide() -> None:
    """A position may be fed outside of loops, too; reading an unwritten one is refused."""
    with fresh():
        x, n = data(), length()
        array = array_write(x, count(0))
        array = array_write(x + 1, count(1), array)
        value = array_read(array, n)
        np.testing.assert_allclose(run([value], x=X, n=THREE - 2)[0], X + 1)
        with pytest.raises(ProgramError, match="position 3 of a tensor array with 2 elements"):
            run([value], x=X, n=THREE)
    with fresh():
        x, n = data(), length()
        array = array_write(x, n)
        assert run([array_length(array)], x=X, n=THREE)[0] == 4  # as in Paddle
        with pytest.raises(UnsupportedError, match="fetch the result of tensor_array_to_tensor"):
            run([array_write(paddle.sum(x), n)], x=X, n=THREE)
    with fresh():
        x = data()
        place = paddle.cast(static.data("place", [1], "float32"), "int64")
        array = array_write(x, place)
        with pytest.raises(ProgramError, match=r"position 3 .* 0 elements is written"):
            run([array_length(array)], x=X, place=THREE.astype("float32"))


def test_elements_that_differ_in_their_first_axis() -> None:
    """Such elements are read, replaced and joined; no other axis may differ."""
    with fresh():
        x, n = data(), length()
        array = array_write(x, count(0))
        array = array_write(paddle.concat([x, x]), count(1), array)
        value = array_read(array, n - 2)
        array = array_write(x[:1], n - 3, array)
        joined, sizes = tensor_array_to_tensor(array, 0)
        found = run([value, joined, sizes, array_length(array), array], x=X, n=THREE)
    assert [each.shape for each in found.pop()] == [(1, 3), (4, 3)]
    np.testing.assert_allclose(found[0], np.concatenate([X, X]))
    np.testing.assert_allclose(found[1], np.concatenate([X[:1], X, X]))
    assert [found[2].tolist(), found[3].tolist()] == [[1, 2 * len(X)], [2]]
    with fresh():
        x, n = data(), length()
        array = array_write(x, count(0))
        array = array_write(paddle.concat([x, x], 1), count(1), array)
        with pytest.raises(ProgramError, match="differ in their first axis at most"):
            run([array_read(array, n)], x=X, n=THREE)


def test_branches_of_different_shapes() -> None:
    with fresh():
        x = data()
        out = cond(paddle.sum(x) > 0, lambda: x[:1], lambda: x)
        np.testing.assert_allclose(run([out], x=X)[0], X[:1])
        np.testing.assert_allclose(run([out], x=-X)[0], -X)


def test_an_array_that_a_branch_writes() -> None:
    with fresh():
        x = data()
        array = array_write(x, count(0))

        def more() -> None:
            array_write(x * 2, count(1), array)

        cond(paddle.sum(x) > 0, more, None)
        size = array_length(array)
        assert run([size], x=X)[0].tolist() == [2]
        assert run([size], x=-X)[0].tolist() == [1]


def test_gradients_go_through() -> None:
    """Each row of a growing sum adds its part to the gradient."""
    with fresh():
        x, n = data(), length()
        x.stop_gradient = False
        _, y = while_loop(
            lambda i, y: i < n, lambda i, y: [i + 1, paddle.concat([y, x * x])], [count(0), x * 1]
        )
        (gradient,) = static.gradients(paddle.sum(y), [x])
        (found,) = run([gradient], x=X, n=THREE)
    np.testing.assert_allclose(found, 1 + 3 * 2 * X)


def test_ranks_and_dtypes_must_stay() -> None:
    with fresh():
        x, n = data(), length()
        _, y = while_loop(
            lambda i, y: i < n, lambda i, y: [i + 1, paddle.unsqueeze(y, 0)], [count(0), x * 1]
        )
        with pytest.raises(UnsupportedError, match="must keep its dtype and number of dimensions"):
            run([y], x=X, n=THREE)


def test_a_size_that_a_loop_changes_is_unknown_after_it() -> None:
    """The size is unknown in an enclosing loop, too."""
    with fresh():
        x = data()

        def body(i: static.Variable, y: static.Variable) -> list[static.Variable]:
            _, y = while_loop(
                lambda j, y: j < 2, lambda j, y: [j + 1, paddle.concat([y, x])], [count(0), y]
            )
            return [i + 1, y]

        _, y = while_loop(lambda i, y: i < 2, body, [count(0), x * 1])
        assert list(y.shape) == [-1, *x.shape[1:]]
        (zeros,) = run([paddle.zeros(paddle.shape(y))], x=X)
        assert zeros.shape == (5 * len(X), *X.shape[1:])


def test_a_size_that_a_block_changes_is_unknown_after_it() -> None:
    """The size is unknown because the block may not run."""
    with fresh():
        x = data()
        y = x * 1
        with ConditionalBlock([x.sum() > 0], is_scalar_condition=True).block():
            paddle.assign(x[:1], y)
        assert list(y.shape) == [-1, *x.shape[1:]]
