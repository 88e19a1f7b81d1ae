"""A module as an SVG drawing, laid out here so that no other program is needed.

Boxes are ops, feeds and fetches, in the rows of `layered_layout.py`; edges go from top to bottom
and around boxes. State is in the tooltips of the ops that read and write it, as are types and the
line of the script. The ops of a region are in the rows above the op that has it, joined to it by a
dashed edge. Layers and blocks, where the caller names them, are frames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html import escape

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.clustered_rows import Path
from graphopt.ir.dialect.layered_layout import Layout, lay_out
from graphopt.ir.dialect.ops.control import Yield
from graphopt.ir.dialect.signature import FEED, STATE, main_function, signature_of
from graphopt.ir.dialect.types import show

STYLE = """\
svg { background: #fff; font: 12px monospace; }
rect { fill: #eef3fb; stroke: #4a6fa5; } .port rect { fill: #f4f4f4; stroke: #777; rx: 14px; }
text { fill: #111; text-anchor: middle; } polyline { fill: none; stroke: #888; }
.cluster rect { fill: #f7f8fa; stroke: #c3cad6; }
.small { font-size: 11px; fill: #555; } .yield { stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
  svg { background: #16181d; } rect { fill: #24324a; stroke: #86a9dd; }
  .port rect { fill: #2b2d33; stroke: #999; } text { fill: #eee; } polyline { stroke: #777; }
  .small { fill: #aab; } .cluster rect { fill: #1c2028; stroke: #4a5262; }
}
.cluster text { text-anchor: start; }"""
HEIGHT, ROW, MARGIN, LETTER, LONGEST = 40, 80, 20, 7.5, 40
# for frames: the height of a label, and the padding per level of nested frames
LABEL, ROOM = 14, 3
Labels = Callable[[Operation], tuple[str, ...]]


@dataclass
class _Box:
    """A box: the lines of its text and the lines of its tooltip."""

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


@dataclass(frozen=True)
class _Frame:
    """The frame of a cluster."""

    label: str
    left: float
    top: int
    right: float
    bottom: int


def to_svg(module: ModuleOp, labels: Labels | None = None) -> str:
    """Draw `@main` as SVG; the same module gives the same text.

    `labels` returns the labels of the clusters around an op, outermost first.
    """
    drawing = _Drawing(labels)
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
    """The boxes in program order, and the edges between them."""

    labels: Labels | None = None
    boxes: list[_Box] = field(default_factory=list[_Box])
    edges: list[_Edge] = field(default_factory=list[_Edge])
    node_of: dict[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    state: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    fed: set[int] = field(default_factory=set[int])
    paths: list[Path] = field(default_factory=list[Path])
    """The clusters around each box, outermost first."""
    clusters: dict[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int])
    """The number of each cluster, by its labels from the outside."""

    def path(self, op: Operation) -> Path:
        """Return the clusters around an op, outermost first."""
        labels = self.labels(op) if self.labels is not None else ()
        starts = (labels[: depth + 1] for depth in range(len(labels)))
        return tuple(self.clusters.setdefault(start, len(self.clusters)) for start in starts)

    def add(
        self, lines: list[str], tooltip: list[str], *, port: bool = False, path: Path = ()
    ) -> int:
        short = [n if len(n) <= LONGEST else n[:LONGEST] + "..." for n in lines]
        self.boxes.append(_Box(short, tooltip, port))
        self.paths.append(path)
        return len(self.boxes) - 1

    def edge(self, value: SSAValue, to: int) -> None:
        """Add an edge from the producer of a value; for state add a line to the tooltip."""
        if value in self.state:
            self.boxes[to].tooltip.append(f"reads {self.state[value]}")
        else:
            self.edges.append(_Edge(self.node_of[value], to, show(value.type)))

    def block(self, block: Block, around: Path | None = None) -> list[int]:
        """Add the ops of a block; return the boxes of its yields.

        The ops of a region are in the clusters `around` the op with the region.
        """
        yields: list[int] = []
        for op in block.ops:
            if isinstance(op, ReturnOp):
                continue
            inner: list[int] = []
            path = self.path(op) if around is None else around
            for region in op.regions:
                for index, argument in enumerate(region.block.args):
                    name = argument.name_hint or f"argument {index}"
                    node = self.add([name], [show(argument.type)], port=True, path=path)
                    self.node_of[argument] = node
                    self.fed.add(node)
                inner += self.block(region.block, path)
            node = self.add(_lines(op), _tooltip(op), path=path)
            for value in op.operands:
                self.edge(value, node)
            self.edges += [_Edge(each, node, "what its region yields", True) for each in inner]
            self.node_of |= dict.fromkeys(op.results, node)
            if isinstance(op, Yield):
                yields.append(node)
        return yields

    def text(self) -> str:
        """Emit the drawing: a style, frames, edges, then boxes."""
        layout = lay_out(
            [box.width for box in self.boxes],
            [(e.start, e.end) for e in self.edges],
            self.fed,
            self.paths,
        )
        frames = self._frames(layout)
        lefts = [n.x - n.width / 2 for n in layout.nodes] + [frame.left for frame in frames]
        rights = [n.x + n.width / 2 for n in layout.nodes] + [frame.right for frame in frames]
        left, right = min(lefts, default=0) - MARGIN, max(rights, default=0) + MARGIN
        bottom = max((_top(n.row) for n in layout.nodes), default=0) + HEIGHT + MARGIN
        above = -2 * LABEL if frames else 0
        size = f'width="{right - left:.1f}" height="{bottom - above}"'
        box = f'viewBox="{left:.1f} {above} {right - left:.1f} {bottom - above}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} {box}>',
                f"<style>{STYLE}</style>",
                *map(_frame, frames),
                *self._edges(layout),
                *self._boxes(layout),
                "</svg>",
                "",
            ]
        )

    def _frames(self, layout: Layout) -> list[_Frame]:
        """Compute the frames of clusters around their boxes, outermost first."""
        members: dict[int, list[int]] = {}
        deep: dict[int, int] = {}
        for number, path in enumerate(layout.paths):
            for depth, cluster in enumerate(path):
                members.setdefault(cluster, []).append(number)
                deep[cluster] = max(deep.get(cluster, 0), len(path) - depth)
        # add the joints of edges that end in a cluster
        rows = {c: {layout.nodes[n].row for n in inside} for c, inside in members.items()}
        for edge, joints in zip(self.edges, layout.joints, strict=True):
            for cluster in layout.paths[edge.end]:
                members[cluster] += [n for n in joints if layout.nodes[n].row in rows[cluster]]
        label_of = {number: labels[-1] for labels, number in self.clusters.items()}
        found: list[_Frame] = []
        for cluster in sorted(members, key=lambda each: -deep[each]):
            nodes, room = [layout.nodes[n] for n in members[cluster]], deep[cluster] * ROOM
            left = min(node.x - node.width / 2 for node in nodes) - 2 * room
            right = max(node.x + node.width / 2 for node in nodes) + 2 * room
            top = min(_top(node.row) for node in nodes) - deep[cluster] * LABEL - 4
            bottom = max(_top(node.row) for node in nodes) + HEIGHT + room
            found.append(_Frame(label_of[cluster], left, top, right, bottom))
        return found

    def _edges(self, layout: Layout) -> Iterator[str]:
        """Draw each edge from the point where it leaves the edges drawn before."""
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


def _frame(frame: _Frame) -> str:
    """Draw a frame, its label cut to its width, and the whole label as a tooltip."""
    width = frame.right - frame.left
    letters = max(int(width / (LETTER - 0.7)) - 2, 4)
    short = frame.label if len(frame.label) <= letters else f"{frame.label[: letters - 1]}…"
    return (
        f'<g class="cluster"><title>{_clean(frame.label)}</title>'
        f'<rect x="{frame.left:.1f}" y="{frame.top}" width="{width:.1f}" '
        f'height="{frame.bottom - frame.top}" rx="6"/>'
        f'<text class="small" x="{frame.left + 6:.1f}" y="{frame.top + LABEL - 2}">'
        f"{_clean(short)}</text></g>"
    )


def _top(row: int) -> int:
    return MARGIN + row * ROW


def _lines(op: Operation) -> list[str]:
    hint = op.results[0].name_hint if op.results else None
    return [op.name, f"%{hint}"] if hint else [op.name]


def _tooltip(op: Operation) -> list[str]:
    """Compose the tooltip of an op: its text, its result types and its line of the script."""
    lines = [*_lines(op), *(show(result.type) for result in op.results)]
    if isinstance(op.location, FileLineColLoc):
        lines.append(f"at {op.location.filename.data}:{op.location.line.data}")
    return lines


def _clean(text: str) -> str:
    """Escape text for XML; unprintable characters become `?`."""
    shown = "".join(c if c == "\n" or c.isprintable() else "?" for c in text)
    return escape(shown, quote=False)
