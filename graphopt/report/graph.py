"""A module as a graph to draw: nodes with their clusters, edges, and state folded into its readers.

Clusters are the layers and blocks of the forward part before the passes, with one cluster around
several that are alike and follow each other; the updates; the initial values of a startup program;
and the regions of ops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.numbers import numbers_of
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import FusionGroup, Yield
from graphopt.ir.dialect.regions import values_read
from graphopt.ir.dialect.signature import FEED, FETCH, main_function, signature_of
from graphopt.ir.dialect.types import show
from graphopt.passes.engine.costs import bytes_of, cost_of_op
from graphopt.passes.engine.naming import source_line
from graphopt.report.origins import Labels, Origins

OP, FED, FETCHED = "op", "feed", "fetch"
# the cluster of the ops that read only parameters and other state
OF_PARAMETERS = "computed from parameters"


@dataclass
class Cluster:
    """Nodes that are drawn in one box; `parent` is the cluster around it, -1 for none."""

    label: str
    parent: int = -1


class OpMeasured(NamedTuple):
    """The cost of an op in a measured step.

    `seconds` include the time of its derivative (`gradient`). `flops` are the floating-point
    operations of its products and convolutions, `at_peak` the seconds of these at the peak of their
    kind. `held` are the bytes of its results that are alive when most are.
    """

    seconds: float
    gradient: float
    flops: int
    held: int
    at_peak: float = 0.0


@dataclass
class GraphNode:
    """An op, a feed or a fetch. `inputs` are the nodes that make its operands."""

    kind: str
    name: str
    result: str = ""
    """The name of the first result; a rebuilt op may take it from the op that it replaced."""
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    types: list[str] = field(default_factory=list[str])
    """The types of the results."""
    inputs: list[int] = field(default_factory=list[int])
    state: list[str] = field(default_factory=list[str])
    """The parameters and other state that the op reads, with their types."""
    line: str = ""
    """The user's line that created the op."""
    cluster: int = -1
    made: str = ""
    """The pass that created the op; empty for an op of the user's program."""
    rebuilt: str = ""
    """The passes that replaced the op by another one of its kind."""
    fused: str = ""
    """The ops that were fused into this one, or that are in this group, in words."""
    grouped: bool = False
    """True for an op in a group, which counts as one op."""
    flops: int = 0
    traffic: int = 0
    written: int = 0
    """The bytes of the results; unknown sizes count as one."""
    change: str = ""
    """The kind of the change against another program, if there is one."""
    difference: str = ""
    """The change in words."""
    number: int = -1
    """The number of the op in the module."""
    measured: OpMeasured | None = None


@dataclass
class Graph:
    """The nodes and clusters of a module."""

    nodes: list[GraphNode] = field(default_factory=list[GraphNode])
    clusters: list[Cluster] = field(default_factory=list[Cluster])


def graph_of(module: ModuleOp, origins: Origins) -> Graph:
    """Build the graph of `@main`."""
    return _Maker(module, origins).graph


