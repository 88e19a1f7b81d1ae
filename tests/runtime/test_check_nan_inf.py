"""FLAGS_check_nan_inf names the first operator that makes NaN or Inf, and no result is stored."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import NotFiniteError
from graphopt_tests.runtime.nets import Net, build

ONES = {"x": np.ones((2, 2), np.float32)}
BAD = {"x": np.array([[1, 1], [-1, 1]], np.float32)}


@pytest.fixture(autouse=True)
def flags() -> Iterator[None]:
    """Switch the flag on for a test, and off afterwards."""
    paddle.set_flags({"FLAGS_check_nan_inf": True})
    yield
    paddle.set_flags({"FLAGS_check_nan_inf": False, "FLAGS_check_nan_inf_level": 0})


def logarithm() -> Net:
    """Build mean(log(x w)) with w = 1, updated by gradient descent."""

    def make() -> Any:
        x, one = static.data("x", [None, 2]), paddle.nn.initializer.Constant(0.5)
        w = static.create_parameter([2, 1], "float32", name="w", default_initializer=one)
        out = paddle.log(paddle.matmul(x, w))
        loss = paddle.mean(out)
        paddle.optimizer.SGD(0.1).minimize(loss)
        return loss, out

    return build(make)


LINE = (
    inspect.getsource(logarithm).splitlines().index("        out = paddle.log(paddle.matmul(x, w))")
)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (paddle.inverse, "inverse"),
        (lambda x: paddle.linalg.solve(x, x), "solve"),
        (lambda x: paddle.linalg.cholesky(x - 2.0), "cholesky"),
    ],
)
def test_a_matrix_that_paddle_refuses_is_named(function: Any, name: str) -> None:
    """Without the flag the results are inf or nan, where Paddle raises an error."""
    net = build(lambda: (paddle.mean(out := function(static.data("x", [2, 2]))), out))
    singular = {"x": np.ones((2, 2), np.float32)}
    with pytest.raises(NotFiniteError, match=f"operator {name} writes"):
        net.run(singular, net.out)
    paddle.set_flags({"FLAGS_check_nan_inf": False})
    (found,) = net.run(singular, net.out)
    assert not np.isfinite(found).all()


def weights(net: Net) -> Any:
    return np.asarray(static.global_scope().find_var("w").get_tensor())


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", ["plain", "compiled", "2 devices", "2 steps"])
def test_the_first_operator_is_named_and_nothing_is_stored(kind: str) -> None:
    """Operator, variable and line are named, on one or several devices; training continues."""
    net = logarithm()
    program: Any = {
        "plain": lambda: None,
        "compiled": lambda: static.CompiledProgram(net.main),
        "2 devices": lambda: net.parallel(2),
        "2 steps": lambda: net.parallel(1, steps=2),
    }[kind]()
    rows = 2 if kind == "2 steps" else 1
    good, bad = ({"x": np.concatenate([f["x"]] * rows)} for f in (ONES, BAD))
    net.run(good, net.loss, program)
    before = weights(net)
    line = inspect.getsourcelines(logarithm)[1] + LINE
    said = rf"operator log writes '{net.out.name}', which holds . NaN and . Inf.*made at .*{line};"
    with pytest.raises(NotFiniteError, match=said.replace("..py", r"\.py")):
        net.run(bad, net.loss, program)
    np.testing.assert_array_equal(weights(net), before)
    net.run(good, net.loss, program)
    assert (weights(net) != before).all()
    paddle.set_flags({"FLAGS_check_nan_inf": False})
    assert not np.isfinite(net.run(bad, net.loss, program)[0]).all()


def test_feeds_and_constants_count() -> None:
    """Feeds and constants are checked, too, as in Paddle."""
    main = static.Program()
    with static.program_guard(main):
        x = static.data("x", [2, 2])
        out = x + paddle.full([2, 2], -float("inf"))
    executor = static.Executor(paddle.CPUPlace())
    with pytest.raises(NotFiniteError, match="operator fill_constant writes 'fill_constant_"):
        executor.run(main, ONES, [out])
    with pytest.raises(NotFiniteError, match="the feed 'x' holds 1 NaN and 0 Inf among 4"):
        executor.run(main, {"x": np.array([[1, np.nan], [1, 1]], "f")}, [x])


def test_operators_of_one_line_and_inside_a_loop() -> None:
    """Names that differ in their last number are distinct; operators in a block are named."""
    main = static.Program()
    with static.program_guard(main):
        out = static.data("x", [2, 2])
        for _ in range(3):
            out = paddle.exp(out)
        names = [op.output_arg_names[0] for op in main.global_block().ops]
        root = static.data("y", [2, 2])

        def body(i: Any, value: Any) -> list[Any]:
            return [i + 1, paddle.log(value)]

        count = paddle.full([1], 0, "int64")
        _, last = static.nn.while_loop(lambda i, _: i < 3, body, [count, root])
    executor = static.Executor(paddle.CPUPlace())
    with pytest.raises(NotFiniteError, match=f"operator exp writes '{names[1]}'"):
        executor.run(main, {"x": np.full((2, 2), 5, "f"), "y": ONES["x"]}, [out, last])
    with pytest.raises(NotFiniteError, match="operator log writes"):
        executor.run(main, {"x": 0 * ONES["x"], "y": ONES["x"]}, [out, last])


def test_a_higher_level_warns_and_goes_on() -> None:
    """Each value that is not finite gives one warning."""
    paddle.set_flags({"FLAGS_check_nan_inf_level": 1})
    net = logarithm()
    with pytest.warns(RuntimeWarning) as told:
        net.run(BAD, net.loss)
    assert "operator log writes" in str(told[0].message)
    assert "'w'" in str(told[-1].message)
    assert not np.isfinite(weights(net)).any()


@pytest.mark.exhaustive
def test_from_the_environment() -> None:
    """FLAGS_check_nan_inf=1 sets the flag; a value of another type is an error."""
    code = "from graphopt.runtime.settings.flags import checks_nan_inf; print(checks_nan_inf())"
    for value, expected in (("1", "True"), ("false", "False"), ("maybe", "should be of type bool")):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"FLAGS_check_nan_inf": value},
            capture_output=True,
            text=True,
            check=False,
        )
        assert expected in done.stdout + done.stderr
