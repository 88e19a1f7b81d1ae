"""A module as an SVG drawing, laid out here so that no other program is needed.

The layout is in layers: an op is one row below the lowest of what it reads, a value without
operands is one row above its first reader, and each row is in the order of the mean position of
its neighbours. Edges are straight lines under the boxes. The ops of a region are in the rows
above the op that has it, joined to it by a dashed edge.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.ops.control import Yield
from graphopt.ir.dialect.signature import main_function, signature_of
from graphopt.ir.dialect.types import show

STYLE = """\
svg { background: #fff; font: 12px monospace; }
rect { fill: #eef3fb; stroke: #4a6fa5; } .port rect { fill: #f4f4f4; stroke: #777; }
text { fill: #111; text-anchor: middle; } line { stroke: #888; } .yield { stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
  svg { background: #16181d; } rect { fill: #24324a; stroke: #86a9dd; }
  .port rect { fill: #2b2d33; stroke: #999; } text { fill: #eee; } line { stroke: #777; }
}"""
HEIGHT, ROW, GAP, MARGIN, LETTER, LONGEST = 40, 90, 24, 20, 7.5, 40
SWEEPS = 4


@dataclass
class _Node:
    """A box: its lines of text, its tooltip, and where it is."""

    lines: list[str]
    tooltip: str
    port: bool = False
    rank: int = 0
    x: float = 0.0
    above: list[int] = field(default_factory=list[int])
    below: list[int] = field(default_factory=list[int])

    @property
    def width(self) -> float:
        return max(map(len, self.lines)) * LETTER + 16

    @property
    def y(self) -> int:
        return MARGIN + self.rank * ROW


def to_svg(module: ModuleOp) -> str:
    """The text of a drawing of `@main`; the same module gives the same text."""
    drawing = _Drawing()
    signature, block = signature_of(module), main_function(module).body.block
    for value, port in zip(block.args, signature.arguments, strict=True):
        drawing.node_of[value] = drawing.add([port.name], show(value.type), port=True)
    drawing.block(block)
    for op in block.ops:
        if isinstance(op, ReturnOp):
            for value, port in zip(op.operands, signature.results, strict=True):
                label = f"{port.kind.removeprefix('pd.')} {port.name}"
                drawing.edge(value, drawing.add([label], show(value.type), port=True))
    drawing.place()
    return drawing.text()


class _Drawing:
    """The boxes in the order of the text, and the edges between them."""

    def __init__(self) -> None:
        self.nodes: list[_Node] = []
        self.edges: list[tuple[int, int, str, bool]] = []
        self.node_of: dict[SSAValue, int] = {}

    def add(self, lines: list[str], tooltip: str, *, port: bool = False) -> int:
        short = [_clean(n if len(n) <= LONGEST else n[:LONGEST] + "...") for n in lines]
        self.nodes.append(_Node(short, _clean(tooltip), port))
        return len(self.nodes) - 1

    def edge(self, value: SSAValue, to: int) -> None:
        self.edges.append((self.node_of[value], to, show(value.type), False))

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
                    self.node_of[argument] = self.add([name], show(argument.type), port=True)
                inner += self.block(region.block)
            node = self.add(_lines(op), _tooltip(op))
            for value in op.operands:
                self.edge(value, node)
            self.edges += [(each, node, "what its region yields", True) for each in inner]
            self.node_of |= dict.fromkeys(op.results, node)
            if isinstance(op, Yield):
                yields.append(node)
        return yields

    def place(self) -> None:
        """Give each box a row, and a place in it."""
        for start, end, _, _ in self.edges:
            self.nodes[start].below.append(end)
            self.nodes[end].above.append(start)
        for node in self.nodes:  # boxes are added after what they read
            node.rank = max((self.nodes[i].rank + 1 for i in node.above), default=0)
        for node in self.nodes:
            if not node.above and node.below:
                node.rank = min(self.nodes[i].rank for i in node.below) - 1
        rows: list[list[_Node]] = [
            [] for _ in range(max((n.rank for n in self.nodes), default=-1) + 1)
        ]
        for node in self.nodes:
            rows[node.rank].append(node)
        for row in rows:
            _spread(row)
        for sweep in range(SWEEPS):
            for row in rows if sweep % 2 == 0 else reversed(rows):
                row.sort(key=lambda node: self.middle(node, up=sweep % 2 == 0))
                _spread(row)

    def middle(self, node: _Node, *, up: bool) -> float:
        near = node.above if up else node.below
        return sum(self.nodes[i].x for i in near) / len(near) if near else node.x

    def text(self) -> str:
        left = min((n.x - n.width / 2 for n in self.nodes), default=0) - MARGIN
        right = max((n.x + n.width / 2 for n in self.nodes), default=0) + MARGIN
        bottom = max((n.y for n in self.nodes), default=0) + HEIGHT + MARGIN
        size = f'width="{right - left:.1f}" height="{bottom}"'
        box = f'viewBox="{left:.1f} 0 {right - left:.1f} {bottom}"'
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box}>', f"<style>{STYLE}</style>"]
        for start, end, label, dashed in self.edges:
            a, b = self.nodes[start], self.nodes[end]
            ends = f'x1="{a.x:.1f}" y1="{a.y + HEIGHT}" x2="{b.x:.1f}" y2="{b.y}"'
            kind = ' class="yield"' if dashed else ""
            out.append(f"<line{kind} {ends}><title>{escape(label)}</title></line>")
        for node in self.nodes:
            corner = f'x="{node.x - node.width / 2:.1f}" y="{node.y}"'
            out.append(f'<g class="{"port" if node.port else "op"}">')
            out.append(f"<title>{escape(node.tooltip)}</title>")
            out.append(f'<rect {corner} width="{node.width:.1f}" height="{HEIGHT}" rx="5"/>')
            first = node.y + (24 if len(node.lines) == 1 else 17)
            for index, line in enumerate(node.lines):
                at = f'x="{node.x:.1f}" y="{first + 15 * index}"'
                out.append(f"<text {at}>{escape(line)}</text>")
            out.append("</g>")
        return "\n".join([*out, "</svg>", ""])


def _spread(row: list[_Node]) -> None:
    """Put the boxes of a row side by side, around the middle of the drawing."""
    x = -(sum(node.width for node in row) + GAP * (len(row) - 1)) / 2
    for node in row:
        node.x = x + node.width / 2
        x += node.width + GAP


def _lines(op: Operation) -> list[str]:
    hint = op.results[0].name_hint if op.results else None
    return [op.name, f"%{hint}"] if hint else [op.name]


def _tooltip(op: Operation) -> str:
    """The op, the types of its results and the line of the script."""
    lines = [*_lines(op), *(show(result.type) for result in op.results)]
    if isinstance(op.location, FileLineColLoc):
        lines.append(f"at {op.location.filename.data}:{op.location.line.data}")
    return "\n".join(lines)


def _clean(text: str) -> str:
    """The text without what XML cannot hold."""
    return "".join(c if c == "\n" or c.isprintable() else "?" for c in text)
