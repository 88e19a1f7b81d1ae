"""A measured step in a report: time and memory, of the step and of each op by its number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.text import text_of
from graphopt.report.graph import OP, Graph, OpMeasured, graph_of
from graphopt.report.origins import Origins

MEASURED = "as measured, on one device"


class StepMeasured(NamedTuple):
    """The seconds of a step: all, `idle` while no op ran, `other` for instructions of no op.

    `peaks` are the most floating-point operations a second of each kind of product, in words.
    `memory` is the peak in bytes, of which `state` are variables between steps, and `feeds` inputs.
    """

    seconds: float
    idle: float
    other: float
    steps: int
    peaks: str
    memory: int
    state: int
    feeds: int


@dataclass(frozen=True)
class MeasuredStep:
    """A step of an optimized program, and its ops by their numbers in `module`."""

    module: ModuleOp
    step: StepMeasured
    ops: Mapping[int, OpMeasured]

    def is_of(self, text: str) -> bool:
        """True for the text of the measured program: its ops have the same numbers then."""
        return text_of(self.module) == text

    def note(self, graph: Graph) -> None:
        """Note the time and memory of each op at its node."""
        for node in graph.nodes:
            if node.kind == OP:
                node.measured = self.ops.get(node.number)

    def graph(self) -> Graph:
        """Build the graph of the measured program, with the time and memory of its ops."""
        graph = graph_of(self.module, Origins(self.module))
        self.note(graph)
        return graph
