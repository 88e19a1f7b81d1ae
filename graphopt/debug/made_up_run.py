"""A run of a saved model with random inputs, and the programs that a run compiles."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from graphopt.models.feeds import Sizes, random_feed
from graphopt.models.model import read_model
from graphopt.passes.table.report import Report
from graphopt.runtime.compile.compiled import Compiled
from graphopt.runtime.settings.strategies import BuildStrategy
from graphopt.runtime.steps.run_hook import watching


def report_of_run(path: str, strategy: BuildStrategy | None, sizes: Sizes) -> Report:
    """Report on the program that a run of a saved model compiles, on this machine.

    Inputs are random, `sizes` has their unknown dimensions. Raises as `import_model` and
    `ImportedModel.run`.
    """
    model = read_model(path)
    with compiled_programs() as found:
        model.run(random_feed(model, sizes, 0), strategy)
    return found[-1].report


@contextmanager
def compiled_programs() -> Generator[list[Compiled]]:
    """Collect the programs that run inside the block, one for each run."""
    found: list[Compiled] = []

    def watch(compiled: Any, inputs: dict[str, Any], key: Any) -> None:
        found.append(compiled)

    with watching(watch):
        yield found
