"""Branches and loops against plain NumPy, and their gradients against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.errors import UnsupportedError
from graphopt_tests.frontend.differences import Array, X, check, count, data
from graphopt_tests.frontend.programs import fresh, run, start, weight

cond, while_loop = static.nn.cond, static.nn.while_loop
while_in_place = fluid.layers.while_loop


# Branches --------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
def test_cond(sign: int) -> None:
    """The condition chooses the branch, and the gradient is that branch's."""
    check(
        lambda x: cond(paddle.sum(x) > 0, lambda: x * x, lambda: paddle.exp(x)),
        lambda x: x * x if x.sum() > 0 else np.exp(x),
        sign * X,
    )


@pytest.mark.parametrize("sign", [1, -1])
def test_results_of_any_structure(sign: int) -> None:
    """Lists, tuples, dicts and numbers come back in the structure of the branches."""
    with fresh():
        x = data()
        made = cond(
            paddle.sum(x) > 0,
            lambda: [x * 2, {"b": (x + 1,), "a": 3}, 1.5],
            lambda: [x, {"a": 3, "b": (x - 1,)}, 2.5],
        )
        assert isinstance(made, list) and list(made[1]) == ["a", "b"] and made[1]["a"] == 3
        first, second, number = run([made[0], made[1]["b"][0], made[2]], x=sign * X)
    np.testing.assert_allclose(first, X * 2 if sign > 0 else -X)
    np.testing.assert_allclose(second, sign * X + sign)
    assert (number, number.shape, number.dtype) == (1.5 if sign > 0 else 2.5, (), np.float64)


def test_one_branch_that_assigns() -> None:
    """A branch may assign to an outer variable; the gradient follows the value."""

    def build(x: Any) -> Any:
        y = x * 2
        cond(paddle.sum(x) > 0, lambda: [paddle.assign(y * x, y), None][1])
        return y + x

    check(build, lambda x: (2 * x * x if x.sum() > 0 else 2 * x) + x)
    check(build, lambda x: (2 * x * x if x.sum() > 0 else 2 * x) + x, -X)


def test_stop_gradient_in_a_branch() -> None:
    """A variable in a branch may stop gradients."""

    def build() -> tuple[Any, Any]:
        x = data()

        def branch() -> Any:
            factor = x * x
            factor.stop_gradient = True
            return factor * x

        return x, cond(paddle.sum(x) > 0, branch, lambda: x)

    with fresh():
        x, out = build()
        (gradient,) = run(static.gradients([out], [x]), x=X)
    np.testing.assert_allclose(gradient, X * X)


def test_case() -> None:
    """The first true condition wins; without a default the last function is the default."""

    def build(x: Any) -> Any:
        total = paddle.sum(x)
        pairs = [(total < -1.0, lambda: x - 1), (total < 1.0, lambda: x * 2)]
        first = static.nn.case(pairs, default=lambda: x * x)
        return first + static.nn.case(pairs)

    def wanted(x: Array) -> Array:
        total = x.sum()
        if total < -1:
            return 2 * (x - 1)
        return 4 * x if total < 1 else x * x + 2 * x

    for shift in (-1, 0, 1):
        check(build, wanted, X + shift)


@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_switch_case(dtype: str) -> None:
    """Functions are a list, pairs or a dict; without a default the largest number is taken."""
    with fresh():
        x, k = data(), static.data("k", [1], dtype)
        outs = [
            static.nn.switch_case(k, [lambda: x, lambda: x * 2]),
            static.nn.switch_case(k, [(3, lambda: x * 3), (1, lambda: x * 4)]),
            static.nn.switch_case(k, {1: lambda: x * 5, 7: lambda: x * 6}, default=lambda: x * 7),
        ]
        executor = static.Executor(paddle.CPUPlace())
        for number, factors in ((0, (1, 3, 7)), (1, (2, 4, 5)), (3, (2, 3, 7)), (7, (2, 3, 6))):
            found = executor.run(feed={"x": X, "k": np.array([number], dtype)}, fetch_list=outs)
            for value, factor in zip(found, factors, strict=True):
                np.testing.assert_allclose(value, X * factor)


