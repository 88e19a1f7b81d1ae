"""The stages of a program: its graph before the passes, and after each that changed its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from difflib import unified_diff

from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.text import text_of
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.instrumentation import Instrumentation
from graphopt.passes.table.manager import optimize
from graphopt.passes.table.order import REQUIRED
from graphopt.passes.table.parts import CompilationPart
from graphopt.passes.table.report import Report, timed_as
from graphopt.report.difference import ProgramDifference, difference
from graphopt.report.graph import Graph, graph_of
from graphopt.report.measured import MEASURED, MeasuredStep, StepMeasured
from graphopt.report.origins import Origins

FIRST = "before passes"
CONTEXT_LINES = 2


@dataclass(frozen=True)
class Stage:
    """The program after a step, and the changes of the step to its text."""

    name: str
    graph: Graph
    diff: tuple[str, ...] = ()
    """The lines of a unified diff against the stage before."""
    required: bool = False
    """True if the step inserted ops that several devices require; then it is no optimization."""


@dataclass
class Stages(Instrumentation):
    """A collector of stages: one at the start, and one after each step that changes the text.

    Stages are large: of more than `most` steps that change the program, the last one replaces the
    one before.
    """

    most: int = 40
    found: list[Stage] = field(default_factory=list[Stage])
    text: str = ""

    def start(self, module: ModuleOp) -> None:
        """Keep the program before all passes."""
        self.origins = Origins(module)
        self.text = text_of(module)
        self.found = [Stage(FIRST, graph_of(module, self.origins))]

    def after(self, names: Sequence[str], module: ModuleOp) -> None:
        text = text_of(module)
        if text == self.text:
            return
        name = ", ".join(names)
        self.origins.after(name, module)
        diff = changed_lines(self.text, text)
        if len(self.found) == self.most:
            self.found.pop()
        required = REQUIRED.issuperset(names)
        self.found.append(Stage(name, graph_of(module, self.origins), diff, required))
        self.text = text

    def took(self, rule: str, ops: Sequence[PdOp], made: Sequence[PdOp]) -> None:
        self.origins.took(rule, ops, made)

    def optimization(self, title: str, report: Report) -> Optimization:
        """Combine the stages with the report of the passes."""
        return Optimization(title, self.found, report)


def changed_lines(before: str, after: str) -> tuple[str, ...]:
    """Compute the lines of a unified diff of two texts, without its head."""
    pair = before.split("\n"), after.split("\n")
    return tuple(unified_diff(*pair, lineterm="", n=CONTEXT_LINES))[2:]


@dataclass(frozen=True)
class Other:
    """A program to compare with: its title, a function that makes its module, its passes."""

    title: str
    again: Callable[[], ModuleOp]
    context: PassContext


@dataclass(frozen=True)
class Against:
    """The differences to another program: as read, and after the passes of both.

    `diff` are the lines that differ in the texts as read.
    """

    title: str
    as_read: ProgramDifference
    after_passes: ProgramDifference
    diff: tuple[str, ...]


@dataclass(frozen=True)
class Optimization:
    """A program with its stages, the report of its passes, and the comparison with another one.

    `measured` is a step of it, whose times are at the nodes of the last of all stages.
    """

    title: str
    stages: Sequence[Stage]
    report: Report
    against: Against | None = None
    measured: StepMeasured | None = None
    as_measured: Stage | None = None
    """The measured program, if it differs from the last stage: one replica of several."""

    def all_stages(self) -> Sequence[Stage]:
        """Return the stages; where a step was measured, the last one is the program that it ran."""
        return self.stages if self.as_measured is None else (*self.stages, self.as_measured)


def optimization(
    title: str,
    again: Callable[[], ModuleOp],
    context: PassContext,
    *,
    compiled: Report | None = None,
    parts: Sequence[CompilationPart] = (),
    other: Other | None = None,
    measured: MeasuredStep | None = None,
) -> Optimization:
    """Run the passes of a context on the module that `again` makes, stage by stage.

    Times come from the report that a program was `compiled` with, where there is one, and from
    `parts`. With `other` the differences to that program are noted, with `measured` the time and
    memory of ops. Raises as `optimize`; no files of graphs are written.
    """
    module, stages = again(), Stages()
    stages.start(module)
    report = optimize(module, context.quiet(), near=True, again=again, watch=stages)
    report.parts += parts
    report = report if compiled is None else timed_as(report, compiled)
    found = stages.optimization(title, report)
    if measured is not None:
        found = _with_measured(found, stages.text, measured)
    return found if other is None else replace(found, against=_against(other, found, again))


def _with_measured(found: Optimization, text: str, measured: MeasuredStep) -> Optimization:
    """Add the times to the last stage, or add a stage where another program was measured."""
    if measured.is_of(text):
        measured.note(found.stages[-1].graph)
        return replace(found, measured=measured.step)
    diff = changed_lines(text, text_of(measured.module))
    extra = Stage(MEASURED, measured.graph(), diff)
    return replace(found, measured=measured.step, as_measured=extra)


def _against(other: Other, found: Optimization, again: Callable[[], ModuleOp]) -> Against:
    """Compare with another program, and note the differences at the nodes of both."""
    there = optimization(other.title, other.again, other.context)
    as_read = difference(there.stages[0].graph, found.stages[0].graph)
    after_passes = difference(there.stages[-1].graph, found.stages[-1].graph)
    after_passes.mark()
    as_read.mark()  # last: a program without passes has one graph
    diff = changed_lines(text_of(other.again()), text_of(again()))
    return Against(other.title, as_read, after_passes, diff)
