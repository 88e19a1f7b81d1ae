"""Instrumentation: observers of a run of passes, as MLIR's PassInstrumentation."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp


class Instrumentation:
    """An observer of a run; it changes nothing. `names` are the passes of one step.

    The fusions of one sweep are one step. Subclasses override what they need.
    """

    def before(self, names: Sequence[str], module: ModuleOp) -> None:
        """The step is about to run."""

    def after(self, names: Sequence[str], module: ModuleOp) -> None:
        """The step has run, and the module is valid."""

    def failed(self, names: Sequence[str], module: ModuleOp) -> None:
        """The step raised an error or left the module invalid."""


class Together(Instrumentation):
    """Several observers; what ends a step reaches them in the opposite order."""

    def __init__(self, *parts: Instrumentation) -> None:
        self.parts = parts

    def before(self, names: Sequence[str], module: ModuleOp) -> None:
        for part in self.parts:
            part.before(names, module)

    def after(self, names: Sequence[str], module: ModuleOp) -> None:
        for part in reversed(self.parts):
            part.after(names, module)

    def failed(self, names: Sequence[str], module: ModuleOp) -> None:
        for part in reversed(self.parts):
            part.failed(names, module)