def test_an_optimizer_in_each_branch() -> None:
    """Each branch has a loss and an update of its own."""
    with fresh():
        x, w = data(dtype="float32"), weight("w", [[0.5], [1.0], [2.0]])

        def step(rate: float) -> Any:
            loss = paddle.mean(paddle.matmul(x, w))
            paddle.optimizer.SGD(rate).minimize(loss)
            return loss

        cond(paddle.sum(x) > 0, lambda: step(0.5), lambda: step(0.1))
        start()
        expected = np.array([[0.5], [1.0], [2.0]])
        for sign, rate in ((1, 0.5), (-1, 0.1)):
            (found,) = run(["w"], x=(sign * X).astype("float32"))
            expected = expected - rate * sign * X.mean(0)[:, None]
            np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("drop", [0.0, 0.5])
def test_an_optimizer_in_each_branch_of_a_common_network(drop: float) -> None:
    """An optimizer in a branch trains outer parameters as one after the branches does."""

    def steps(*, inside: bool) -> list[Any]:
        with fresh() as (main, _):
            x, w = data(dtype="float32"), weight("w", [[0.5], [1.0], [2.0]])
            hidden = paddle.nn.functional.dropout(paddle.tanh(x) * 2.0, drop)
            out = paddle.matmul(hidden, w) + weight("b", [0.25])
            sgd = paddle.optimizer.SGD(0.5)

            def branch(loss: Any) -> Any:
                if inside:
                    sgd.minimize(loss)
                return loss

            loss = cond(
                paddle.sum(x) > 0,
                lambda: branch(paddle.mean(paddle.square(out - 1.0))),
                lambda: branch(paddle.mean(paddle.exp(out))),
            )
            if not inside:
                sgd.minimize(loss)
            start()
            paddle.seed(7)
            executor = static.Executor(paddle.CPUPlace())
            feeds = [{"x": (sign * X).astype("float32")} for sign in (1, -1, 1)]
            return [executor.run(main, feed, [loss, "w", "b"]) for feed in feeds]

    for found, wanted in zip(steps(inside=True), steps(inside=False), strict=True):
        for value, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(value, other, rtol=1e-6)


def test_a_copy_for_tests_of_a_program_that_trains_in_a_branch() -> None:
    """The clone is the program without the optimizer: the same operators, slots and variables."""

    def build(*, trains: bool) -> list[Any]:
        with fresh() as (main, _):
            x, w = data(dtype="float32"), weight("w", [[0.5], [1.0], [2.0]])
            out = paddle.matmul(x, w)

            def branch() -> Any:
                loss = paddle.mean(out * out)
                if trains:
                    paddle.optimizer.SGD(0.5).minimize(loss)
                return loss

            cond(paddle.sum(x) > 0, branch, lambda: paddle.mean(out))
            test = main.clone(for_test=True)
        blocks = [[(op.type, op.inputs, op.outputs) for op in block.ops] for block in test.blocks]
        return [blocks, [sorted(block.vars) for block in test.blocks]]

    assert build(trains=True) == build(trains=False)


def test_a_derivative_of_a_parameter_that_another_branch_changed() -> None:
    """The derivative is refused: the outer values come from the parameter before its change."""
    with fresh():
        x, w = data(dtype="float32"), weight("w", [[0.5], [1.0], [2.0]])
        out, flags = paddle.matmul(x, w), [paddle.sum(x) > 0, paddle.sum(x) < 1]
        for flag in flags:
            cond(flag, lambda: paddle.optimizer.SGD(0.5).minimize(paddle.mean(out * out)) and None)
        start()
        with pytest.raises(UnsupportedError, match="'w', which was changed"):
            run(["w"], x=X.astype("float32"))


def test_branches_draw_different_numbers() -> None:
    """Random ops in both branches, and in each iteration, draw their own numbers."""
    with fresh():
        x, i = data(), count(0)
        one = cond(paddle.sum(x) > 0, lambda: paddle.rand([4]), lambda: paddle.rand([4]))
        other = cond(paddle.sum(x) < 0, lambda: paddle.rand([4]), lambda: paddle.rand([4]))
        rows = paddle.zeros([3, 4])

        def body(i: Any, rows: Any) -> list[Any]:
            hot = paddle.cast(paddle.arange(3) == i, "float32").reshape([3, 1])
            return [i + 1, rows + hot * paddle.rand([4])]

        outs = [one, other, while_loop(lambda i, r: i < 3, body, [i, rows])[1]]
        paddle.seed(1)
        executor = static.Executor(paddle.CPUPlace())
        drawn = [
            np.concatenate([a.ravel() for a in executor.run(feed={"x": X}, fetch_list=outs)])
            for _ in range(2)
        ]
    assert len(np.unique(np.concatenate(drawn))) == 40


