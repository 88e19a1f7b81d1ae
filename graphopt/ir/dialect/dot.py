"""A module as a Graphviz graph: ops are boxes, feeds, state and fetches are ovals.

The region of an op is a box around its ops, with ovals for its block arguments.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.differentiated import segment_of
from graphopt.ir.dialect.ops.control import Yield
from graphopt.ir.dialect.signature import Signature, main_function, signature_of
from graphopt.ir.dialect.types import show


def to_dot(module: ModuleOp) -> str:
    """Emit a module as a Graphviz directed graph, for `dot -Tsvg`."""
    return _Graph(signature_of(module)).text(main_function(module).body.block)


class _Graph:
    """The lines so far, and the node of each value."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self.lines: list[str] = []
        # outside of all clusters: an edge inside a cluster would draw both its ends there
        self.edges: list[str] = []
        self.node_of: dict[SSAValue, str] = {}
        self.ops = 0

    def text(self, block: Block) -> str:
        self.lines = ["digraph G {", "  node [shape=box, fontname=monospace];"]
        for index, (argument, port) in enumerate(
            zip(block.args, self.signature.arguments, strict=True)
        ):
            self.node_of[argument] = f"in{index}"
            self.lines.append(f'  in{index} [shape=oval, label="{_escape(port.name)}"];')
        for op in block.ops:
            if isinstance(op, ReturnOp):
                self.fetches(op)
            else:
                self.op(op, "  ")
        return "\n".join([*self.lines, *self.edges, "}", ""])

    def fetches(self, op: ReturnOp) -> None:
        for position, (value, port) in enumerate(
            zip(op.operands, self.signature.results, strict=True)
        ):
            label = _escape(f"{port.kind.removeprefix('pd.')} {port.name}")
            self.lines.append(f'  out{position} [shape=oval, label="{label}"];')
            self.edges.append(f"  {self.node_of[value]} -> out{position};")

    def op(self, op: Operation, indent: str) -> None:
        node = f"op{self.ops}"
        self.ops += 1
        self.lines.append(f'{indent}{node} [label="{_escape(_label(op))}"];')
        for value in op.operands:
            label = _escape(show(value.type))
            self.edges.append(f'  {self.node_of[value]} -> {node} [label="{label}"];')
        for number, region in enumerate(op.regions):
            self.region(region.block, f"{node}_{number}", node, indent)
        self.node_of |= dict.fromkeys(op.results, node)

    def region(self, block: Block, name: str, owner: str, indent: str) -> None:
        """Draw a region as a cluster; its yield has a dashed edge to the op around it."""
        inner = indent + "  "
        self.lines.append(f"{indent}subgraph cluster_{name} {{")
        for index, argument in enumerate(block.args):
            self.node_of[argument] = f"arg{name}_{index}"
            label = _escape(argument.name_hint or f"argument {index}")
            self.lines.append(f'{inner}arg{name}_{index} [shape=oval, label="{label}"];')
        for op in block.ops:
            self.op(op, inner)
            if isinstance(op, Yield):
                self.edges.append(f"  op{self.ops - 1} -> {owner} [style=dashed];")
        self.lines.append(f"{indent}}}")


def _label(op: Operation) -> str:
    """Label an op with its name, its first result's name and its recompute segment."""
    hint = op.results[0].name_hint if op.results else None
    segment = segment_of(op)
    again = "" if segment is None else f"\ncomputed again ({segment})"
    return op.name + (f"\n%{hint}" if hint else "") + again


# dot reads strings of at most 16384 bytes, and longer lines are unreadable
LONGEST = 120


def _escape(text: str) -> str:
    lines = [line if len(line) <= LONGEST else line[:LONGEST] + "..." for line in text.split("\n")]
    shown = ("".join(c if c.isprintable() else "?" for c in line) for line in lines)
    return "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in shown)