class _Maker:
    """The graph so far, and the node of each value."""

    def __init__(self, module: ModuleOp, origins: Origins) -> None:
        self.graph = Graph()
        self.origins = origins
        self.numbers = numbers_of(module)
        self.node_of: dict[SSAValue, int] = {}
        self.state: dict[SSAValue, str] = {}
        self.cluster_of: dict[Labels, int] = {(): -1}
        body, signature = main_function(module).body.block, signature_of(module)
        for argument, port in zip(body.args, signature.arguments, strict=True):
            if port.kind == FEED:
                node = GraphNode(FED, port.name, types=[show(port.type)])
                self.node_of[argument] = self._add(node)
            else:
                self.state[argument] = f"{port.name} {show(port.type)}"
        self._block(body, -1)
        for value, port in zip(_returned_values(body), signature.results, strict=True):
            if port.kind == FETCH and value in self.node_of:
                inputs = [self.node_of[value]]
                self._add(GraphNode(FETCHED, port.name, types=[show(port.type)], inputs=inputs))

    def _add(self, node: GraphNode) -> int:
        self.graph.nodes.append(node)
        return len(self.graph.nodes) - 1

    def _cluster(self, label: str, parent: int = -1) -> int:
        self.graph.clusters.append(Cluster(label, parent))
        return len(self.graph.clusters) - 1

    def _find_cluster(self, labels: Labels) -> int:
        """Find the cluster of these labels, outermost first, or make it."""
        if labels not in self.cluster_of:
            self.cluster_of[labels] = self._cluster(labels[-1], self._find_cluster(labels[:-1]))
        return self.cluster_of[labels]

    def _block(self, block: Block, cluster: int) -> None:
        for op in block.ops:
            if not isinstance(op, (ReturnOp, Yield)):
                self._op(op, cluster)

    def _op(self, op: Operation, cluster: int) -> None:
        is_state = bool(op.operands) and all(value in self.state for value in values_read(op))
        if cluster < 0:
            labels = self.origins.labels(op)
            cluster = self._find_cluster(labels or ((OF_PARAMETERS,) if is_state else ()))
        name = op.name.removeprefix("pd.")
        first = self.origins.name_of(op)
        if op.regions:
            cluster = self._cluster(f"{name} {first}".strip(), cluster)
        index = self._add(
            GraphNode(
                OP,
                name,
                first,
                _attributes(op),
                [show(result.type) for result in op.results],
                self._inputs(op.operands),
                [self.state[value] for value in op.operands if value in self.state],
                source_line(op.location),
                cluster,
                self.origins.made_by(op),
                ", ".join(self.origins.rebuilt_by(op)),
                " + ".join(self.origins.fused_kinds(op)),
            )
        )
        node = self.graph.nodes[index]
        node.number = self.numbers[op]
        if isinstance(op, PdOp):
            cost = cost_of_op(op)
            node.flops, node.traffic = cost.flops, cost.traffic
        node.grouped = isinstance(op.parent_op(), FusionGroup)
        node.written = sum(bytes_of(result) for result in op.results)
        for region in op.regions:
            # values that enter a region are drawn as results of its op
            self.node_of |= dict.fromkeys(region.block.args, index)
            self._block(region.block, cluster)
            if isinstance(op, FusionGroup):  # its inputs are the values that it yields
                last = region.block.last_op
                node.inputs = self._inputs(last.operands if last is not None else ())
        if is_state:  # no edges: every op of a layer would have one
            shown = (f"{result.name_hint or name} {show(result.type)}" for result in op.results)
            self.state |= dict(zip(op.results, shown, strict=True))
        else:
            self.node_of |= dict.fromkeys(op.results, index)

    def _inputs(self, operands: Sequence[SSAValue]) -> list[int]:
        found = (self.node_of[value] for value in operands if value in self.node_of)
        return list(dict.fromkeys(found))


def _returned_values(body: Block) -> Iterator[SSAValue]:
    last = body.last_op
    return iter(last.operands if isinstance(last, ReturnOp) else ())


# the most characters of an attribute; constants may have many
_LONGEST = 300
# the largest float32
_LARGEST = float(np.finfo(np.float32).max)


def _attribute_text(value: object) -> str:
    """Print an attribute in few characters, a float32 number by its shortest digits."""
    if isinstance(value, tuple):
        parts = [*map(_attribute_text, cast("Sequence[object]", value))]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if isinstance(value, float) and abs(value) < _LARGEST and np.float32(value) == value:
        return repr(float(str(np.float32(value))))
    return repr(value)


def _attributes(op: Operation) -> dict[str, str]:
    """Collect an op's explicit attributes, without defaults; long ones are cut."""
    found: dict[str, str] = {}
    for name, value in op.attr_values().items() if isinstance(op, PdOp) else ():
        if name in op.properties:
            text = _attribute_text(value)
            found[name] = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return found
