"""Embedding tables that are updated by rows: equal training, and tables that the pass leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import graphopt as paddle
from graphopt import static, utils
from graphopt.debug.compare import assert_same_results, interpret_module, run_module
from graphopt.ir.translate.blocks.program import parse_program
from graphopt.passes.engine.fusion import Applied, Declined
from graphopt.passes.target.update_rows import UpdateRows

Array = np.ndarray[Any, Any]
ROWS, BATCH = 60, 4
LAZY: dict[str, Any] = {
    "adam": lambda: paddle.optimizer.Adam(0.1, lazy_mode=True),
    "adamw": lambda: paddle.optimizer.AdamW(0.1, weight_decay=0.1, lazy_mode=True),
}
OPTIMIZERS: dict[str, Any] = {
    "sgd": lambda: paddle.optimizer.SGD(0.5),
    "adagrad": lambda: paddle.optimizer.Adagrad(0.1),
    **LAZY,
}


@dataclass(frozen=True)
class Net:
    """A net with lookups in one table: the width and padding of each."""

    widths: tuple[int, ...]
    paddings: tuple[int | None, ...]
    batch: int | None = BATCH
    dtype: str = "float32"
    stops: bool = False
    """The last lookup passes no gradient on."""
    optimizer: str = "sgd"
    """A name of `OPTIMIZERS`."""

    def build(self) -> tuple[Any, Any, Any]:
        """Build the program; return it with its startup program and its loss."""
        with static.program_guard(static.Program(), static.Program()), utils.unique_name.guard():
            static.default_startup_program().random_seed = 7
            table = static.create_parameter([ROWS, 3], self.dtype, "table")
            found: list[Any] = []
            for at, (width, padding) in enumerate(zip(self.widths, self.paddings, strict=True)):
                ids = static.data(f"ids{at}", [self.batch, width], "int64")
                rows = paddle.nn.functional.embedding(ids, table, padding, self.optimizer in LAZY)
                found.append(paddle.mean(paddle.tanh(rows), axis=1))
            if self.stops:
                found[-1].stop_gradient = True
            out = static.nn.fc(paddle.concat(found, axis=1), 1)
            loss = paddle.mean(paddle.square(out))
            OPTIMIZERS[self.optimizer]().minimize(loss)
            return static.default_main_program(), static.default_startup_program(), loss

    def feeds(self, generator: np.random.Generator) -> dict[str, Array]:
        """Draw row numbers, many of them equal."""
        return {
            f"ids{at}": generator.integers(0, 6, (BATCH, width))
            for at, width in enumerate(self.widths)
        }


@st.composite
def nets(draw: Any) -> Net:
    """Draw nets with one to three lookups."""
    widths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    paddings = [draw(st.sampled_from([None, 0, 3])) for _ in widths]
    batch = draw(st.sampled_from([BATCH, None]))
    dtype = draw(st.sampled_from(["float32", "float64"]))
    stops = len(widths) > 1 and draw(st.booleans())
    optimizer = draw(st.sampled_from(sorted(OPTIMIZERS)))
    return Net(tuple(widths), tuple(paddings), batch, dtype, stops, optimizer)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("run", "examples"),
    [(interpret_module, 24), pytest.param(run_module, 24, marks=pytest.mark.slow)],
    ids=["interpret_module", "compiled"],
)
def test_same_training(run: Any, examples: int) -> None:
    """Losses, tables and parameters after a step are equal; every program is rewritten."""

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.explicit),
    )
    @given(nets())
    def check(net: Net) -> None:
        program, _, loss = net.build()
        feeds = [f"ids{at}" for at in range(len(net.widths))]
        before = parse_program(program, feeds, [loss.name])
        after = before.clone()
        outcomes = UpdateRows().rewrite(after)
        after.verify()
        count = sum(isinstance(outcome, Applied) for outcome in outcomes)
        looked_up = net.widths[: len(net.widths) - net.stops]
        few = sum(looked_up) * (net.batch or 32) <= ROWS
        assert count == few, outcomes
        assert_same_results(before, after, run=run)

    check()


def train(net: Net, without: str, monkeypatch: pytest.MonkeyPatch) -> list[Array]:
    """Train by a plain `Executor.run`; return the losses of three steps and the state.

    Each step looks up other rows.
    """
    monkeypatch.setenv("FLAGS_graphopt_without", without)
    exe, scope = static.Executor(paddle.CPUPlace()), static.Scope()
    program, startup, loss = net.build()
    generator = np.random.default_rng(0)
    feeds = [net.feeds(generator) for _ in range(3)]
    with static.scope_guard(scope):
        exe.run(startup)
        losses = [exe.run(program, feed=feed, fetch_list=[loss])[0] for feed in feeds]
    names = [variable.name for variable in program.list_vars() if variable.persistable]
    found = [scope.find_var(name) for name in names]
    return [*losses, *(slot.numpy() for slot in found if slot is not None)]


@pytest.mark.every(4)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_every_program_gets_it(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain run updates by rows, with the same state as without the pass."""
    net = Net((2, 1), (None, 3), optimizer=optimizer)
    for by_rows, dense in zip(
        train(net, "", monkeypatch), train(net, UpdateRows.name, monkeypatch), strict=True
    ):
        np.testing.assert_allclose(by_rows, dense, rtol=1e-5, atol=1e-6)


def test_several_replicas() -> None:
    """Each replica looks up its own rows, so the gradient of the whole table is summed."""
    program, _, loss = Net((1,), (None,)).build()
    module = parse_program(program, ["ids0"], [loss.name])
    (outcome,) = UpdateRows(replicas=2).rewrite(module)
    assert isinstance(outcome, Declined) and outcome.reason.name == "several-replicas"
