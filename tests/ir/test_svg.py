"""Drawings without Graphviz: every op and edge, boxes that do not overlap, valid XML."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

import graphopt as paddle
from graphopt import static
from graphopt.cli.opt import main as opt
from graphopt.debug.program_source import subjects
from graphopt.ir.dialect.clustered_rows import ClusteredRows
from graphopt.ir.dialect.layered_layout import GAP, WIDEST
from graphopt.ir.dialect.svg import to_svg
from graphopt.ir.dialect.text import text_of
from graphopt.passes.table.context import PassContext
from graphopt.report.stages import optimization
from graphopt.runtime.compile.compilation import pass_context_for
from graphopt.runtime.settings.strategy_text import strategy_of
from graphopt.testing import parse

SVG = "{http://www.w3.org/2000/svg}"
RESNET = Path(__file__).parents[1] / "data" / "models" / "infer_resnet18" / "model.pdmodel"
REGIONS = """\
func.func @main(
  %x: tensor<?x4xf32> {pd.feed = "x<&"}, %c: tensor<1xi1> {pd.feed = "c"}
) -> (tensor<?x4xf32> {pd.fetch = "y"}) {
  %h = pd.if(%c) : (tensor<1xi1>) -> tensor<?x4xf32> {
    %e = pd.exp(%x) : tensor<?x4xf32>
    pd.yield(values = [%e]) : (tensor<?x4xf32>) -> ()
  } else {
    pd.yield(values = [%x]) : (tensor<?x4xf32>) -> ()
  }
  %s = pd.add(%h, %x) : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %s : tensor<?x4xf32>
}
"""


def chain(count: int) -> str:
    """Write a program in which each op reads the previous op and the feed."""
    lines = [
        f"  %v{i + 1} = pd.add(%v{i}, %v0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
        for i in range(count)
    ]
    return (
        'func.func @main(%v0: tensor<4xf32> {pd.feed = "x"}) -> (tensor<4xf32> {pd.fetch = "y"}) '
        f"{{\n{''.join(lines)}  func.return %v{count} : tensor<4xf32>\n}}\n"
    )


def boxes(root: ElementTree.Element) -> list[tuple[float, ...]]:
    """Return left, top, right and bottom of each box."""
    found = []
    for rect in root.iter(f"{SVG}rect"):
        x, y, w, h = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        found.append((x, y, x + w, y + h))
    return found


def test_ops_and_edges() -> None:
    """Ops in regions are drawn; edges from yielded values are dashed; a tooltip has the type."""
    text = to_svg(parse(REGIONS))
    root = ElementTree.fromstring(text)
    assert text == to_svg(parse(REGIONS))
    groups = [g.attrib["class"] for g in root.iter(f"{SVG}g")]
    assert (groups.count("op"), groups.count("port")) == (5, 3)
    lines = list(root.iter(f"{SVG}polyline"))
    assert (len(lines), sum("class" in line.attrib for line in lines)) == (9, 2)
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert any(t.startswith("pd.exp\n%e\n[-1, 4] float32") for t in titles)
    assert "x<&" in [each.text for each in root.iter(f"{SVG}text")]


def training(layers: int) -> str:
    """Write a training step, whose updates are in one row or several."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [-1, 4], "float32")
        h = x
        for _ in range(layers):
            h = paddle.add(paddle.nn.functional.relu(paddle.nn.Linear(4, 4)(h)), h)
        loss = paddle.mean(h)
        paddle.optimizer.Momentum(0.1).minimize(loss)
    return text_of(static.CompiledProgram(main)._compilation(("x",), (loss.name,)).parse())


def points_of(line: ElementTree.Element) -> list[tuple[float, float]]:
    """Return the points of an edge."""
    pairs = (point.split(",") for point in line.attrib["points"].split())
    return [(float(x), float(y)) for x, y in pairs]


def crosses(a: tuple[float, float], b: tuple[float, float], box: tuple[float, ...]) -> bool:
    """Return whether a line that goes down crosses the inside of a box."""
    left, top, right, bottom = box
    upper, lower = max(a[1], top), min(b[1], bottom)
    if upper >= lower:  # they share a height at most
        return False
    at = [a[0] + (b[0] - a[0]) * (y - a[1]) / (b[1] - a[1]) for y in (upper, lower)]
    return max(at) > left and min(at) < right


PROGRAMS = {"regions": REGIONS, "chain": chain(20), "training": training(12)}


