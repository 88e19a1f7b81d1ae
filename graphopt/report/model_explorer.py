"""The stages of a program as the JSON that Google's Model Explorer opens: a graph for each.

The form follows its user guide, "Explore your own formats: JSON": graphs of nodes with namespaces,
attributes, metadata of outputs and incoming edges.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from graphopt.report.graph import Graph, GraphNode
from graphopt.report.stages import Optimization


def model_explorer_json(programs: Sequence[Optimization], label: str) -> str:
    """Write the JSON for Model Explorer, with a graph for each stage of each program."""
    graphs = [
        {"id": _id(each, index, several=len(programs) > 1), "nodes": _nodes(stage.graph)}
        for each in programs
        for index, stage in enumerate(each.all_stages())
    ]
    return json.dumps({"label": label, "graphs": graphs}, indent=1)


def _id(each: Optimization, index: int, *, several: bool) -> str:
    start = f"{each.title}: " if several else ""
    return f"{start}{index}. {each.all_stages()[index].name}"


def _nodes(graph: Graph) -> list[dict[str, Any]]:
    return [_node(graph, number, node) for number, node in enumerate(graph.nodes)]


def _node(graph: Graph, number: int, node: GraphNode) -> dict[str, Any]:
    facts = node.attributes | {
        "state": ", ".join(node.state),
        "line": node.line,
        "fused": node.fused,
        "made by": node.made,
        "rebuilt by": node.rebuilt,
        "FLOPs": str(node.flops or ""),
        "bytes of traffic": str(node.traffic or ""),
    }
    if (measured := node.measured) is not None:
        facts |= {
            "ms": f"{measured.seconds * 1e3:.4g}",
            "bytes at the peak": str(measured.held or ""),
        }
    return {
        "id": str(number),
        "label": node.name if not node.result else f"{node.name} {node.result}",
        "namespace": "/".join(_path(graph, node.cluster)),
        "attrs": [{"key": key, "value": value} for key, value in facts.items() if value],
        "incomingEdges": [
            {"sourceNodeId": str(source), "sourceNodeOutputId": "0", "targetNodeInputId": str(at)}
            for at, source in enumerate(node.inputs)
        ],
        "outputsMetadata": [
            {"id": str(at), "attrs": [{"key": "tensor_shape", "value": type}]}
            for at, type in enumerate(node.types)
        ],
    }


def _path(graph: Graph, cluster: int) -> list[str]:
    """List the labels of the clusters around a node, outermost first, without slashes."""
    found: list[str] = []
    while cluster >= 0:
        found.append(graph.clusters[cluster].label.replace("/", "|"))
        cluster = graph.clusters[cluster].parent
    return found[::-1]
