"""Whole trainings: their final state, and the programs that ran, for tests that compare them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphopt as paddle
from graphopt import static
from graphopt.ir.program import Variable
from graphopt.passes.table import schedule
from graphopt.runtime.compiled_program import CompiledProgram
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt_tests.runtime.nets import Net, close, regression_feed, value, write

REDUCE = BuildStrategy.ReduceStrategy.Reduce
Array = np.ndarray[Any, Any]
OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "SGD": paddle.optimizer.SGD,
    "Momentum": lambda rate, **o: paddle.optimizer.Momentum(rate, 0.9, use_nesterov=True, **o),
    "Adam": paddle.optimizer.Adam,
    "AdamW": paddle.optimizer.AdamW,
    "Adamax": paddle.optimizer.Adamax,
    "Adagrad": paddle.optimizer.Adagrad,
    "RMSProp": lambda rate, **o: paddle.optimizer.RMSProp(rate, centered=True, **o),
    "Lamb": paddle.optimizer.Lamb,
    "NAdam": paddle.optimizer.NAdam,
    "RAdam": paddle.optimizer.RAdam,
    "Rprop": paddle.optimizer.Rprop,
    "Lars": lambda rate, **o: paddle.optimizer.LarsMomentum(rate, momentum=0.9, **o),
    "Ftrl": paddle.optimizer.Ftrl,
    "ASGD": paddle.optimizer.ASGD,
}
CLIPS: dict[str, Callable[[], Any]] = {
    "value": lambda: paddle.nn.ClipGradByValue(0.05),
    "norm": lambda: paddle.nn.ClipGradByNorm(0.1),
    "global": lambda: paddle.nn.ClipGradByGlobalNorm(0.2),
}


def state_of(net: Net) -> dict[str, Array]:
    """Return the values of all persistable variables."""
    names = [v.name for v in net.main.list_vars() if v.persistable]
    scope = static.global_scope()
    return {name: value(name) for name in names if scope.find_var(name) is not None}


def minimize_as_drawn(loss: Variable, drawn: dict[str, Any]) -> None:
    """Append the updates of the drawn optimizer, clip and decay."""
    clip, decay = drawn["clip"], {"weight_decay": 0.1 * drawn["decay"]}
    OPTIMIZERS[drawn["optimizer"]](
        0.05,
        grad_clip=CLIPS[clip]() if clip else None,
        **({} if drawn["optimizer"] == "Lars" else decay),
    ).minimize(loss)


def set_options(
    monkeypatch: pytest.MonkeyPatch, pass_name: str, options: Callable[[Any], dict[str, Any]]
) -> None:
    """Set the options of one pass of the order."""
    rows = [
        replace(row, options=options) if row.pass_name == pass_name else row
        for row in schedule.ROWS
    ]
    monkeypatch.setattr(schedule, "ROWS", rows)


def saves_as_one_device(
    net: Net, program: CompiledProgram, feeds: Sequence[dict[str, Array]], folder: Path
) -> None:
    """Raise AssertionError unless files of a training over devices are those of one device.

    The state is saved before the last feed and loaded again: the bytes, and the next step, agree.
    """
    *before, last = feeds
    for feed in before:
        net.run(feed, net.loss, program)
    static.save(net.main, str(folder / "parts"))
    values = state_of(net)

    def put_back() -> None:
        for name, array in values.items():
            write(name, array)

    net.start()
    put_back()
    static.save(net.main, str(folder / "whole"))
    for ending in ("pdparams", "pdopt"):
        parts, whole = (folder / f"{name}.{ending}" for name in ("parts", "whole"))
        assert parts.read_bytes() == whole.read_bytes()
    net.start()
    static.load(net.main, str(folder / "parts"), net.executor)
    same(state_of(net), values, 0)
    (found,) = net.run(last, net.loss, program)
    put_back()
    close(np.mean(found), np.mean(net.run(last, net.loss)[0]))


def trained(
    net: Net, program: Any, count: int = 12, steps: int = 3, width: int = 3
) -> dict[str, Array]:
    """Train for some steps from the initial values; return losses and state."""
    net.start()
    feeds = [regression_feed(count, width, seed) for seed in range(steps)]
    losses = [net.run(feed, net.loss, program)[0] for feed in feeds]
    return {"loss": np.array(losses), **state_of(net)}


def same(found: dict[str, Array], wanted: dict[str, Array], tolerance: float = 1e-6) -> None:
    """Raise AssertionError, naming the variable, unless all are nearly equal."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].shape == array.shape and found[name].dtype == array.dtype, name
        np.testing.assert_allclose(found[name], array, tolerance, tolerance, err_msg=name)


def module_text(program: CompiledProgram) -> str:
    """Return the IR that ran."""
    (compiled,) = program._compiled_programs()
    return str(compiled.module)


def stablehlo(program: CompiledProgram) -> str:
    """Return XLA's input for the only shape."""
    assert len(program._compiled_programs()) == 1
    return program.text("stablehlo")
