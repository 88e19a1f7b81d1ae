"""Whole trainings: what they leave behind, and the programs that ran, for comparing tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import graphopt as paddle
from graphopt import static
from graphopt.runtime import BuildStrategy, CompiledProgram
from graphopt_tests.runtime.nets import Net, regression_feed, value

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
    """Everything that outlives a step."""
    names = [v.name for v in net.main.list_vars() if v.persistable]
    scope = static.global_scope()
    return {name: value(name) for name in names if scope.find_var(name) is not None}


def trained(
    net: Net, program: Any, count: int = 12, steps: int = 3, width: int = 3
) -> dict[str, Array]:
    """The losses and the state after some steps from the initial values."""
    net.start()
    feeds = [regression_feed(count, width, seed) for seed in range(steps)]
    losses = [net.run(feed, net.loss, program)[0] for feed in feeds]
    return {"loss": np.array(losses), **state_of(net)}


def same(found: dict[str, Array], wanted: dict[str, Array], tolerance: float = 1e-6) -> None:
    """AssertionError, naming the variable, unless all are nearly equal."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].shape == array.shape and found[name].dtype == array.dtype, name
        np.testing.assert_allclose(found[name], array, tolerance, tolerance, err_msg=name)


def module_text(program: CompiledProgram) -> str:
    """The IR that ran."""
    (compiled,) = program._compiled_programs()
    return str(compiled.module)


def stablehlo(program: CompiledProgram) -> str:
    """What XLA was given for the only shape."""
    assert len(program._compiled_programs()) == 1
    return program.text("stablehlo")
