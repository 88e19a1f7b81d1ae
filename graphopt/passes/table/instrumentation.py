"""Instrumentation: observers of a run of passes, as MLIR's PassInstrumentation."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.op import PdOp
from graphopt.passes.engine.reason import Reason


class Instrumentation:
    """An observer of a run; it changes nothing. `names` are the passes of one step.

    The fusions of one sweep are one step, and each of their rewrites is reported. Subclasses
    override the methods they need.
    """

    def before(self, names: Sequence[str], module: ModuleOp) -> None:
        """Observe that the step is about to run."""

    def after(self, names: Sequence[str], module: ModuleOp) -> None:
        """Observe that the step has run and the module is valid."""

    def note_failure(self, names: Sequence[str], module: ModuleOp) -> None:
        """Observe that the step raised an error or left the module invalid."""

    def took(self, rule: str, ops: Sequence[PdOp], made: Sequence[PdOp]) -> None:
        """Observe that a pass replaces `ops`, the last one first, by `made`."""

    def note_refusal(self, rule: str, op: PdOp, reason: Reason) -> None:
        """Observe that a pass declined the matches that end with `op`."""


class Together(Instrumentation):
    """Several observers as one; the end of a step reaches them in the opposite order."""

    def __init__(self, *parts: Instrumentation) -> None:
        self.parts = parts

    def before(self, names: Sequence[str], module: ModuleOp) -> None:
        for part in self.parts:
            part.before(names, module)

    def after(self, names: Sequence[str], module: ModuleOp) -> None:
        for part in reversed(self.parts):
            part.after(names, module)

    def note_failure(self, names: Sequence[str], module: ModuleOp) -> None:
        for part in reversed(self.parts):
            part.note_failure(names, module)

    def took(self, rule: str, ops: Sequence[PdOp], made: Sequence[PdOp]) -> None:
        for part in self.parts:
            part.took(rule, ops, made)

    def note_refusal(self, rule: str, op: PdOp, reason: Reason) -> None:
        for part in self.parts:
            part.note_refusal(rule, op, reason)
