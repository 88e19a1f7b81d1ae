"""Rewrites of programs with gradients in the loss, in branches and after loops as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.errors import UnsupportedError
from graphopt.static import amp
from graphopt_tests.frontend.programs import fresh, start, weight

FEED = {"x": np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)}
wrapping = paddle.incubate.optimizer


def step(x: Any, w: Any) -> Any:
    return paddle.tanh(paddle.matmul(x, w))


def of_layer(x: Any, w: Any) -> Any:
    return static.gradients([step(x, w)], [x])[0]


def of_branch(x: Any, w: Any) -> Any:
    out = static.nn.cond(paddle.mean(x) > -9.0, lambda: step(x, w), lambda: x * 2.0)
    return static.gradients([out], [x])[0]


def in_branch(x: Any, w: Any) -> Any:
    return static.nn.cond(paddle.mean(x) > -9.0, lambda: of_layer(x, w), lambda: x * 2.0)


def of_loop(x: Any, w: Any) -> Any:
    start, end = paddle.full([1], 0, "int64"), paddle.full([1], 2, "int64")
    _, out = static.nn.while_loop(
        lambda i, a: i < end, lambda i, a: [i + 1, step(a, w)], [start, x]
    )
    return static.gradients([out], [x])[0]


def twice(x: Any, w: Any) -> Any:
    """Return the gradient of a gradient."""
    return static.gradients([of_layer(x, w)], [x])[0]


GRADIENTS = {f.__name__: f for f in (of_layer, of_branch, in_branch, of_loop, twice)}


def build(kind: str) -> tuple[Any, Any]:
    """Build a loss of a gradient; return it and the differentiated value."""
    x = static.data("x", [-1, 3])
    x.stop_gradient = False
    w = weight("w", np.full((3, 3), 0.5))
    hidden = paddle.tanh(paddle.matmul(x * 1.0, w))
    hidden.stop_gradient = False
    return paddle.mean(GRADIENTS[kind](hidden, w) ** 2), hidden


def run_steps(program: Any, loss: Any, count: int = 2) -> list[float]:
    executor = static.Executor(paddle.CPUPlace())
    return [float(np.mean(executor.run(program, FEED, [loss])[0])) for _ in range(count)]


def plain(loss: Any, hidden: Any) -> list[float]:
    paddle.optimizer.SGD(0.5).minimize(loss)
    start()
    return run_steps(static.default_main_program(), loss)


def copied(loss: Any, hidden: Any) -> list[float]:
    """Train a clone, which an executor prunes to its fetches."""
    paddle.optimizer.SGD(0.5).minimize(loss)
    start()
    return run_steps(static.default_main_program().clone(), loss.name)


def saved(loss: Any, hidden: Any) -> list[float]:
    """Train a program that was serialized and parsed."""
    paddle.optimizer.SGD(0.5).minimize(loss)
    start()
    data = static.default_main_program().desc.serialize_to_string()
    return run_steps(static.Program.parse_from_string(data), loss.name)


def for_test(loss: Any, hidden: Any) -> list[float]:
    """Run a clone for tests, which has the gradient in the loss but no updates, then train."""
    test = static.default_main_program().clone(for_test=True)
    paddle.optimizer.SGD(0.5).minimize(loss)
    start()
    tested = run_steps(test, loss.name)
    return tested[:1] + run_steps(static.default_main_program(), loss)[1:]


def recomputing(loss: Any, hidden: Any) -> list[float]:
    made = wrapping.RecomputeOptimizer(paddle.optimizer.SGD(0.5))
    made._set_checkpoints([hidden])
    made.minimize(loss)
    start()
    return run_steps(static.default_main_program(), loss)


def merging(loss: Any, hidden: Any) -> list[float]:
    wrapping.GradientMergeOptimizer(paddle.optimizer.SGD(0.5), 2).minimize(loss)
    start()
    return run_steps(static.default_main_program(), loss, 3)[1:]


def parallel(loss: Any, hidden: Any) -> list[float]:
    """Train on two devices with the same rows, which computes the same as one."""
    paddle.optimizer.SGD(0.5).minimize(loss)
    start()
    program = static.CompiledProgram(static.default_main_program())
    program.with_data_parallel(loss.name, places=static.cpu_places(2))
    executor = static.Executor(paddle.CPUPlace())
    feed = {"x": np.concatenate([FEED["x"]] * 2)}
    return [float(np.mean(executor.run(program, feed, [loss])[0])) for _ in range(2)]


def half(level: str) -> Callable[[Any, Any], list[float]]:
    def rewrite(loss: Any, hidden: Any) -> list[float]:
        sgd = paddle.optimizer.SGD(0.5)
        options = {"init_loss_scaling": 1.0, "use_dynamic_loss_scaling": False}
        made = amp.decorate(sgd, level=level, **options)
        made.minimize(loss)
        start()
        made.amp_init(paddle.CPUPlace())
        return run_steps(static.default_main_program(), loss)

    return rewrite


def renamed(loss: Any, hidden: Any) -> list[float]:
    """Train after the differentiated value was renamed."""
    paddle.optimizer.SGD(0.5).minimize(loss)
    main = static.default_main_program()
    old = hidden.name
    main.global_block()._rename_var(old, "another")
    for block in main.blocks[1:]:
        for op in block.ops:
            op.rename(old, "another")
    start()
    return run_steps(main, loss)


REWRITES: dict[str, Callable[[Any, Any], list[float]]] = {
    **{f.__name__: f for f in (copied, saved, for_test, recomputing, merging, parallel, renamed)},
    "O1": half("O1"),
    "O2": half("O2"),
    "OD": half("OD"),
}
USUAL = {("of_loop", "saved"), ("in_branch", "for_test"), ("twice", "O1"), ("of_loop", "renamed")}


@pytest.mark.every(5)
@pytest.mark.parametrize(
    ("kind", "rewrite"),
    [
        pytest.param(k, r, marks=() if (k, r) in USUAL else pytest.mark.exhaustive)
        for k in GRADIENTS
        for r in REWRITES
    ],
)
def test_rewrites_keep_the_gradient_in_a_loss(kind: str, rewrite: str) -> None:
    """A rewrite keeps the loss with its gradient, and the update."""
    with fresh():
        expected = plain(*build(kind))
    with fresh():
        found = REWRITES[rewrite](*build(kind))
    assert abs(expected[1] - expected[0]) > 1e-4
    tolerance = 0.06 if rewrite in ("O1", "O2", "OD") else 1e-5
    np.testing.assert_allclose(found, expected, rtol=tolerance)


def test_models_that_are_published_have_no_derivative(tmp_path: Path) -> None:
    with fresh():
        loss, _ = build("of_layer")
        start()
        x, executor = static.default_main_program().global_block().var("x"), static.Executor()
        with pytest.raises(UnsupportedError, match="depends on the derivative"):
            static.save_inference_model(str(tmp_path / "m"), [x], [loss], executor)


def test_clones_for_tests_leave_out_a_backward_pass() -> None:
    """A clone keeps gradients until a loss is differentiated, as in Paddle."""
    with fresh() as (main, _):
        loss, _ = build("of_layer")
        before = main.clone(for_test=True).global_block()
        assert "pd_grad" in [op.type for op in before.ops]
        paddle.optimizer.SGD(0.5).minimize(loss)
        after = main.clone(for_test=True).global_block()
        assert "pd_grad" not in [op.type for op in after.ops]
        assert not {"sgd", "fill_constant"} & {op.type for op in after.ops}
