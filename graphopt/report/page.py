"""The report as one self-contained HTML page: script, style, layout library and data are inside.

The page needs no network. The layout is by the Eclipse Layout Kernel (elkjs), whose license is next
to its file; it and the data are compressed, and the browser inflates them.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from html import escape
from importlib.resources import files
from typing import Any

from graphopt.display.table import Column, Page, Table
from graphopt.display.units import quantity, size
from graphopt.passes.table.explain import as_page, as_text
from graphopt.report.difference import ProgramDifference
from graphopt.report.graph import FED, OP, Graph, GraphNode
from graphopt.report.stages import Against, Optimization, Stage
from graphopt.report.times import compilations, time_bar, time_table

_ASSETS = files("graphopt.report") / "assets"
# short names of node fields; empty fields are left out
_SHORT = {
    "kind": "k", "name": "n", "result": "r", "attributes": "a", "types": "t", "inputs": "i",
    "state": "s", "line": "l", "cluster": "c", "made": "m", "rebuilt": "o", "fused": "u",
    "grouped": "e", "flops": "f", "traffic": "b", "change": "g", "difference": "w", "measured": "q",
}  # fmt: skip


def page(programs: Sequence[Optimization], title: str) -> str:
    """Render the page of one or several programs, as HTML.

    ValueError for no program.
    """
    if not programs:
        raise ValueError("there is no program to report")
    return _page(title, [_program(each) for each in programs])


def difference_page(found: ProgramDifference, title: str) -> str:
    """Render the page of two programs and their difference; ops that differ have colors."""
    found.mark()
    stages = (Stage("first program", found.before), Stage("second program", found.after))
    program = {
        "title": title,
        "stages": [_stage(stage, stage.name) for stage in stages],
        "pair": [0, 1],
        "overview": found.page().html(),
        "explain": found.page().text(),
        "numbers": Page([_kinds(found.before, found.after)]).html(),
    }
    return _page(title, [program])


def _page(title: str, programs: Sequence[dict[str, Any]]) -> str:
    data = {"title": title, "programs": programs}
    parts = {
        "TITLE": escape(title),
        "STYLE": _asset("page.css"),
        "ELK_API": _asset("elk-api.js"),
        "SCRIPT": _asset("page.js"),
        "ELK_WORKER": base64.b64encode((_ASSETS / "elk-worker.min.js.gz").read_bytes()).decode(),
        "DATA": _pack(data),
    }
    html = _asset("page.html")
    for name, text in parts.items():
        html = html.replace(f"{{{{{name}}}}}", text)
    return html


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")


def _pack(data: Any) -> str:
    """Pack data as base64 of compressed JSON, which needs no escaping in a page."""
    text = json.dumps(data, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def _program(each: Optimization) -> dict[str, Any]:
    stages = [
        _stage(stage, f"{number}. after {stage.name}" if number else stage.name)
        for number, stage in enumerate(each.stages)
    ]
    pair = _pair(each.stages)
    if each.as_measured is not None:
        stages.append(_stage(each.as_measured, each.as_measured.name))
    if (against := each.against) is not None:
        there = _stage(Stage(against.title, against.as_read.before), f"against {against.title}")
        stages = [there, {**stages[0], "diff": list(against.diff)}, *stages[1:]]
        pair = []  # the page opens on the differences from the other program
    return {
        "title": each.title,
        "stages": stages,
        "pair": pair,
        "compilations": compilations(each.report),
        "against": "" if against is None else _against(against).html(),
        "overview": as_page(each.report).html(),
        "explain": as_text(each.report, "all"),
        "numbers": _numbers(each),
        "measured": None if each.measured is None else each.measured._asdict(),
    }


def _pair(stages: Sequence[Stage]) -> list[int]:
    """Choose the stages to show side by side: before the passes, and after the optimizing ones."""
    last = max(number for number, stage in enumerate(stages) if not stage.required)
    return [0, last] if last else []


def _against(against: Against) -> Page:
    """Build a page of the differences to another program, as `graphopt diff` prints them."""
    as_read, after = against.as_read.page().parts, against.after_passes.page().parts
    read = f"changes from {against.title}, in the programs as read"
    passed = f"changes from {against.title}, after the passes of each program"
    return Page([read, *as_read, passed, *after])


def _stage(stage: Stage, label: str) -> dict[str, Any]:
    return {
        "name": label,
        "required": stage.required,
        "diff": list(stage.diff),
        "nodes": [_node(node) for node in stage.graph.nodes],
        "clusters": [asdict(cluster) for cluster in stage.graph.clusters],
    }


def _node(node: GraphNode) -> dict[str, Any]:
    values = asdict(node)
    found = {short: values[name] for name, short in _SHORT.items() if values[name]}
    if node.measured is not None:
        seconds, gradient, *counts = node.measured
        *counts, at_peak = counts
        short = [float(f"{each:.4g}") for each in (seconds, gradient, at_peak)]
        found["q"] = [*short[:2], *counts, short[2]]
    if node.cluster < 0:
        del found["c"]
    else:
        found["c"] = node.cluster
    return found


# -- numbers ---------------------------------------------------------------------------------------


def _numbers(each: Optimization) -> str:
    """Render the compile time part by part, and sizes and counts before and after the passes."""
    first, last = each.stages[0].graph, each.stages[-1].graph
    tables = [_totals(each, first, last), _costliest(last), _kinds(first, last)]
    tables.append(time_table(each.report))
    return time_bar(each.report) + Page(tables).html()


def _totals(each: Optimization, first: Graph, last: Graph) -> Table:
    before, after = each.report.cost_before, each.report.cost_after
    rows = [
        ["ops", str(_count(first)), str(_count(last))],
        ["parameters and other state", size(before.state_bytes), size(after.state_bytes)],
        ["values written by ops", size(_count_written(first)), size(_count_written(last))],
        ["traffic of ops", size(before.traffic), size(after.traffic)],
        ["FLOPs", quantity(before.flops), quantity(after.flops)],
    ]
    columns = (Column("unknown sizes as 1"), Column("before", right=True), _AFTER)
    return Table(columns, rows, "one forward call")


_AFTER = Column("after", right=True)
_COSTS = (Column("FLOPs", right=True), Column("traffic", right=True))
_MOST_COSTLY = 10


def _kinds(first: Graph, last: Graph) -> Table:
    """Build a table of the number of ops of each kind."""
    before, after = (Counter(n.name for n in g.nodes if n.kind == OP) for g in (first, last))
    flops, traffic = Counter[str](), Counter[str]()
    for node in last.nodes:
        flops[node.name] += node.flops
        traffic[node.name] += node.traffic
    names = sorted({*before, *after}, key=lambda name: -max(before[name], after[name]))
    rows = [
        [name, str(before[name]), str(after[name]), *_cost(flops[name], traffic[name])]
        for name in names
    ]
    columns = (Column("op"), Column("before", right=True), _AFTER, *_COSTS)
    return Table(columns, rows, "ops, with their cost after the passes")


def _costliest(graph: Graph) -> Table:
    """Build a table of the ops with the most FLOPs, then of ops with the most traffic."""
    ops = [node for node in graph.nodes if node.flops or node.traffic]
    ops.sort(key=lambda node: (-node.flops, -node.traffic))
    rows = [
        [
            node.name,
            node.result or ", ".join(node.state[:1]),
            _place(graph, node.cluster),
            node.line,
            *_cost(node.flops, node.traffic),
        ]
        for node in ops[:_MOST_COSTLY]
    ]
    columns = (Column("op"), Column("result or state"), Column("in"), Column("line"), *_COSTS)
    return Table(columns, rows, "the costliest ops" if rows else "")


def _place(graph: Graph, cluster: int) -> str:
    """Return the layer or block of a node, without its ops; "" for none."""
    return graph.clusters[cluster].label.partition(":")[0] if cluster >= 0 else ""


def _cost(flops: int, traffic: int) -> list[str]:
    return [quantity(flops).strip() if flops else "", size(traffic) if traffic else ""]


def _count(graph: Graph) -> int:
    return sum(node.kind == OP and not node.grouped for node in graph.nodes)


def _count_written(graph: Graph) -> int:
    return sum(node.written for node in graph.nodes if node.kind != FED)