@pytest.mark.parametrize("program", PROGRAMS)
def test_boxes_are_apart(program: str) -> None:
    """Boxes do not overlap, and each edge goes down and around boxes."""
    root = ElementTree.fromstring(to_svg(parse(PROGRAMS[program])))
    found = boxes(root)
    for a, b in combinations(found, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    for line in root.iter(f"{SVG}polyline"):
        for a, b in pairwise(points_of(line)):
            assert a[1] < b[1]
            assert not any(crosses(a, b, box) for box in found)


def test_a_row_is_no_wider_than_a_screen() -> None:
    """The updates of many parameters are in several rows."""
    root = ElementTree.fromstring(to_svg(parse(PROGRAMS["training"])))
    widths: dict[float, list[float]] = {}
    for left, top, right, _ in boxes(root):
        widths.setdefault(top, []).append(right - left)
    assert max(sum(row) + GAP * (len(row) - 1) for row in widths.values()) <= WIDEST
    assert sum(len(row) > 3 for row in widths.values()) > 1


def test_what_is_fed_goes_straight_down() -> None:
    """The path of the feed is straight, past joins and parameters."""
    root = ElementTree.fromstring(to_svg(parse(training(2))))
    middles = {
        words[0]: (left + right) / 2
        for (left, _, right, _), words in zip(boxes(root), texts(root), strict=True)
    }
    line = [middles[name] for name in ("pd.matmul", "pd.relu", "pd.add", "pd.mean")]
    assert max(line) - min(line) < 5


def texts(root: ElementTree.Element) -> list[list[str]]:
    """Return the lines of each box."""
    return [[text.text or "" for text in g.iter(f"{SVG}text")] for g in root.iter(f"{SVG}g")]


def test_state_is_in_the_tooltips() -> None:
    """State has no box: tooltips of the ops that read and write it name it."""
    root = ElementTree.fromstring(to_svg(parse(training(1))))
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    weight = next(w for t in titles for w in t.split() if w.endswith(".w_0"))
    assert any(t.startswith("pd.matmul") and f"reads {weight} [4, 4]" in t for t in titles)
    assert any(t.startswith("pd.momentum") and f"writes {weight} [4, 4]" in t for t in titles)
    assert not any(weight in words for words in texts(root))


@pytest.mark.exhaustive
def test_a_thousand_ops() -> None:
    """The feed may have an edge to every op; 3,000 ops take two seconds."""
    assert to_svg(parse(chain(1000))).count("<rect") == 1002


def frames(root: ElementTree.Element) -> list[tuple[str, tuple[float, ...]]]:
    """Return the label and the sides of each cluster."""
    found: list[tuple[str, tuple[float, ...]]] = []
    for g in root.iter(f"{SVG}g"):
        if g.attrib["class"] == "cluster":
            (title,) = g.iter(f"{SVG}title")
            found += [(title.text or "", box) for box in boxes(g)]
    return found


def contains(outer: tuple[float, ...], inner: tuple[float, ...]) -> bool:
    """Return whether a box contains another."""
    return (
        outer[0] <= inner[0]
        and outer[1] <= inner[1]
        and inner[2] <= outer[2]
        and inner[3] <= outer[3]
    )


def apart(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    """Return whether two boxes have no point in common."""
    return a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]


@pytest.mark.every(2)
@pytest.mark.parametrize("flags", ["", "fuse_bn_act_ops,fuse_bn_add_act_ops"])
def test_clusters_are_those_of_the_report(flags: str, tmp_path: Path) -> None:
    """Each op is in the frames of its layers and blocks only, before and after passes."""
    out = tmp_path / "out.svg"
    given = [str(RESNET), "--emit", "svg", "-o", str(out)]
    passes = ["--build-strategy", flags, "--platform", "none"] if flags else []
    assert opt([*given, *passes]) == 0
    root = ElementTree.fromstring(out.read_text("utf-8"))
    (subject,) = subjects(str(RESNET), [], plain=True)
    context = pass_context_for(strategy_of(flags), "") if flags else PassContext({})
    graph = optimization("r", subject.module.clone, context).stages[-1 if flags else 0].graph
    drawn = frames(root)
    assert {label for label, _ in drawn} == {cluster.label for cluster in graph.clusters}
    for (_, a), (_, b) in combinations(drawn, 2):
        assert contains(a, b) or contains(b, a) or apart(a, b)
    names = Counter(node.result for node in graph.nodes)
    nodes = {f"%{node.result}": node for node in graph.nodes if names[node.result] == 1}
    checked = 0
    for g in root.iter(f"{SVG}g"):
        words = [text.text or "" for text in g.iter(f"{SVG}text")]
        if g.attrib["class"] != "op" or words[-1] not in nodes:
            continue
        (box,) = boxes(g)
        labels, at = set[str](), nodes[words[-1]].cluster
        while at >= 0:
            labels.add(graph.clusters[at].label)
            at = graph.clusters[at].parent
        assert {label for label, frame in drawn if contains(frame, box)} == labels
        assert all(contains(frame, box) or apart(frame, box) for _, frame in drawn)
        checked += 1
    assert checked > 30


def test_a_cluster_that_is_left_and_entered_again() -> None:
    """A cluster that is left and entered again has no rows of its own, and is dissolved."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 4)]
    found = ClusteredRows([(0,), (), (0,), (1,), (1,)], edges, [False] * 5)
    assert found.paths == [(), (), (), (1,), (1,)]
    assert found.rows == [0, 1, 2, 3, 4]


def test_clusters_side_by_side_have_other_rows() -> None:
    """Clusters of two branches are placed one below the other; a side input is above its reader."""
    edges = [(0, 1), (0, 2), (1, 4), (2, 3), (3, 4), (5, 6), (4, 6)]
    paths = [(), (0,), (1,), (1,), (), (), ()]
    hangs = [False] * 5 + [True, False]
    found = ClusteredRows(paths, edges, hangs)
    assert found.paths == paths
    assert found.rows == [0, 1, 2, 3, 4, 4, 5]