# Loops -----------------------------------------------------------------------------------------


def test_while_loop_with_a_known_end() -> None:
    """A loop that counts to a constant has values and gradients."""

    def build(x: Any) -> Any:
        _, y = while_loop(
            lambda i, y: i < 4,
            lambda i, y: [i + 1, paddle.tanh(y * 1.5) + x],
            [count(0), paddle.assign(x)],
        )
        return y

    def wanted(x: Array) -> Array:
        y = x
        for _ in range(4):
            y = np.tanh(y * 1.5) + x
        return y

    check(build, wanted)


@pytest.mark.every(3)
@pytest.mark.parametrize("trips", [0, 1, 16, 17, 300])
def test_while_loop_with_an_open_end(trips: int) -> None:
    """The number of iterations is fed; the backward pass recomputes the states of the loop."""

    def build(x: Any) -> Any:
        n = static.data("n", [1], "int64")
        _, y = while_loop(
            lambda i, y: i < n,
            lambda i, y: [i + 1, paddle.sin(y * 1.1) + x * 0.1 * paddle.cast(i, "float64")],
            [count(0), paddle.assign(x)],
        )
        return y

    def wanted(x: Array) -> Array:
        y = x
        for i in range(trips):
            y = np.sin(y * 1.1) + x * 0.1 * i
        return y

    check(build, wanted, X[:1] * 0.1, feed={"n": np.array([trips], "int64")})


def test_a_loop_leaves_the_variables_that_it_starts_with() -> None:
    """A loop does not change its start values, as in Paddle 3; in 1.8 it overwrites them."""
    with fresh():
        x = static.data("x", [1])
        start = [count(0), x, {"twice": [x]}]

        def body(i: Any, y: Any, z: Any) -> list[Any]:
            return [i + 1, y + x, {"twice": [z["twice"][0] * 2]}]

        i, y, z = while_loop(lambda i, y, z: i < 3, body, start)
        assert start[1] is x and x.stop_gradient and y.stop_gradient
        found = run([i, y, z["twice"][0], start[0], x], x=np.array([2], "f"))
    np.testing.assert_array_equal(np.ravel(found), [3, 8, 16, 0, 2])
    with fresh():
        x = static.data("x", [1])
        fluid.layers.while_loop(lambda i, y: i < 3, lambda i, y: [i + 1, y + x], [count(0), x])
        np.testing.assert_array_equal(run([x], x=np.array([2], "f")), [[16]])


@pytest.mark.parametrize("trips", [3, None])
def test_the_gradient_of_a_variable_that_a_loop_changes(trips: int | None) -> None:
    """The gradient is with respect to the variable's value before the loop."""

    def build(x: Any) -> Any:
        n = static.data("n", [1], "int64") if trips is None else count(trips)
        tripled = x * 3
        start = [count(0), x]
        _, y = while_in_place(lambda i, y: i < n, lambda i, y: [i + 1, y * 2], start)
        assert y is x
        return y * tripled

    check(build, lambda x: 24 * x * x, feed={} if trips else {"n": np.array([3], "int64")})


@pytest.mark.parametrize("trips", [3, None])
def test_the_fetched_gradient_of_a_variable_that_a_loop_changes(trips: int | None) -> None:
    """Gradients that `append_backward` does not return are for that value, too, as in 1.8.5."""
    with fresh():
        x = static.data("x", [2])
        x.stop_gradient = False
        n = static.data("n", [1], "int64") if trips is None else count(trips)
        doubled = x * 2
        step = [lambda i, y, z: i < n, lambda i, y, z: [i + 1, y * 2, z + y]]
        _, y, z = while_in_place(*step, [count(0), doubled, x])
        static.append_backward((y * y + z).sum())
        feed = {"x": np.array([1, 2], "f")} | ({} if trips else {"n": np.array([3], "int64")})
        found = run([x.grad_name, doubled.grad_name], **feed)
    np.testing.assert_array_equal(found, [[1 + 2 * (7 + 256), 1 + 2 * (7 + 512)], [263, 519]])


