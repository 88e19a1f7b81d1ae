"""Programs that run op by op trace ops with regions once, and free values after their last use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Block, OpResult

import graphopt as paddle
from graphopt.lowering import evaluate, regions
from graphopt.static.nn.static_rnn import StaticRNN

static = paddle.static
ROWS = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)


def layers(x: Any) -> Any:
    for _ in range(12):
        x = paddle.tanh(static.nn.fc(x, 4))
    return x


def recurrent(x: Any) -> Any:
    """Build a StaticRNN over the rows."""
    rows = paddle.unsqueeze(x, 1)
    rnn = StaticRNN()
    with rnn.step():
        word = rnn.step_input(rows)
        before = rnn.memory(shape=[-1, 4], batch_ref=word)
        after = paddle.tanh(static.nn.fc(word, 4) + before)
        rnn.update_memory(before, after)
        rnn.step_output(after)
    return paddle.reshape(rnn(), [3, 4])


def loop(x: Any) -> Any:
    """Build a loop whose number of iterations depends on the data."""
    x = static.nn.fc(x, 4)
    count = paddle.cast(paddle.sum(paddle.abs(x)) * 0 + 5, "int64")
    begin = paddle.zeros([], "int64")
    return static.nn.while_loop(
        lambda i, h: i < count, lambda i, h: [i + 1, paddle.tanh(h) * 0.9], [begin, x]
    )[1]


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect the inner blocks that are evaluated, each time."""
    found: list[Any] = []
    evaluate = regions.evaluate_block

    def counted(block: Any, *rest: Any) -> Any:
        found.append(block)
        return evaluate(block, *rest)

    monkeypatch.setattr(regions, "evaluate_block", counted)
    return found


def trained(body: Callable[[Any], Any], traces: list[Any], *, fed: bool) -> tuple[Any, list[int]]:
    """Return the losses of four steps, and the blocks traced in each; `fed` runs it op by op."""
    main, startup = static.Program(), static.Program()
    main.random_seed = startup.random_seed = 5
    with static.program_guard(main, startup), paddle.utils.unique_name.guard():
        x, number = static.data("x", [3, 4]), static.data("n", [], "float32")
        count = paddle.cast(number, "int64")
        made = body(x)
        loss = paddle.mean(made[:count] if fed else made[:2])
        paddle.optimizer.SGD(0.5).minimize(loss)
    executor, feed = static.Executor(paddle.CPUPlace()), {"x": ROWS, "n": np.array(2, "float32")}
    losses, counts = [], []
    with static.scope_guard(static.Scope()):
        executor.run(startup)
        for _ in range(4):
            before = len(traces)
            losses.append(executor.run(main, feed=feed, fetch_list=[loss])[0])
            counts.append(len(traces) - before)
    assert executor.stats.get("op_by_op") == int(fed)
    return losses, counts


@pytest.mark.every(3)
@pytest.mark.parametrize("body", [layers, recurrent, loop])
def test_a_region_is_traced_once(body: Callable[[Any], Any], traces: list[Any]) -> None:
    losses, counts = trained(body, traces, fed=True)
    assert counts[0] > 0
    assert counts[1:] == [0, 0, 0]
    whole, _ = trained(body, traces, fed=False)
    np.testing.assert_allclose(losses, whole, rtol=1e-6)
    assert losses[0] != losses[3]


@pytest.mark.parametrize("body", [layers, recurrent])
def test_only_what_is_returned_is_kept(
    body: Callable[[Any], Any], traces: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[tuple[int, int]] = []
    run = evaluate.evaluate_block

    def counted(block: Block, env: dict[Any, Any], *rest: Any) -> Any:
        results = run(block, env, *rest)
        assert block.last_op is not None
        returned = {value for value in block.last_op.operands if isinstance(value, OpResult)}
        kept.append((sum(isinstance(value, OpResult) for value in env), len(returned)))
        return results

    monkeypatch.setattr(evaluate, "evaluate_block", counted)
    trained(body, traces, fed=True)
    assert all(found == returned for found, returned in kept), kept
