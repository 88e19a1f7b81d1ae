"""A module as a Graphviz graph: ops are boxes, feeds, state and fetches are ovals."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from graphopt.ir.signature import main_function, signature_of
from graphopt.ir.types import show


def to_dot(module: ModuleOp) -> str:
    """The text of a directed graph, for `dot -Tsvg`."""
    signature = signature_of(module)
    block = main_function(module).body.block
    lines = ["digraph G {", "  node [shape=box, fontname=monospace];"]
    node_of: dict[SSAValue, str] = {}
    for index, (argument, port) in enumerate(zip(block.args, signature.arguments, strict=True)):
        node_of[argument] = f"in{index}"
        lines.append(f'  in{index} [shape=oval, label="{_escape(port.name)}"];')
    for index, op in enumerate(block.ops):
        if isinstance(op, ReturnOp):
            for position, (value, port) in enumerate(
                zip(op.operands, signature.results, strict=True)
            ):
                label = _escape(f"{port.kind.removeprefix('pd.')} {port.name}")
                lines.append(f'  out{position} [shape=oval, label="{label}"];')
                lines.append(f"  {node_of[value]} -> out{position};")
            continue
        lines.append(f'  op{index} [label="{_escape(op.name)}"];')
        for value in op.operands:
            lines.append(f'  {node_of[value]} -> op{index} [label="{_escape(show(value.type))}"];')
        node_of |= dict.fromkeys(op.results, f"op{index}")
    return "\n".join([*lines, "}", ""])


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
