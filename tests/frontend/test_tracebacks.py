"""Tracebacks show the user's lines, and graphopt's own only where they help."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
import graphopt.nn.functional as F
from graphopt import fluid, static
from graphopt.frontend.calls import called_from_outside
from graphopt.ir.program import Program

PACKAGE = str(Path(paddle.__file__).parent)


def frames(call: Callable[[], Any]) -> list[str]:
    """List the functions in the traceback of a failing call; those of graphopt follow a dot."""
    try:
        call()
    except Exception as error:
        entries = traceback.extract_tb(error.__traceback__)
        return [f".{e.name}" if e.filename.startswith(PACKAGE) else e.name for e in entries]
    raise AssertionError("the call did not fail")


def bad_call() -> Any:
    return paddle.matmul(static.data("x", [4, 8]), static.data("w", [4, 3]))


def bad_run() -> Any:
    x = static.data("x", [4, 8])
    return static.Executor().run(feed={"x": np.zeros((4, 9), "float32")}, fetch_list=[x + 1.0])


def bad_branch() -> Any:
    return static.nn.cond(paddle.full([1], True, "bool"), bad_call, None)


@pytest.fixture(autouse=True)
def program() -> Any:
    with static.program_guard(Program(), Program()):
        yield


@pytest.mark.parametrize("call", [bad_call, bad_run])
def test_the_traceback_ends_at_the_users_line(call: Callable[[], Any]) -> None:
    """One frame of graphopt remains: the one that raises."""
    assert frames(call) == ["frames", call.__name__, ".call"]


def test_lines_of_the_user_stay() -> None:
    """Lines of the user remain, even of functions that graphopt called."""
    assert frames(bad_branch) == ["frames", "bad_branch", ".call", "bad_call"]


def test_all_frames_can_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flag keeps all frames, for use in a debugger."""
    monkeypatch.setenv("FLAGS_graphopt_full_traceback", "1")
    found = frames(bad_call)
    assert found[:2] == ["frames", "bad_call"]
    assert ".append_op" in found


def test_accidents_keep_their_frames() -> None:
    """An error that graphopt did not raise on purpose keeps all frames, for the report."""
    names: dict[str, Any] = {}
    code = compile("def inner(): return {}['x']", PACKAGE + "/inner.py", "exec")
    exec(code, names)
    assert frames(called_from_outside(names["inner"])) == ["frames", ".call", ".inner"]
    code = compile("def inner(): raise ValueError('meant')", PACKAGE + "/inner.py", "exec")
    exec(code, names)
    assert frames(called_from_outside(names["inner"])) == ["frames", ".call"]


def test_what_is_offered_can_be_pickled() -> None:
    """A public function unpickles to itself, under the name that scripts use."""
    for function in (paddle.matmul, F.relu, fluid.layers.matmul, fluid.layers.cond):
        assert pickle.loads(pickle.dumps(function)) is function


def test_warnings_name_the_users_line() -> None:
    """A warning has the user's line, however deep its origin is."""
    x = static.data("x", [1])
    feed = {"x": np.zeros(1, "float32"), "Y": np.zeros(1, "float32")}
    with pytest.warns(UserWarning, match="Y is not found in program") as caught:
        static.Executor().run(feed=feed, fetch_list=[x + 1.0])
    assert [Path(each.filename) for each in caught] == [Path(__file__)]
