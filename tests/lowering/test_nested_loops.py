"""Nested loops are traced once each, however often they occur in a derivative."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.lowering import regions
from graphopt.runtime.compile.compilation import Compilation
from graphopt.runtime.compile.compiling import compile_program
from graphopt.runtime.steps.step_state import NO_KEY


def looped(depth: int, x: Any) -> Any:
    """Build nested loops around a product; each ends when its sum is large enough."""
    if not depth:
        return x * 1.5
    start = [paddle.zeros([1], "int64"), x]
    return static.nn.while_loop(
        lambda _, y: paddle.sum(y) < 9.0 * depth,
        lambda i, y: [i + 1, looped(depth - 1, y)],
        start,
    )[1]


def traces(depth: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Count the loop bodies that are evaluated for the derivative of these loops."""
    main, count, evaluate = static.Program(), [0], regions.evaluate_block

    def counted(*given: Any) -> Any:
        count[0] += 1
        return evaluate(*given)

    with static.program_guard(main, static.Program()):
        x = static.data("x", [2], "float32")
        x.stop_gradient = False
        (gradient,) = static.gradients([paddle.sum(looped(depth, x))], [x])
    compiled = compile_program(
        Compilation(main, ("x",), (gradient.name,), None, (paddle.CPUPlace(),))
    )
    with monkeypatch.context() as patched, jax.enable_x64(True):
        patched.setattr(regions, "evaluate_block", counted)
        step = compiled.map_replicas(1, even=True).function
        step.trace((), (), (np.ones(2, "float32"),), NO_KEY)
    return count[0]


def test_nested_loops_are_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the depth traces twice as many bodies, not exponentially many."""
    assert traces(4, monkeypatch) == 2 * traces(2, monkeypatch)
