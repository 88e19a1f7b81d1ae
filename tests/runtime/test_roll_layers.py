"""Models with rolled layers train as those with unrolled layers, and compile faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt_tests.frontend.programs import fresh
from graphopt_tests.runtime.nets import strategy as with_flags

Array = np.ndarray[Any, Any]
LAYERS, WIDTH = 12, 6
X = np.random.default_rng(0).normal(size=(4, WIDTH)).astype("float32")
UNROLLED = "roll-layers,stack-state"


def model(dropout: float) -> tuple[Any, Any]:
    """Build layers with a residual value; return the loss and a test program."""
    x = static.data("x", [None, WIDTH], "float32")
    hidden = x
    for _ in range(LAYERS):
        inner = static.nn.fc(hidden, WIDTH, activation="tanh")
        if dropout:
            inner = paddle.nn.functional.dropout(inner, dropout)
        hidden = 0.5 * hidden + inner
    loss = paddle.mean(paddle.square(static.nn.fc(hidden, 2) - 1.0))
    return loss, static.default_main_program().clone(for_test=True)


class Trained:
    """The results of some training steps with tests in between."""

    def __init__(
        self,
        make: Callable[[], Any],
        *,
        dropout: float = 0.0,
        devices: int = 1,
        fetches: Sequence[str] = (),
        folder: Path | None = None,
        **flags: Any,
    ) -> None:
        with fresh():
            static.default_startup_program().random_seed = 7
            paddle.seed(3)
            loss, test = model(dropout)
            make().minimize(loss)
            main, exe = static.default_main_program(), static.Executor(paddle.CPUPlace())
            exe.run(static.default_startup_program())
            program: Any = main
            strategy = with_flags(**flags)
            if devices > 1:
                program = static.CompiledProgram(main).with_data_parallel(
                    loss_name=loss.name, build_strategy=strategy, places=static.cpu_places(devices)
                )
            elif flags:
                program = static.CompiledProgram(main, strategy)
            self.fetched: list[Array] = []
            for step in range(3):
                found = exe.run(program, feed={"x": X}, fetch_list=[loss, *fetches])
                self.fetched += map(np.asarray, found)
                self.fetched += exe.run(test, feed={"x": X}, fetch_list=[loss.name])
                if step == 0 and folder is not None:
                    static.save(main, str(folder / "model"))
                if step == 1 and folder is not None:
                    static.load(main, str(folder / "model"), exe)
            names = [v.name for v in static.default_startup_program().list_vars() if v.persistable]
            slots = [static.global_scope().find_var(name) for name in sorted(set(names))]
            self.state = [slot.numpy() for slot in slots if slot is not None]
            self.compiled = exe._runner.all_compiled()  # pyright: ignore
            if program is not main:
                self.compiled += program._compiled_programs()

    def kinds(self) -> set[str]:
        """Return the op names of all programs."""
        return {op.name for compiled in self.compiled for op in compiled.module.walk()}


def assert_same(make: Callable[[], Any], **settings: Any) -> Trained:
    """Check that rolled and unrolled layers give the same numbers; return the rolled run."""
    rolled = Trained(make, **settings)
    paddle.set_flags({"FLAGS_graphopt_without": UNROLLED})
    try:
        plain = Trained(make, **settings)
    finally:
        paddle.set_flags({"FLAGS_graphopt_without": ""})
    assert "pd.layers" not in plain.kinds()
    for found, wanted in ((rolled.fetched, plain.fetched), (rolled.state, plain.state)):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    return rolled


def sizes(trained: Trained) -> list[int]:
    """Count the state arrays of each program with updates."""
    return [len(c.plan.updated) for c in trained.compiled if c.plan.updated]


@pytest.mark.exhaustive
def test_adamw_with_dropout_on_stacks() -> None:
    """Losses, tests in between, and state agree, with 20 arrays instead of 170."""
    trained = assert_same(lambda: paddle.optimizer.AdamW(0.01), dropout=0.3)
    assert "pd.layers" in trained.kinds()
    assert sizes(trained) == [20]


@pytest.mark.slow
def test_checkpoints_and_fetches() -> None:
    """Saving, loading and fetching use the names of single variables."""

    def make() -> Any:
        return paddle.optimizer.Momentum(0.1, 0.9)

    fetches = ("fc_3.w_0", "fc_3.w_0@GRAD")
    trained = assert_same(make, fetches=fetches)
    assert sizes(trained) == [8]


@pytest.mark.slow
def test_load_between_steps(tmp_path: Path) -> None:
    """The next step starts from the loaded values."""
    assert_same(lambda: paddle.optimizer.Momentum(0.1, 0.9), folder=tmp_path)


@pytest.mark.slow
def test_clipping_and_decay_are_of_stacks() -> None:
    """Norms, scales and decay work on whole stacks."""

    def make() -> Any:
        clip = paddle.nn.ClipGradByGlobalNorm(0.1)
        return paddle.optimizer.Momentum(0.1, 0.9, weight_decay=1e-3, grad_clip=clip)

    trained = assert_same(make)
    for compiled in trained.compiled:
        ops = [op for op in compiled.module.walk() if op.name == "pd.squared_l2_norm"]
        assert len(ops) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_memory_optimize_computes_layers_again(devices: int) -> None:
    """The layers are marked to be recomputed."""
    trained = assert_same(
        lambda: paddle.optimizer.Adam(0.01), dropout=0.2, devices=devices, memory_optimize=True
    )
    found = [op for c in trained.compiled for op in c.module.walk() if op.name == "pd.layers"]
    assert True in {op.attr("recompute") for op in found}


@pytest.mark.exhaustive
def test_state_in_parts_is_no_stack() -> None:
    """Under reduce_strategy=Reduce, state is sharded, and the pass declines."""
    reduce = static.BuildStrategy.ReduceStrategy.Reduce
    trained = Trained(lambda: paddle.optimizer.SGD(0.1), devices=2, reduce_strategy=reduce)
    reasons = {d.reason.name for c in trained.compiled for d in c.report.declined("roll-layers")}
    assert reasons == {"state-apart"}


@pytest.mark.exhaustive
def test_updates_without_a_form_for_stacks() -> None:
    """In training, layers whose updates have no stacked form are not rolled."""
    trained = Trained(lambda: paddle.optimizer.RMSProp(0.01))
    train = next(c for c in trained.compiled if c.plan.updated)
    assert "pd.layers" not in {op.name for op in train.module.walk()}
