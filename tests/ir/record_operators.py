"""Records slots, attributes and defaults of an installed Paddle into `operators.txt`.

Paddle's Python runs it, over all operators or over the types that further arguments name, which may
be new. The columns of other facts stay, and so do attributes that only another release knows:

    PADDLE_PYTHON tests/ir/record_operators.py graphopt/ir/operators/operators.txt [TYPE ...]
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from textwrap import wrap
from typing import Any

WIDTH = 98
# what every operator has
_EVERYWHERE = (
    *("op_role", "op_role_var", "op_namescope", "op_callstack", "op_device", "with_quant_attr"),
)
_KINDS = (
    *("int", "float", "string", "ints", "floats", "strings", "boolean", "booleans", "block"),
    *("long", "blocks", "longs", "float64s", "var", "vars", "float64", "scalar", "scalars"),
)


def joined(text: str) -> list[str]:
    """Split the table into rows, each joined to one line."""
    return text.replace("\n        ", " ").replace("\n    ", " ").splitlines()


def wrapped(row: str) -> str:
    """Wrap a long row, with a line for each column."""
    if len(row) <= WIDTH:
        return row
    head, *columns = row.split(" | ")
    kept: Any = {"break_long_words": False, "break_on_hyphens": False}
    lines = wrap(head, WIDTH, subsequent_indent=" " * 8, **kept)
    for column in columns:
        indents = {"initial_indent": " " * 4, "subsequent_indent": " " * 8}
        lines += wrap(f"| {column}", WIDTH, **indents, **kept)
    return "\n".join(lines)


def main() -> None:
    """Rewrite the table."""
    from paddle.base import core  # pyright: ignore[reportMissingImports]
    from paddle.base.proto import framework_pb2  # pyright: ignore[reportMissingImports]

    file = Path(sys.argv[1])
    rows = {row.split(" ", 1)[0]: row for row in joined(file.read_text("utf-8"))}
    asked = sys.argv[2:] or list(rows)
    rows |= {type: type for type in asked if type not in rows}
    for record in core.get_all_op_protos():
        proto = framework_pb2.OpProto.FromString(bytes(record))
        if proto.type in asked and " | only " not in rows[proto.type]:
            defaults = core.get_op_attrs_default_value(proto.type.encode())
            rows[proto.type] = _recorded(proto, defaults, rows[proto.type])
    file.write_text("".join(wrapped(row) + "\n" for _, row in sorted(rows.items())), "utf-8")


def _recorded(proto: Any, defaults: Any, row: str) -> str:
    """Write the row of a record: its slots and attributes, and the old row's other columns."""
    inputs, outputs = (
        [s.name + "*" * s.duplicable + "?" * (s.dispensable or s.intermediate) for s in slots]
        for slots in (proto.inputs, proto.outputs)
    )
    columns = row.split(" | ")[1:]
    attrs = [_declared(a, defaults) for a in proto.attrs if a.name not in _EVERYWHERE]
    old = next((column.split()[1:] for column in columns if column.startswith("attrs ")), [])
    attrs += [word for word in old if ":" not in word]
    columns = [column for column in columns if not column.startswith("attrs ")]
    columns = ["attrs " + " ".join(attrs)] * bool(attrs) + columns
    return " | ".join([" ".join([f"{proto.type} ", *inputs, "->", *outputs]), *columns])


def _declared(attribute: Any, defaults: Any) -> str:
    declared = f"{attribute.name}:{_KINDS[attribute.type]}"
    if attribute.name not in defaults:
        return declared
    return f"{declared}={_literal(defaults[attribute.name])}"


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(map(_literal, value)) + "]"
    return _shortest(value) if isinstance(value, float) else repr(value)


def _shortest(value: float) -> str:
    """Format a number with the fewest digits that give the same float32, which Paddle stores."""
    stored = struct.pack("f", value)
    for digits in range(1, 10):
        short = float(f"{value:.{digits}g}")
        if struct.pack("f", short) == stored:
            return repr(short)
    return repr(value)


if __name__ == "__main__":
    main()
