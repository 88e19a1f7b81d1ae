"""Runs of the part of a program that its fetches and updates need (`use_prune`)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import FetchError, ProgramError
from graphopt.runtime.runners import bucketed, runner
from graphopt_tests.frontend.programs import fresh

X = np.ones((4, 2), "float32")


def two_losses() -> Any:
    """Build two linear models of x1 and x2, each with its own optimizer."""
    made = []
    for name in ("x1", "x2"):
        x = static.data(name, [None, 2])
        attr = paddle.ParamAttr(f"w_{name}", paddle.nn.initializer.Constant(1.0))
        hidden = static.nn.fc(x, 1, weight_attr=attr, bias_attr=False)
        loss = paddle.mean(hidden)
        made.append((hidden, loss, paddle.optimizer.SGD(0.5).minimize(loss)))
    exe = static.Executor(paddle.CPUPlace())
    exe.run(static.default_startup_program())
    return exe, made


def weight(name: str) -> Any:
    found = static.global_scope().find_var(f"w_{name}")
    assert found is not None
    return np.array(found.get_tensor())[:, 0].tolist()


@pytest.mark.parametrize("devices", [0, 1, 2])
def test_a_compiled_program_updates_what_is_fetched(devices: int) -> None:
    with fresh():
        exe, ((_, first, train), (_, second, other)) = two_losses()
        main = static.default_main_program()
        compiled = static.CompiledProgram(main)
        if devices:
            compiled.with_data_parallel(first.name, places=static.cpu_places(devices))
        feed: Any = [{"x1": X[:2]}, {"x1": X[2:]}] if devices == 2 else {"x1": X}
        (loss,) = exe.run(compiled, feed, [first, train])
        assert np.mean(loss) == 2.0
        assert (weight("x1"), weight("x2")) == ([0.5, 0.5], [1.0, 1.0])
        exe.run(compiled, {"x2": X}, [second, other])
        assert (weight("x1"), weight("x2")) == ([0.5, 0.5], [0.5, 0.5])


def test_operators_of_another_program() -> None:
    with fresh():
        exe, _ = two_losses()
        compiled = static.CompiledProgram(static.default_main_program())
        loss = paddle.mean(static.data("x3", [None, 2]))
        ops, _ = paddle.optimizer.SGD(0.5).minimize(
            loss * paddle.create_parameter([1], "float32", name="late")
        )
        with pytest.raises(FetchError, match=r"operator sgd that writes late is not part of"):
            exe.run(compiled, {"x1": X}, [ops])


def test_a_gradient_through_what_is_fed() -> None:
    """A gradient through a fed value is refused, as pruning removes its operators."""
    with fresh():
        exe, ((hidden, loss, train), _) = two_losses()
        fed = {hidden.name: X[:, :1]}
        with pytest.raises(ProgramError, match=r"the gradient of 'w_x1' flows through"):
            exe.run(static.default_main_program(), fed, [loss, train])
        assert weight("x1") == [1.0, 1.0]
        test = static.default_main_program().clone(for_test=True)
        (value,) = exe.run(test, fed, [loss], use_prune=True)
        assert value == 1.0


def test_feeds_of_a_pruned_program_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The feeds of a pruned program are checked once while they are alike."""
    looked, own = list[Any](), runner.single_feed

    def noted(*given: Any, **options: Any) -> Any:
        looked.append(given)
        return own(*given, **options)

    with fresh():
        exe, ((_, loss, train), _) = two_losses()
        exe.run(feed={"x1": X}, fetch_list=[loss, train], use_prune=True)
        for module in (runner, bucketed):
            monkeypatch.setattr(module, "single_feed", noted)
        exe.run(feed={"x1": X}, fetch_list=[loss, train], use_prune=True)
        assert not looked
        exe.run(feed={"x1": X[:3]}, fetch_list=[loss, train], use_prune=True)
        assert looked
