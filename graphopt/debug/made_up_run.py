"""A run of a saved model with made-up inputs, for the times of JAX and XLA."""

from __future__ import annotations

from typing import Any

from graphopt.models.feeds import Sizes, random_feed
from graphopt.models.model import read_model
from graphopt.passes.table.report import Report
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.steps.run_hook import watching


def report_of_run(path: str, strategy: BuildStrategy | None, sizes: Sizes) -> Report:
    """The report of what a run of a saved model compiles, on this machine.

    Inputs are random, `sizes` are those of unknown dimensions. Raises as `import_model` and
    `SavedModel.run`.
    """
    model = read_model(path)
    found: list[Report] = []

    def watch(compiled: Any, inputs: dict[str, Any], key: Any) -> None:
        found.append(compiled.report)

    with watching(watch):
        model.run(random_feed(model, sizes, 0), strategy)
    return found[-1]
