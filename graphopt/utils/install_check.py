"""A small program that shows whether programs run here (paddle.utils.install_check)."""

from __future__ import annotations

import numpy as np

import graphopt.static as static
from graphopt.ir.program import unique_name
from graphopt.nn.functional.loss import square_error_cost
from graphopt.optimizer import SGD
from graphopt.runtime.devices.places import default_place
from graphopt.tensor.stat import mean


def run_check() -> None:
    """Train a line for a step on the default device, and report success (utils.run_check).

    RuntimeError when the numbers are wrong.
    """
    main, startup = static.Program(), static.Program()
    with unique_name.guard(), static.program_guard(main, startup):
        x, y = static.data("x", [None, 2]), static.data("y", [None, 1])
        loss = mean(square_error_cost(static.nn.fc(x, 1), y))
        SGD(0.05).minimize(loss)
    rows = np.arange(8, dtype="float32").reshape(4, 2) / 8
    feed = {"x": rows, "y": rows.sum(1, keepdims=True)}
    exe = static.Executor()
    with static.scope_guard(static.Scope()):
        exe.run(startup)
        losses = [float(np.asarray(exe.run(main, feed, [loss])[0])) for _ in range(3)]
    if not losses[2] < losses[1] < losses[0]:
        raise RuntimeError(f"run_check(): the loss should fall at each step, found {losses}")
    print(f"graphopt works well on {default_place()}. Programs compile, run and train here.")
