"""Calls of compiled steps: JAX's switch for 64 bits is set only for such numbers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import graphopt as paddle
from graphopt import static

PACKAGE = str(Path(paddle.__file__).parent)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Record the settings of `jax.enable_x64` inside the block."""
    asked: list[bool] = []
    enable = jax.enable_x64

    def noting(value: bool) -> Any:
        asked.append(value)
        return enable(value)

    with monkeypatch.context() as patched:
        patched.setattr(jax, "enable_x64", noting)
        yield asked


@pytest.mark.every(3)
@pytest.mark.parametrize("tier", ["fast", "full"])
@pytest.mark.parametrize("kind", ["plain", "devices", "stacked"])
def test_a_later_step_is_one_call_of_c(
    kind: str, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state may come from NumPy, XLA op by op, a script, or the previous step.

    In JAX's code in Python an interrupt would leave no state.
    """
    monkeypatch.setenv("CPU_NUM", "2")
    monkeypatch.setenv("FLAGS_graphopt_tier", tier)
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    with static.program_guard(main, startup):
        x = static.data("x", [None, 3], "float32")
        drawn = paddle.nn.initializer.Normal()
        w = [paddle.create_parameter([3], "float32", default_initializer=drawn) for _ in range(4)]
        loss = paddle.mean(sum(paddle.sum(x * each, axis=1) for each in w))
        paddle.optimizer.Momentum(0.1).minimize(loss)
    executor, program = static.Executor(paddle.CPUPlace()), main
    executor.run(startup, scope=scope)
    if kind != "plain":
        strategy = static.BuildStrategy()
        strategy.fuse_all_optimizer_ops = kind == "stacked"
        places = None if kind == "devices" else [paddle.CPUPlace()]
        program = static.CompiledProgram(main).with_data_parallel(
            loss.name, strategy, places=places
        )
    called: list[int] = []
    call = jax.stages.Compiled.call

    def noting(*args: Any, **kwargs: Any) -> Any:
        called.append(1)
        return call(*args, **kwargs)

    def run() -> int:
        called.clear()
        executor.run(program, {"x": np.ones((4, 3), "float32")}, [loss], scope=scope)
        return len(called)

    monkeypatch.setattr(jax.stages.Compiled, "call", staticmethod(noting))
    assert run() == 1
    assert run() == 0
    tensor = scope.find_var(w[0].name).get_tensor()
    tensor.set(np.array(tensor))
    assert run() == 0


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_only_wide_steps_set_the_switch(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    with static.program_guard(main, startup):
        x = static.data("x", [2, 3], dtype)
        weight = paddle.create_parameter([3], "float32")
        loss = paddle.sum(paddle.cast(x, "float32") * weight)
        paddle.optimizer.SGD(0.5).minimize(loss)
    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup, scope=scope)
    feed = {"x": np.array([[1, 2, 3], [4, 5, 6]], dtype)}

    def run() -> list[Any]:
        return executor.run(main, feed, [loss, x], scope=scope)

    first = run()
    with counted(monkeypatch) as asked:
        later = [run() for _ in range(3)]
    assert (len(asked) > 0) is (dtype == "int64")
    for step, (found, again) in enumerate(later, 1):
        # each step takes 0.5 * [5, 7, 9] from the weight
        np.testing.assert_allclose(found, first[0] - 0.5 * step * (25 + 49 + 81), rtol=1e-5)
        assert again.dtype == dtype
        assert np.array_equal(again, feed["x"])


def test_a_wide_result_of_narrow_arguments() -> None:
    """The positions are int64 although no other value has 64 bits."""
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    with static.program_guard(main, startup):
        x = static.data("x", [4], "float32")
        weight = paddle.create_parameter([4], "float32")
        paddle.optimizer.SGD(0.5).minimize(paddle.sum(x * weight))
        position = paddle.argmax(x)
    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup, scope=scope)
    feed = {"x": np.array([0, 3, 9, 1], "float32")}
    for _ in range(3):
        (found,) = executor.run(main, feed, [position], scope=scope)
        assert found == 2
        assert found.dtype == np.int64


def small_training() -> tuple[static.Executor, static.Program, Any, static.Scope]:
    """Build a weight of four numbers, from which each step subtracts 0.5 * x."""
    main, startup, scope = static.Program(), static.Program(), static.Scope()
    with static.program_guard(main, startup):
        x = static.data("x", [4], "float32")
        weight = paddle.create_parameter([4], "float32", name="weight")
        loss = paddle.sum(x * weight)
        paddle.optimizer.SGD(0.5).minimize(loss)
    executor = static.Executor(paddle.CPUPlace())
    executor.run(startup, scope=scope)
    return executor, main, loss, scope


def test_a_known_step_makes_few_calls_of_python() -> None:
    """The overhead of a step is its Python calls, whose number must not grow."""
    executor, main, loss, scope = small_training()
    feed, fetches = {"x": np.ones(4, "float32")}, [loss]

    def step() -> None:
        executor.run(main, feed, fetches, scope=scope)

    for _ in range(3):
        step()
    calls: list[str] = []

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            calls.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        step()
    finally:
        sys.setprofile(None)
    ours = [name for name in calls if not name.startswith(small_training.__module__)]
    assert len(ours) <= 17, ours


def test_a_step_sees_what_was_done_to_its_state() -> None:
    """A step sees each change of a variable since the previous step, whatever its source."""
    executor, main, loss, scope = small_training()
    slot = scope.find_var("weight")
    assert slot is not None

    def step() -> float:
        (found,) = executor.run(main, {"x": np.ones(4, "float32")}, [loss], scope=scope)
        return float(found)

    first = step()
    assert [step(), step()] == pytest.approx([first - 2, first - 4], rel=1e-5)
    slot.get_tensor().set(np.full(4, 3, "float32"))
    assert [step(), step()] == [12, 10]
    other, start = static.Program(), static.Program()
    with static.program_guard(other, start):
        weight = paddle.create_parameter([4], "float32", name="weight")
        paddle.assign(paddle.full([4], 7.0), weight)
    executor.run(other, scope=scope)
    assert [step(), step()] == [28, 26]
    kid = scope.new_scope()
    (found,) = executor.run(main, {"x": np.ones(4, "float32")}, [loss], scope=kid)
    assert (found, step()) == (24, 22)
    slot.get_tensor().set(np.full(4, 3, "float64"))
    with pytest.raises(RuntimeError, match="float32"):
        step()
    slot.get_tensor().set(np.full(4, 1, "float32"))
    assert step() == 4
