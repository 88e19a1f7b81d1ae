"""Wrong uses of a run: the error names the feed, the scope, or the too deep nesting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import FeedError, ProgramError, UnsupportedError
from graphopt.ir.program import Program, Variable
from graphopt.lowering import regions
from graphopt.runtime.settings.flags import TIER


@pytest.fixture(autouse=True)
def program() -> Any:
    with static.program_guard(Program(), Program()):
        yield


def zeros(*shape: int) -> Any:
    return np.zeros(shape, "float32")


def test_wrong_names_are_named() -> None:
    """The error names the nearest right name, or all of them."""
    images, label = static.data("images", [None, 2]), static.data("label", [None, 2])
    exe, fetches = static.Executor(), [images + label]
    close = r"variable images: .*; 'image' was fed, .*; did you mean 'images'\?"
    with pytest.warns(UserWarning), pytest.raises(FeedError, match=close):
        exe.run(feed={"image": zeros(1, 2), "label": zeros(1, 2)}, fetch_list=fetches)
    with (
        pytest.warns(UserWarning),
        pytest.raises(FeedError, match="takes images, label"),
    ):
        exe.run(feed={"q": zeros(1, 2), "label": zeros(1, 2)}, fetch_list=fetches)
    parallel = static.CompiledProgram(static.default_main_program()).with_data_parallel(
        places=static.cpu_places(1)
    )
    with pytest.warns(UserWarning), pytest.raises(FeedError, match="did you mean 'images'"):
        exe.run(parallel, feed={"image": zeros(1, 2), "label": zeros(1, 2)}, fetch_list=fetches)


def test_rows_that_differ() -> None:
    """Different numbers of rows are an error only where an operator cannot take them."""
    a, b = static.data("a", [None, 2]), static.data("b", [None, 2])
    exe, feed = static.Executor(), {"a": zeros(2, 2), "b": zeros(3, 2)}
    assert exe.run(feed=feed, fetch_list=[paddle.concat([a, b])])[0].shape == (5, 2)
    text = r"different numbers of rows: 'a' \[2, 2\], 'b' \[3, 2\]; .*pd.add.*test_blame.py"
    with pytest.raises(FeedError, match=text):
        exe.run(feed=feed, fetch_list=[a + b])


@pytest.mark.parametrize("tier", ["full", "host"])
def test_the_type_rule_speaks_of_the_sizes_that_came(tier: str) -> None:
    """The error is the type rule's, with the fed sizes, instead of JAX's."""
    paddle.set_flags({TIER: tier})
    found = paddle.topk(static.data("x", [None, 3]), 5, axis=0)[0]
    text = r"'x' \[3, 3\]; .*pd.topk.* them: k must be from 1 to 3, found 5 \(operands: x"
    with pytest.raises(FeedError, match=text):
        static.Executor().run(feed={"x": zeros(3, 3)}, fetch_list=[found])


@pytest.mark.parametrize("size", [2, None])
def test_bounds_that_are_too_many(size: int | None) -> None:
    """Computed bounds are counted when the program is built, or else in the run."""
    x, ends = static.data("x", [None, 3]), static.data("ends", [size], "int32")
    feed = {"x": zeros(3, 3), "ends": np.ones(2, "int32")}
    places = (
        (lambda: paddle.slice(x, [0], [0], ends), "as axes, found 2 ends for 1 axes"),
        (lambda: paddle.arange(0, ends), r"'end' of 'pd.arange' is one number, found \[?[12]"),
    )
    for build, text in places:
        with pytest.raises((FeedError, ProgramError), match=text) as caught:
            static.Executor().run(feed=feed, fetch_list=[build()])
        assert "test_blame.py:" in str(caught.value)


def test_a_scope_that_is_none() -> None:
    with pytest.raises(TypeError, match=r"'scope' must be a Scope, found dict"):
        static.Executor().run(scope={})  # pyright: ignore[reportArgumentType]


def nested(depth: int, x: Variable) -> Variable:
    if not depth:
        return x + 1.0
    taken = paddle.sum(x) > float(depth)
    return static.nn.cond(taken, lambda: nested(depth - 1, x * 1.5), lambda: x - 1.0)


def test_deep_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each branch is traced once, not twice at every level, which would be 63 times here."""
    traced: list[Any] = []
    branch = regions._branch
    monkeypatch.setattr(regions, "_branch", lambda *args: (traced.append(args), branch(*args))[1])
    y = nested(6, static.data("x", [1]))
    (found,) = static.Executor().run(feed={"x": zeros(1) + 1.0}, fetch_list=[y])
    assert found == [0.0]
    assert len(traced) == 6


@pytest.mark.exhaustive
def test_too_deep_branches() -> None:
    """Too deeply nested branches are refused before tracing."""
    y = nested(90, static.data("x", [1]))
    with pytest.raises(UnsupportedError, match="nests branches and loops 90 deep"):
        static.Executor().run(feed={"x": zeros(1)}, fetch_list=[y])
