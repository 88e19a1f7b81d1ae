"""Integer division by 0 is refused as in Paddle, with variable, operator and line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import CheckError
from graphopt.ir.dialect.index_bounds import assert_divisors, fed_bounds
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.runtime.settings.flags import IDS
from graphopt_tests.frontend.programs import fresh, run

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "divide": paddle.divide,
    "mod": paddle.mod,
}
DIVIDED = "Integer division by zero encountered in pd"


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_fed_divisor(name: str, dtype: str) -> None:
    """A fed divisor is checked before the step; the next step is right."""
    with fresh():
        x, y = static.data("x", [2], dtype), static.data("y", [2], dtype)
        found = OPERATORS[name](x, paddle.reshape(y, [2]))
        fed = np.array([7, -7], dtype)
        with pytest.raises(CheckError, match=rf"{DIVIDED}.*test_division.py:\d+: 'y' was fed 0"):
            run([found], x=fed, y=np.array([2, 0], dtype))
        (value,) = run([found], x=fed, y=np.array([2, 2], dtype))
    assert value.tolist() == {"//": [3, -4], "divide": [3, -3]}.get(name, [1, 1])


def test_a_computed_divisor() -> None:
    """A computed zero divisor ends the step without a result, also in a loop."""
    with fresh():
        x, y = static.data("x", [2], "int64"), static.data("y", [2], "int64")
        found = x // (y - 1)
        with pytest.raises(CheckError, match=rf"{DIVIDED}.*test_division.py:\d+: 'tmp\w*' holds"):
            run([found], x=np.array([7, 8]), y=np.array([2, 1]))
        assert run([found], x=np.array([7, 8]), y=np.array([2, 3]))[0].tolist() == [7, 4]
    with fresh():
        x = static.data("x", [1], "int64")
        (end,) = static.nn.while_loop(lambda i: i > 0, lambda i: [i - 1 - 6 % (i - 1)], [x])
        with pytest.raises(CheckError, match=DIVIDED):
            run([end], x=np.array([2]))


def test_a_divisor_that_is_kept() -> None:
    """State that no step writes is checked once, without a callback in the steps."""
    with fresh():
        x = static.data("x", [2], "int64")
        divisor = static.create_global_var([1], 0, "int64", persistable=True, name="divisor")
        found, executor = x % divisor, static.Executor()
        executor.run(static.default_startup_program())
        fed = {"x": np.array([7, 8])}
        for value in (0, 3, 0, 5):
            static.global_scope().var("divisor").get_tensor().set(np.array([value]))
            if value:
                (rest,) = executor.run(feed=fed, fetch_list=[found])
                assert rest.tolist() == [7 % value, 8 % value]
                continue
            with pytest.raises(CheckError, match=rf"{DIVIDED}.*'divisor' holds 0 at \[0\]"):
                executor.run(feed=fed, fetch_list=[found])
        assert not any("Python" in form for form in executor.stats["tiers"])


@pytest.mark.parametrize("name", OPERATORS)
def test_a_constant_divisor(name: str) -> None:
    with fresh():
        found = OPERATORS[name](static.data("x", [2], "int64"), paddle.full([1], 0, "int64"))
        with pytest.raises(CheckError, match=rf"{DIVIDED}.*constant with a 0"):
            run([found], x=np.array([1, 2]))


@pytest.mark.parametrize(
    "divisor",
    [
        lambda y: paddle.full([1], 3, "int64"),
        lambda y: paddle.shape(y)[1].astype("int64"),
        lambda y: paddle.maximum(y, paddle.full([1], 1, "int64")),
        lambda y: paddle.clip(y, 1, 9),
        lambda y: paddle.where(y == 0, paddle.ones_like(y), y),
    ],
)
def test_what_is_no_zero_costs_nothing(divisor: Callable[[Any], Any]) -> None:
    """A divisor that cannot be 0 needs no assert and no check of the feed."""
    with fresh():
        x, y = static.data("x", [2], "int64"), static.data("y", [-1, 2], "int64")
        found = x // divisor(y)
        module = parse_program(static.default_main_program(), ("x", "y"), (found.name,))
    assert not fed_bounds(module) and not assert_divisors(module)


def test_unchecked_divisors() -> None:
    """With the check off, each form has the same numbers."""
    paddle.set_flags({IDS: "off"})
    try:
        with fresh():
            x = static.data("x", [2], "int64")
            outs = [f(x, x - x) for f in OPERATORS.values()]
            found = run(outs, x=np.array([7, -7]))
    finally:
        paddle.set_flags({IDS: "fed"})
    assert [value.tolist() for value in found] == [[-2, -2], [0, 0], [-1, -1], [0, 0]]
