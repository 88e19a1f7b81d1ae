"""`case` and `switch_case` of many branches: a shallow tree of branches, built by halving."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.lowering import choices, regions
from graphopt.static.nn import control_flow
from graphopt_tests.frontend.programs import fresh, run, start, weight

X = np.array([1.5, -2.0], "float32")
MANY = 6


@pytest.fixture(autouse=True)
def fresh_state(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Enter new programs, scope and names, and set low limits for many branches."""
    monkeypatch.setattr(control_flow, "_NESTED", 3)
    monkeypatch.setattr(choices, "_MANY", 3)
    with fresh():
        yield


def _data() -> tuple[Any, Any]:
    x = static.data("x", [2], "float32")
    x.stop_gradient = False
    return x, static.data("i", [1], "int32")


def _times(x: Any, number: int) -> Callable[[], Any]:
    return lambda: x * x * float(number)


def _switch(i: Any, functions: Sequence[Callable[[], Any]], default: Any = None) -> Any:
    return static.nn.switch_case(i, list(enumerate(functions)), default)


def _case(i: Any, functions: Sequence[Callable[[], Any]], default: Any = None) -> Any:
    return static.nn.case([(i == j, f) for j, f in enumerate(functions)], default)


def _depth(program: Any) -> int:
    depths = [0]
    for block in program.blocks[1:]:
        depths.append(depths[block.parent_idx] + 1)
    return max(depths)


def _check(choose: Any, count: int, indices: Sequence[int]) -> None:
    """Check values and gradients; without a default the last function is the default."""
    x, i = _data()
    y = choose(i, [_times(x, j) for j in range(count)])
    gradient = static.gradients([y], [x])[0]
    for index in indices:
        taken = index if 0 <= index < count else count - 1
        found = run([y, gradient], x=X, i=np.array([index], "int32"))
        np.testing.assert_allclose(found[0], X * X * taken)
        np.testing.assert_allclose(found[1], 2 * X * taken)


@pytest.mark.parametrize("choose", [_switch, _case])
def test_values_and_gradients(choose: Any) -> None:
    """The first, the last and a middle branch are right, and so is no match."""
    _check(choose, MANY, [0, 1, 4, MANY - 1, MANY, -3])
    assert _depth(static.default_main_program()) == 3