@pytest.mark.exhaustive
def test_while_loop_over_a_condition_on_data() -> None:
    """The values decide when the loop ends; integers and flags are carried."""

    def build(x: Any) -> Any:
        y, _, n = while_loop(
            lambda y, go, n: paddle.logical_and(go, paddle.sum(y * y) < 50.0),
            lambda y, go, n: [y * 1.3, n < 30, n + 1],
            [paddle.assign(x), paddle.full([1], True, "bool"), count(0)],
        )
        return y * paddle.cast(n, "float64")

    def wanted(x: Array) -> Array:
        y, n = x, 0
        while np.sum(y * y) < 50 and n < 31:
            y, n = y * 1.3, n + 1
        return y * n

    check(build, wanted)
    check(build, wanted, X * 1e-9)


def test_nested_loops_and_branches() -> None:
    """A loop holds a branch with a loop, and the data decide each end."""

    def build(x: Any) -> Any:
        def inner(y: Any) -> Any:
            return while_loop(lambda z: paddle.sum(z) < 3.0, lambda z: [z * 1.2 + 0.1], [y * 1])[0]

        def body(y: Any, n: Any) -> list[Any]:
            return [cond(paddle.sum(y) < 2, lambda: inner(y), lambda: y * 0.4), n + 1]

        return while_loop(lambda y, n: n < 5, body, [paddle.assign(x), count(0)])[0]

    def wanted(x: Array) -> Array:
        y = x
        for _ in range(5):
            if y.sum() < 2:
                y = y.copy()
                while y.sum() < 3:
                    y = y * 1.2 + 0.1
            else:
                y = y * 0.4
        return y

    check(build, wanted)


def test_parameters_in_a_loop_learn() -> None:
    """A loop of unknown length trains a recurrent weight."""
    with fresh():
        x, n = data(dtype="float32"), static.data("n", [1], "int64")
        w = weight("w", 0.3 * np.eye(3))
        _, h = while_loop(
            lambda i, h: i < n,
            lambda i, h: [i + 1, paddle.tanh(paddle.matmul(h, w))],
            [count(0), paddle.assign(x)],
        )
        loss = paddle.mean(paddle.square(h - 0.5))
        paddle.optimizer.Adam(0.1).minimize(loss)
        start()
        feed = {"x": X.astype("float32"), "n": np.array([3], "int64")}
        executor = static.Executor(paddle.CPUPlace())
        losses = [float(executor.run(feed=feed, fetch_list=[loss])[0]) for _ in range(30)]
    assert losses[-1] < 0.6 * losses[0]


def test_second_derivatives() -> None:
    """Branches, and loops of known length, have second derivatives."""
    with fresh():
        x = data()
        y = cond(paddle.sum(x) > 0, lambda: x * x * x, lambda: x)
        _, z = while_loop(lambda i, z: i < 2, lambda i, z: [i + 1, z * x], [count(0), x * 1])
        firsts = static.gradients([y, z], [x])
        (second,) = run(static.gradients(firsts, [x]), x=X)
    np.testing.assert_allclose(second, 12 * X)


def test_second_derivatives_of_an_open_loop() -> None:
    """The second derivative of an open loop is refused, with a workaround."""
    with fresh():
        x, n = data(), static.data("n", [1], "int64")
        _, z = while_loop(lambda i, z: i < n, lambda i, z: [i + 1, z * x], [count(0), x * 1])
        second = static.gradients(static.gradients([z], [x]), [x])
        with pytest.raises(UnsupportedError, match="second derivative of a loop"):
            run(second, x=X, n=np.array([2], "int64"))


def test_loop_variables_of_any_structure() -> None:
    """Loop variables may be dicts and lists, which the body may change."""

    def body(i: Any, state: dict[str, Any]) -> list[Any]:
        state["a"] = state["a"] + state["b"][0]
        return [i + 1, {"a": state["a"], "b": [state["b"][0] * 2]}]

    with fresh():
        x = data()
        state = {"a": x * 1, "b": [x * 2]}
        _, state = while_loop(lambda i, s: i < 3, body, [count(0), state])
        a, b = run([state["a"], state["b"][0]], x=X)
    np.testing.assert_allclose(a, X * 15)
    np.testing.assert_allclose(b, X * 16)


def test_a_loop_variable_that_grows() -> None:
    """A loop with a constant number of iterations is unrolled, so a variable may grow."""
    with fresh():
        x = data()
        _, y = while_loop(
            lambda i, y: i < 3, lambda i, y: [i + 1, paddle.concat([y, x])], [count(0), x * 1]
        )
        (grown,) = run([y], x=X)
    np.testing.assert_allclose(grown, np.concatenate([X] * 4))
