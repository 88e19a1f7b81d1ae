"""A module as an SVG drawing, laid out here so that no other program is needed.

Boxes are ops, feeds and fetches, in the rows of `layered_layout.py`; edges go from top to bottom
and around boxes. State is in the tooltips of the ops that read and write it, as are types and the
line of the script. The ops of a region are in the rows above the op that has it, joined to it by a
dashed edge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.layered_layout import Layout, layered
from graphopt.ir.dialect.ops.control import Yield
from graphopt.ir.dialect.signature import FEED, STATE, main_function, signature_of
from graphopt.ir.dialect.types import show

STYLE = """\
svg { background: #fff; font: 12px monospace; }
rect { fill: #eef3fb; stroke: #4a6fa5; } .port rect { fill: #f4f4f4; stroke: #777; rx: 14px; }
text { fill: #111; text-anchor: middle; } polyline { fill: none; stroke: #888; }
.small { font-size: 11px; fill: #555; } .yield { stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
  svg { background: #16181d; } rect { fill: #24324a; stroke: #86a9dd; }
  .port rect { fill: #2b2d33; stroke: #999; } text { fill: #eee; } polyline { stroke: #777; }
  .small { fill: #aab; }
}"""
HEIGHT, ROW, MARGIN, LETTER, LONGEST = 40, 80, 20, 7.5, 40


@dataclass
class _Box:
    """A box: its lines of text, and those of its tooltip."""

    lines: list[str]
    tooltip: list[str]
    port: bool = False

    @property
    def width(self) -> float:
        return max(map(len, self.lines)) * LETTER + 16


@dataclass(frozen=True)
class _Edge:
    start: int
    end: int
    label: str
    dashed: bool = False


def to_svg(module: ModuleOp) -> str:
    """The text of a drawing of `@main`; the same module gives the same text."""
    drawing = _Drawing()
    signature, block = signature_of(module), main_function(module).body.block
    for value, port in zip(block.args, signature.arguments, strict=True):
        if port.kind == STATE:
            drawing.state[value] = f"{port.name} {show(value.type)}"
            continue
        drawing.node_of[value] = drawing.add([port.name], [show(value.type)], port=True)
        if port.kind == FEED:
            drawing.fed.add(drawing.node_of[value])
    drawing.block(block)
    for op in block.ops:
        if not isinstance(op, ReturnOp):
            continue
        for value, port in zip(op.operands, signature.results, strict=True):
            made = drawing.node_of.get(value)
            if port.kind == STATE:
                if made is not None:
                    drawing.boxes[made].tooltip.append(f"writes {port.name} {show(value.type)}")
                continue
            label = f"{port.kind.removeprefix('pd.')} {port.name}"
            drawing.edge(value, drawing.add([label], [show(value.type)], port=True))
    return drawing.text()


@dataclass
class _Drawing:
    """The boxes in the order of the text, and the edges between them."""

    boxes: list[_Box] = field(default_factory=list[_Box])
    edges: list[_Edge] = field(default_factory=list[_Edge])
    node_of: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    state: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    fed: set[int] = field(default_factory=set[int])

    def add(self, lines: list[str], tooltip: list[str], *, port: bool = False) -> int:
        short = [n if len(n) <= LONGEST else n[:LONGEST] + "..." for n in lines]
        self.boxes.append(_Box(short, tooltip, port))
        return len(self.boxes) - 1

    def edge(self, value: SSAValue, to: int) -> None:
        """An edge from what makes a value; state is a line of the tooltip."""
        if value in self.state:
            self.boxes[to].tooltip.append(f"reads {self.state[value]}")
        else:
            self.edges.append(_Edge(self.node_of[value], to, show(value.type)))

    def block(self, block: Block) -> list[int]:
        """Add the ops of a block; the boxes of what it yields."""
        yields: list[int] = []
        for op in block.ops:
            if isinstance(op, ReturnOp):
                continue
            inner: list[int] = []
            for region in op.regions:
                for index, argument in enumerate(region.block.args):
                    name = argument.name_hint or f"argument {index}"
                    node = self.add([name], [show(argument.type)], port=True)
                    self.node_of[argument] = node
                    self.fed.add(node)
                inner += self.block(region.block)
            node = self.add(_lines(op), _tooltip(op))
            for value in op.operands:
                self.edge(value, node)
            self.edges += [_Edge(each, node, "what its region yields", True) for each in inner]
            self.node_of |= dict.fromkeys(op.results, node)
            if isinstance(op, Yield):
                yields.append(node)
        return yields

    def text(self) -> str:
        """The drawing: a style, the edges, then the boxes."""
        layout = layered(
            [box.width for box in self.boxes], [(e.start, e.end) for e in self.edges], self.fed
        )
        left = min((n.x - n.width / 2 for n in layout.nodes), default=0) - MARGIN
        right = max((n.x + n.width / 2 for n in layout.nodes), default=0) + MARGIN
        bottom = max((_top(n.row) for n in layout.nodes), default=0) + HEIGHT + MARGIN
        size = f'width="{right - left:.1f}" height="{bottom}"'
        box = f'viewBox="{left:.1f} 0 {right - left:.1f} {bottom}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box}>',
                f"<style>{STYLE}</style>",
                *self._edges(layout),
                *self._boxes(layout),
                "</svg>",
                "",
            ]
        )

    def _edges(self, layout: Layout) -> Iterator[str]:
        """Each edge, from where it leaves those that were drawn before."""
        nodes, drawn = layout.nodes, set[int]()
        for edge, joints in zip(self.edges, layout.joints, strict=True):
            old = sum(number in drawn for number in joints)
            start, end = nodes[joints[old - 1] if old else edge.start], nodes[edge.end]
            points = [(start.x, _top(start.row) + HEIGHT)]
            drawn.update(joints)
            for joint in (nodes[number] for number in joints[old:]):
                points += [(joint.x, _top(joint.row)), (joint.x, _top(joint.row) + HEIGHT)]
            points.append((end.x, _top(end.row)))
            shown = " ".join(f"{x:.1f},{y}" for x, y in points)
            kind = ' class="yield"' if edge.dashed else ""
            title = f"<title>{_clean(edge.label)}</title>"
            yield f'<polyline{kind} points="{shown}">{title}</polyline>'

    def _boxes(self, layout: Layout) -> Iterator[str]:
        for box, node in zip(self.boxes, layout.nodes[: len(self.boxes)], strict=True):
            top = _top(node.row)
            corner = f'x="{node.x - node.width / 2:.1f}" y="{top}"'
            yield f'<g class="{"port" if box.port else "op"}">'
            yield f"<title>{_clean(chr(10).join(box.tooltip))}</title>"
            yield f'<rect {corner} width="{node.width:.1f}" height="{HEIGHT}" rx="5"/>'
            first = top + (24 if len(box.lines) == 1 else 17)
            for index, line in enumerate(box.lines):
                small = ' class="small"' if index else ""
                at = f'x="{node.x:.1f}" y="{first + 15 * index}"'
                yield f"<text{small} {at}>{_clean(line)}</text>"
            yield "</g>"


def _top(row: int) -> int:
    return MARGIN + row * ROW


def _lines(op: Operation) -> list[str]:
    hint = op.results[0].name_hint if op.results else None
    return [op.name, f"%{hint}"] if hint else [op.name]


def _tooltip(op: Operation) -> list[str]:
    """The op, the types of its results and the line of the script."""
    lines = [*_lines(op), *(show(result.type) for result in op.results)]
    if isinstance(op.location, FileLineColLoc):
        lines.append(f"at {op.location.filename.data}:{op.location.line.data}")
    return lines


def _clean(text: str) -> str:
    """The text as XML holds it."""
    return escape("".join(c if c == "\n" or c.isprintable() else "?" for c in text))
