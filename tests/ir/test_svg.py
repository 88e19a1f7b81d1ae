"""Drawings without Graphviz: each op and edge is there, boxes are apart, the text is XML."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree

from graphopt.ir.dialect.svg import to_svg
from graphopt.testing import parse

SVG = "{http://www.w3.org/2000/svg}"
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
    """A program where each op reads the one before it and the feed."""
    lines = [
        f"  %v{i + 1} = pd.add(%v{i}, %v0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>\n"
        for i in range(count)
    ]
    return (
        'func.func @main(%v0: tensor<4xf32> {pd.feed = "x"}) -> (tensor<4xf32> {pd.fetch = "y"}) '
        f"{{\n{''.join(lines)}  func.return %v{count} : tensor<4xf32>\n}}\n"
    )


def boxes(root: ElementTree.Element) -> list[tuple[float, ...]]:
    """Left, top, right and bottom of each box."""
    found = []
    for rect in root.iter(f"{SVG}rect"):
        x, y, w, h = (float(rect.attrib[key]) for key in ("x", "y", "width", "height"))
        found.append((x, y, x + w, y + h))
    return found


def test_ops_and_edges() -> None:
    """Ops of regions too; edges from what regions yield are dashed; a tooltip has the type."""
    text = to_svg(parse(REGIONS))
    root = ElementTree.fromstring(text)
    assert text == to_svg(parse(REGIONS))
    groups = [g.attrib["class"] for g in root.iter(f"{SVG}g")]
    assert (groups.count("op"), groups.count("port")) == (5, 3)
    lines = list(root.iter(f"{SVG}line"))
    assert (len(lines), sum("class" in line.attrib for line in lines)) == (9, 2)
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert any(t.startswith("pd.exp\n%e\n[-1, 4] float32") for t in titles)
    assert "x<&" in [each.text for each in root.iter(f"{SVG}text")]


def test_boxes_are_apart() -> None:
    """No box is on another, and each edge goes down."""
    for program in (REGIONS, chain(20)):
        root = ElementTree.fromstring(to_svg(parse(program)))
        for a, b in combinations(boxes(root), 2):
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        for line in root.iter(f"{SVG}line"):
            assert float(line.attrib["y1"]) < float(line.attrib["y2"])