@pytest.mark.parametrize(("count", "depth"), [(17, 16), (18, 5), (100, 7)])
def test_depths(count: int, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few branches are nested, as in Paddle."""
    monkeypatch.undo()
    x, i = _data()
    _switch(i, [_times(x, j) for j in range(count)])
    assert _depth(static.default_main_program()) == depth


@pytest.mark.exhaustive
@pytest.mark.parametrize("choose", [_switch, _case])
def test_a_thousand(choose: Any) -> None:
    """A thousand branches are ten levels of halves."""
    x, i = _data()
    y = choose(i, [_times(x, j) for j in range(1000)])
    for index in (0, 511, 999, 1000):
        (found,) = run([y], x=X, i=np.array([index], "int32"))
        np.testing.assert_allclose(found, X * X * min(index, 999))
    assert _depth(static.default_main_program()) == 10


@pytest.mark.parametrize("count", [3, MANY])
def test_functions_are_called_once_in_the_order_of_nested_ones(count: int) -> None:
    """The order of calls is Paddle's, so the names of parameters are, too."""
    x, i = _data()
    called: list[int] = []

    def branch(number: int) -> Callable[[], Any]:
        return lambda: [called.append(number), x * float(number)][1]

    _switch(i, [branch(j) for j in range(count)], branch(99))
    assert called == [*reversed(range(count)), 99]
    called.clear()
    _case(i, [branch(j) for j in range(count)], branch(99))
    assert called == [*range(count), 99]


def test_the_first_condition_that_holds() -> None:
    """The first true condition wins, even if later ones are true; otherwise the default."""
    x, i = _data()
    pairs = [(i < j, _times(x, j)) for j in range(1, MANY)]
    y = static.nn.case(pairs, _times(x, 50))
    for index, wanted in ((0, 1), (2, 3), (MANY - 2, MANY - 1), (MANY, 50)):
        (found,) = run([y], x=X, i=np.array([index], "int32"))
        np.testing.assert_allclose(found, X * X * wanted)


def test_structures() -> None:
    """Branches may return any structure, as two branches may."""
    x, i = _data()
    made = _switch(i, [lambda j=j: {"a": [x * float(j)], "b": x + j} for j in range(MANY)])
    found = run([made["a"][0], made["b"]], x=X, i=np.array([4], "int32"))
    np.testing.assert_allclose(found, [X * 4, X + 4])


def test_saved_and_read(tmp_path: Path) -> None:
    """The program is saved as nested branches of Paddle are."""
    x, i = _data()
    y = _switch(i, [_times(x * weight("w", [1.0, 1.0]), j) for j in range(MANY)])
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    static.save_inference_model(str(tmp_path / "model"), [x, i], [y], exe)
    types = {op.type for block in static.default_main_program().blocks for op in block.ops}
    assert {"conditional_block", "select_input"} <= types
    program, feeds, fetches = static.load_inference_model(str(tmp_path / "model"), exe)
    for index in (0, 3, MANY - 1):
        feed = dict(zip(feeds, (X, np.array([index], "int32")), strict=True))
        (found,) = exe.run(program, feed, fetches)
        np.testing.assert_allclose(found, X * X * index)


@pytest.mark.exhaustive
def test_the_derivative_by_branch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derivatives are JAX's: for parameters of one branch, of all, and several results."""
    x, i = _data()
    shared = weight("shared", [0.5, 2.0])
    own = [weight(f"w{j}", [j + 1.0, j - 3.0]) for j in range(MANY)]

    def branch(number: int) -> Callable[[], Any]:
        return lambda: [
            paddle.tanh(own[number] * x) * shared,
            paddle.sum(x * shared) * number,
            i + number,
        ]

    first, second, _ = _switch(i, [branch(j) for j in range(MANY)])
    total = paddle.sum(first * first) + second
    gradients = static.gradients([total], [x, shared, own[3], own[2]])
    start()
    found: list[list[Any]] = []
    asked: list[bool] = []
    for is_wide in (choices.is_wide, lambda op: False):

        def noted(op: Any, is_wide: Any = is_wide) -> bool:
            asked.append(is_wide(op))
            return asked[-1]

        monkeypatch.setattr(regions, "is_wide", noted)
        exe = static.Executor(paddle.CPUPlace())
        main = static.default_main_program().clone()
        for index in (3, 2, 5):
            feed = {"x": X, "i": np.array([index], "int32")}
            found.append(exe.run(main, feed, [total.name, *(g.name for g in gradients)]))
    assert True in asked and False in asked
    for one, other in zip(found[:3], found[3:], strict=True):
        for value, same in zip(one, other, strict=True):
            np.testing.assert_allclose(value, same, rtol=1e-6)
    assert [bool(np.any(each[3])) for each in found[:3]] == [True, False, False]
    assert [bool(np.any(each[4])) for each in found[:3]] == [False, True, False]


@pytest.mark.exhaustive
def test_a_branch_computed_again_draws_the_same_numbers() -> None:
    """The gradient passes through the elements that the forward pass kept."""
    x = static.data("x", [64], "float32")
    x.stop_gradient = False
    i = static.data("i", [1], "int32")
    drop = paddle.nn.functional.dropout
    y = _switch(i, [lambda j=j: drop(x, 0.5) * (j + 1.0) for j in range(MANY)])
    (gradient,) = static.gradients([y], [x])
    for index in (1, 4):
        feed = {"x": np.ones(64, "float32"), "i": np.array([index], "int32")}
        kept, got = run([y, gradient], **feed)
        assert 0 < np.count_nonzero(kept) < 64
        np.testing.assert_allclose(got, kept)


def test_branches_that_read_nothing_have_no_gradient() -> None:
    """Branches may be constants, which have no gradient."""
    x, i = _data()
    functions = [_times(x, j) if j % 2 else lambda: paddle.ones([2]) for j in range(MANY)]
    y = _switch(i, functions)
    (gradient,) = static.gradients([y], [x])
    for index, wanted in ((2, X * 0), (3, 6 * X)):
        (found,) = run([gradient], x=X, i=np.array([index], "int32"))
        np.testing.assert_allclose(found, wanted)


@pytest.mark.exhaustive
def test_the_second_derivative() -> None:
    x, i = _data()
    y = _switch(i, [lambda j=j: x * x * x * float(j) for j in range(MANY)])
    (once,) = static.gradients([y], [x])
    (twice,) = static.gradients([once], [x])
    (found,) = run([twice], x=X, i=np.array([4], "int32"))
    np.testing.assert_allclose(found, 24 * X)
