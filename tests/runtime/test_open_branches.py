"""Branches whose results differ in dtype or rank: runs have the types of the branch taken.

The expected results were recorded from Paddle 1.8.5 and 2.6.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import fluid, static
from graphopt.errors import UnsupportedError
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.settings.strategies import BuildStrategy, ExecutionStrategy
from graphopt_tests.frontend.programs import fresh, run, start, weight

X = np.arange(1, 7, dtype="float32").reshape(2, 3)


def inputs() -> tuple[Any, Any]:
    """Declare x [2, 3], which has a gradient, and a condition."""
    x = static.data("x", [2, 3], "float32")
    x.stop_gradient = False
    return x, static.data("c", [1], "bool")


@pytest.mark.filterwarnings("ignore:the results of true_fn")
def test_fetches_and_gradients_of_another_rank() -> None:
    """The operators after the branch compute with the shape of the branch taken."""
    with fresh():
        x, c = inputs()
        y = static.nn.cond(c, lambda: x * 2.0, lambda: paddle.reshape(x, [6]))
        loss = paddle.sum(y * y)
        fetches = [y, y + 1.0, loss, *static.gradients(loss, x), *static.gradients(y, x)]
        yes = run(fetches, x=X, c=np.array([True]))
        no = run(fetches, x=X, c=np.array([False]))
    assert [v.shape for v in yes] == [(2, 3), (2, 3), (), (2, 3), (2, 3)]
    assert [v.shape for v in no] == [(6,), (6,), (), (2, 3), (2, 3)]
    assert (float(yes[2]), float(no[2])) == (364, 91)
    np.testing.assert_array_equal(yes[3], 8 * X)
    np.testing.assert_array_equal(no[3], 2 * X)
    np.testing.assert_array_equal(yes[4], np.full((2, 3), 2.0))
    np.testing.assert_array_equal(no[4], np.ones((2, 3)))


def test_fetches_and_gradients_of_another_dtype() -> None:
    with fresh():
        x, c = inputs()
        y = static.nn.cond(c, lambda: x * 2.0, lambda: paddle.cast(x, "float64") * 3.0)
        loss = paddle.sum(y)
        fetches = [y, loss, *static.gradients(loss, x)]
        yes = run(fetches, x=X, c=np.array([True]))
        no = run(fetches, x=X, c=np.array([False]))
    assert y.dtype == "float32"
    assert [v.dtype for v in yes] == ["float32", "float32", "float32"]
    assert [v.dtype for v in no] == ["float64", "float64", "float32"]
    np.testing.assert_array_equal(no[2], np.full((2, 3), 3.0))


def test_a_branch_may_return_a_number_and_a_variable_from_outside() -> None:
    with fresh():
        x, c = inputs()
        with pytest.warns(UserWarning, match="same rank"):
            y = static.nn.cond(c, lambda: x, lambda: 2.5)
        (yes,), (no,) = (run([y], x=X, c=np.array([flag])) for flag in (True, False))
    np.testing.assert_array_equal(yes, X)
    assert (no.dtype, no.shape, float(no)) == ("float64", (), 2.5)


def test_fluid_declares_the_type_of_the_false_branch() -> None:
    with fresh():
        x = fluid.data("x", [2, 3], "float32")
        c = fluid.data("c", [1], "bool")
        y = fluid.layers.cond(c, lambda: x * 2.0, lambda: fluid.layers.cast(x, "int64"))
        assert y.dtype == "int64"
        (yes,), (no,) = (run([y], x=X, c=np.array([flag])) for flag in (True, False))
    assert (yes.dtype, no.dtype) == ("float32", "int64")


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:the results of true_fn")
def test_every_way_through_several_branches() -> None:
    """One branch decides the next; each path is compiled once."""
    with fresh() as (main, _):
        x, _ = inputs()
        i = static.data("i", [1], "int32")
        sides = [lambda: x * 2.0, lambda: paddle.cast(x, "int64"), lambda: paddle.sum(x)]
        y = static.nn.switch_case(i, sides)
        big = paddle.max(paddle.cast(y, "float32")) > 10.0
        z = static.nn.cond(big, lambda: paddle.reshape(x, [6]), lambda: i)
        executor: Any = static.Executor(paddle.CPUPlace())
        found: list[Any] = []
        for number in (0, 1, 2, 5, 0, 1):
            feed = {"x": X, "i": np.array([number], "int32")}
            found.append(executor.run(main, feed, [y, z]))
            compiled = executor.stats["compiled_programs"]
    assert [v.shape for v, _ in found] == [(2, 3), (2, 3), (), (), (2, 3), (2, 3)]
    assert [str(v.dtype)[0] for v, _ in found] == ["f", "i", "f", "f", "f", "i"]
    assert [v.shape for _, v in found] == [(6,), (1,), (6,), (6,), (6,), (1,)]
    assert executor.stats["compiled_programs"] == compiled
    assert executor.stats["compiled_programs"] < 12


def test_a_condition_that_is_drawn() -> None:
    """Computing the condition first draws the same numbers as the run, and changes no state."""
    with fresh() as (main, _):
        count = static.create_global_var([1], 0.0, "float32", persistable=True, name="count")
        paddle.assign(count + 1.0, count)
        u = paddle.uniform([1], min=0, max=1)
        y = static.nn.cond(u < 0.5, lambda: u, lambda: paddle.cast(u, "float64"))
        start()
        executor: Any = static.Executor(paddle.CPUPlace())
        paddle.seed(7)
        found = [executor.run(main, fetch_list=[u, y, count]) for _ in range(8)]
    for number, (drawn, taken, counted) in enumerate(found):
        assert taken.dtype == ("float32" if drawn[0] < 0.5 else "float64")
        assert float(taken[0]) == float(drawn[0])
        assert counted == number + 1
    assert len({float(drawn[0]) for drawn, _, _ in found}) == 8


@pytest.mark.filterwarnings("ignore:the results of true_fn")
def test_training_goes_through_the_branch_taken() -> None:
    with fresh():
        x, c = inputs()
        h = paddle.matmul(x, weight("w", np.ones((3, 2))))
        y = static.nn.cond(c, lambda: h * 2.0, lambda: paddle.reshape(h, [4]))
        loss = paddle.sum(y)
        paddle.optimizer.SGD(1.0).minimize(loss)
        start()
        w = np.ones((3, 2))
        for flag, scale in ((True, 2.0), (False, 1.0), (True, 2.0)):
            run([loss], x=X, c=np.array([flag]))
            w -= scale * X.sum(0)[:, None]
        scope: Any = static.global_scope()
        value = scope.find_var("w").get_tensor()
    np.testing.assert_allclose(np.array(value), w, rtol=1e-6)


WHERE = r"give both one dtype .*\[operator conditional_block -> .*open_branches.py:\d+"
DIFFERENT = "the devices take different branches.*on one place.*" + WHERE


def on_two_places(iterations: int = 1) -> Any:
    """Build a program that branches on the sum of its rows, on two places."""
    x = static.data("x", [None, 3], "float32")
    y = static.nn.cond(paddle.sum(x) > 0.0, lambda: x, lambda: paddle.cast(x, "float64"))
    execution = ExecutionStrategy()
    execution.num_iteration_per_run = iterations
    program = CompiledProgram(static.default_main_program()).with_data_parallel(
        build_strategy=BuildStrategy(),
        exec_strategy=execution,
        places=[paddle.CPUPlace()] * (2 if iterations == 1 else 1),
    )
    executor = static.Executor(paddle.CPUPlace())
    return lambda rows: executor.run(program, {"x": rows}, [y])[0]


def test_devices_that_take_one_branch() -> None:
    with fresh():
        step = on_two_places()
        assert step(np.ones((4, 3), "float32")).dtype == "float32"
        assert step(-np.ones((4, 3), "float32")).dtype == "float64"
        with pytest.raises(UnsupportedError, match=DIFFERENT):
            step(np.array([[1], [1], [-1], [-1]], "float32") * np.ones(3, "float32"))


def test_several_steps_in_one_run_are_refused() -> None:
    wanted = "set num_iteration_per_run = 1.*" + WHERE
    with fresh(), pytest.raises(UnsupportedError, match=wanted):
        on_two_places(iterations=2)(np.ones((4, 3), "float32"))


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:the results of true_fn")
def test_a_body_of_a_loop_computes_with_what_comes() -> None:
    """The loop adds the sum of x while small, and then x cast to float64, twice."""
    with fresh():
        x, _ = inputs()

        def body(step: Any, y: Any) -> Any:
            z = static.nn.cond(step < 2, lambda: paddle.sum(y), lambda: paddle.cast(y, "float64"))
            return [step + 1, y + 2.0 * paddle.cast(z, "float32")]

        start_values = [paddle.full([], 0, "int64"), x]
        n = static.data("n", [], "int64")
        _, y = static.nn.while_loop(lambda step, _: step < n, body, start_values)
        (gradient,) = static.gradients(paddle.sum(y), x)
        value, slope = run([y, gradient], x=X, n=np.array(3))
    want, scale = X.astype("float64"), 1.0
    for step in range(3):
        want, scale = want + 2 * (want.sum() if step < 2 else want), scale * (13 if step < 2 else 3)
    np.testing.assert_allclose(value, want, rtol=1e-6)
    np.testing.assert_allclose(slope, np.full((2, 3), scale), rtol=1e-6)


def _is_small(y: Any) -> Any:
    return paddle.max(paddle.cast(y, "float32")) < 100.0


def test_a_loop_variable_keeps_its_type() -> None:
    with fresh():
        x, _ = inputs()

        def body(y: Any) -> Any:
            return [static.nn.cond(paddle.sum(y) < 9.0, lambda: y, lambda: paddle.cast(y, "int32"))]

        (y,) = static.nn.while_loop(_is_small, body, [x])
        with pytest.raises(UnsupportedError, match=r"inside a loop.*open_branches.py:\d+"):
            run([y], x=X)


def test_a_python_function_that_decides_is_not_called_twice() -> None:
    with fresh() as (main, _):
        x, _ = inputs()
        flag = main.current_block().create_var("flag", [1], "bool")
        static.py_func(lambda x: np.array([x[0, 0] > 0]), x, flag)
        y = static.nn.cond(flag, lambda: x, lambda: paddle.cast(x, "int32"))
        with pytest.raises(UnsupportedError, match="depends on a py_func.*" + WHERE):
            run([y], x=X)
