"""The text of a script, composed from the calls of a program."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count, pairwise
from pathlib import Path

from xdsl.ir import SSAValue

from graphopt.models.export.source.calls import (
    Inner,
    Label,
    Numbered,
    SourceCall,
    free_name,
    show_label,
    with_labels,
)
from graphopt.models.export.source.functions import Loop
from graphopt.models.export.source.program import read_by

WIDTH = 96
_INLINE = 76
"""The longest line into which nested calls are joined."""
_END_OF_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLACE = re.compile(r"\{(\d+)\}")
_FUNCTION = re.compile(r"@(\d+)")
_FIRST = ("x", "y", "z", "a", "b", "c", "d", "e")


def _read_functions() -> dict[str, str]:
    text = Path(__file__).with_name("jax_functions.py").read_text("utf-8")
    nodes = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return {node.name: ast.get_source_segment(text, node) or "" for node in nodes}


JAX_FUNCTIONS: Mapping[str, str] = _read_functions()
"""By name, the functions that a script for JAX may include; JAX is not imported to read them."""

TAKEN = frozenset(
    {
        *("w", "n", "i", "np", "jax", "jnp", "lax", "paddle", "F", "main"),
        *keyword.kwlist,
        *dir(builtins),
        *JAX_FUNCTIONS,
    }
)
"""The names in a script that no value may have."""

_TIGHTEST = 100
_BINDS: Mapping[type[ast.AST], int] = {
    **dict.fromkeys((ast.Tuple, ast.Lambda, ast.IfExp, ast.BoolOp), 0),
    ast.Compare: 30,
    ast.BitOr: 40,
    ast.BitXor: 43,
    ast.BitAnd: 46,
    **dict.fromkeys((ast.LShift, ast.RShift), 50),
    **dict.fromkeys((ast.Add, ast.Sub), 60),
    **dict.fromkeys((ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.MatMult), 70),
    ast.UnaryOp: 80,
    ast.Pow: 90,
}
"""The precedence of Python's operators, loosest first; names and calls bind tightest."""


def _parse(text: str) -> ast.expr:
    return ast.parse(_FUNCTION.sub(r"_function_\1", text).strip(), mode="eval").body


def _binding(node: ast.AST) -> int:
    kind = type(node.op) if isinstance(node, ast.BinOp) else type(node)
    return _BINDS.get(kind, _TIGHTEST)


@cache
def _demands(text: str) -> list[int]:
    """Compute the precedence that each placeholder requires of its text to need no parentheses."""
    number = count()
    tree = _parse(_PLACE.sub(lambda _: f"_place_{next(number)}", text))
    found = dict.fromkeys((f"_place_{at}" for at in range(next(number))), 0)
    for parent in ast.walk(tree):
        own = _binding(parent)
        for name, child in ast.iter_fields(parent):
            for each in child if isinstance(child, list) else [child]:
                if not isinstance(each, ast.Name) or each.id not in found:
                    continue
                if isinstance(parent, ast.BinOp):
                    is_tighter = (name == "left") == isinstance(parent.op, ast.Pow)
                    found[each.id] = own + is_tighter
                elif isinstance(parent, (ast.UnaryOp, ast.Compare)):
                    found[each.id] = own + isinstance(parent, ast.Compare)
                elif name in ("value", "func") and not isinstance(parent, ast.keyword):
                    found[each.id] = _TIGHTEST
    return list(found.values())


@dataclass
class _Pending:
    """An expression that may still be inlined into the next one."""

    call: SourceCall
    text: str
    depth: int


@dataclass
class FunctionText:
    """Writes the lines of one function: names values, and inlines calls into their only reader."""

    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    reserved: frozenset[str] = frozenset()
    indent: str = "    "
    lines: list[str] = field(default_factory=list[str])
    pending: list[_Pending] = field(default_factory=list[_Pending])
    last: Mapping[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    reads: Mapping[SSAValue, int] = field(default_factory=dict[SSAValue, int])
    fixed: set[SSAValue] = field(default_factory=set[SSAValue])

    def write(
        self, calls: Sequence[SourceCall], outputs: Sequence[SSAValue], results: Sequence[str] = ()
    ) -> list[str]:
        """Write the calls, and return the outputs, or texts with placeholders for outputs."""
        last: dict[SSAValue, int] = {}
        reads: dict[SSAValue, int] = {}
        for at, call in enumerate(calls):
            for value in read_by(call):
                last[value], reads[value] = at, reads.get(value, 0) + 1
        for value in outputs:
            last[value], reads[value] = len(calls), reads.get(value, 0) + 1
        self.last, self.reads = last, reads
        self._at = {id(call): at for at, call in enumerate(calls)}
        for at, call in enumerate(calls):
            self._call(at, call)
        given = [f"{{{at}}}" for at in range(len(outputs))] if not results else list(results)
        end = SourceCall(", ".join(given), [], list(outputs))
        text, _ = self._text(len(calls), end)
        self._flush(len(calls))
        self._line(f"return {text}")
        return self.lines

    def _call(self, at: int, call: SourceCall) -> None:
        if isinstance(call, Loop):
            self._flush(at)
            self._loop(at, call)
            return
        functions = [self._function(at, each) for each in call.functions] if call.functions else []
        text, depth = self._text(at, call)
        for number, name in enumerate(functions):
            text = text.replace(f"@{number}", name)
        single = len(call.results) == 1 and self.reads.get(call.results[0], 0) == 1
        if single and not call.functions:
            self.pending.append(_Pending(call, text, depth + 1))
            return
        self._flush(at)
        self._assign(at, call, text)

    def _text(self, at: int, call: SourceCall) -> tuple[str, int]:
        """Format a call with its operands; inline the most recent pending calls."""
        order = [call.operands[int(found[1])] for found in _PLACE.finditer(call.text)]
        waiting = [each.call.results[0] for each in self.pending]
        wanted = [value for value in order if value in waiting]
        inside: list[_Pending] = []
        for many in range(len(wanted), 0, -1):
            tail = self.pending[-many:]
            if [each.call.results[0] for each in tail] == wanted[-many:] and self._fits(call, tail):
                inside = tail
                break
        if inside:
            del self.pending[-len(inside) :]
        self._flush(at)
        ready = {each.call.results[0]: each for each in inside}

        labelled = with_labels(call.text, call.labels)
        demands = iter(_demands(labelled) if inside else ())

        def place(found: re.Match[str]) -> str:
            value, demand = call.operands[int(found[1])], next(demands, 0)
            each = ready.get(value)
            if each is None:
                return self.names[value]
            return f"({each.text})" if _binding(_parse(each.text)) < demand else each.text

        text = _PLACE.sub(place, labelled)
        return text, max((each.depth for each in inside), default=0)

    def _fits(self, call: SourceCall, inside: Sequence[_Pending]) -> bool:
        """True if the calls are still easy to read as one expression."""
        if not call.results:  # the return of a function
            return True
        length = len(call.text) + sum(len(each.text) for each in inside)
        weighted = "**w" in call.text or "(w" in call.text
        return (
            length <= _INLINE
            and all(each.depth < 3 for each in inside)
            and not any(
                ("**w" in each.text and weighted) or re.match(r"\w+\(w[,)]", each.text)
                for each in inside
            )
            and not any(each.call.hint in _SAID and each.call.hint != call.hint for each in inside)
        )

    def _flush(self, at: int) -> None:
        """Write the pending calls as statements."""
        pending, self.pending = self.pending, []
        for each in pending:
            self._assign(at, each.call, each.text)

    def _assign(self, at: int, call: SourceCall, text: str) -> None:
        names = [self._name(at, call, value) for value in call.results]
        targets = ", ".join(names)
        if len(names) == 1 and "while_loop" in text:
            targets = f"[{targets}]" if "paddle" in text else f"({targets},)"
        self._line(f"{targets} = {text}")

    def _name(self, at: int, call: SourceCall, value: SSAValue) -> str:
        """Name a result: reuse the name of an operand that is not read again, or find a new one."""
        if value not in self.reads:
            return "_"
        # `at` is the next call; values that are not read from there on release their names
        hint = call.hint if call.hint in _SAID else ""
        dying = [
            self.names[operand]
            for operand in call.operands
            if operand in self.names
            and operand not in self.fixed
            and self.last.get(operand, -1) <= self._position(call, at)
        ]
        live = self._live(self._position(call, at))
        free = [name for name in dying if name not in live and (hint or name not in _SAID)]
        if free and not hint and len(call.results) == 1:
            name = free[0]
        elif hint and _SAID[hint] in free:
            name = _SAID[hint]
        elif hint:
            name = free_name(_SAID[hint], live | self.reserved | TAKEN)
        else:
            name = self.new_name(live | self.reserved)
        self.names[value] = name
        return name

    def _position(self, call: SourceCall, at: int) -> int:
        return self._at.get(id(call), at)

    _at: dict[int, int] = field(default_factory=dict[int, int])

    def _live(self, at: int) -> set[str]:
        """Collect the names of values that are read after a call."""
        return {
            name
            for value, name in self.names.items()
            if self.last.get(value, -1) > at or value in self.fixed
        }

    def _line(self, text: str) -> None:
        self.lines += wrap_line(f"{self.indent}{text}")

    def _function(self, at: int, inner: Inner) -> str:
        """Write a nested function and return its name."""
        self._flush(at)
        name = free_name(inner.name, set(self.names.values()) | self.reserved | self._own)
        self._own.add(name)
        outer = dict(self.names)
        taken = frozenset({*self.reserved, *outer.values()})
        body = FunctionText(dict(outer), taken, self.indent + "    ", fixed=set(outer))
        parameters: list[str] = []
        for value in inner.parameters:
            body.names[value] = body.new_name(taken | set(parameters))
            parameters.append(body.names[value])
        lines = body.write(inner.calls, inner.operands, inner.results)
        if self.lines and self.lines[-1]:
            self.lines.append("")
        self.lines.append(f"{self.indent}def {name}({', '.join(parameters)}):")
        self.lines += [*lines, ""]
        return name

    _own: set[str] = field(default_factory=set[str])

    def new_name(self, taken: frozenset[str] | set[str]) -> str:
        """Find a name for a value without a hint."""
        return next((n for n in _FIRST if n not in taken), None) or free_name("value", set(taken))

    def _loop(self, at: int, loop: Loop) -> None:
        start = loop.operands[loop.carried]
        name = self.names[start]
        if self.last.get(start, -1) > at or start in self.fixed:
            kept, name = (
                name,
                self._name(at, SourceCall("", loop.results, hint=""), loop.results[0]),
            )
            self._line(f"{name} = {kept}")
        self.names[loop.results[0]] = name
        names = dict(self.names)
        names[start] = name
        head, labels = _turns(loop, self.reserved)
        text = with_labels(loop.text, labels)
        text = _PLACE.sub(lambda found: names[loop.operands[int(found[1])]], text)
        self._line(head)
        self.lines += wrap_line(f"{self.indent}    {name} = {text}")


_SAID = {name: name for name in ("q", "k", "v", "scores", "chosen")}


def _turns(loop: Loop, reserved: frozenset[str]) -> tuple[str, list[Label]]:
    """Format the head of a loop; return it and the call's labels in terms of the loop variable."""
    columns = list(zip(*loop.rows, strict=True))
    steps = [_step(column) for column in columns]
    count = len(loop.rows)
    if not columns:
        return f"for _ in range({count}):", []
    if len(columns) == 1 and steps[0]:
        begin = columns[0][0]
        if isinstance(begin, Numbered):
            end = show_label(Numbered("", begin.parameter, begin.offset + steps[0] * count))
        else:
            end = str(int(begin) + steps[0] * count)
        given = [show_label(begin)] * (begin != 0 or steps[0] != 1) + [end]
        given += [str(steps[0])] * (steps[0] != 1)
        return f"for i in range({', '.join(given)}):", [Numbered("", "i")]
    if all(steps) and not any(isinstance(column[0], Numbered) for column in columns):
        labels = [
            Numbered("", f"{step} * i" if step != 1 else "i", _offset(column[0]))
            for column, step in zip(columns, steps, strict=True)
        ]
        return f"for i in range({count}):", list[Label](labels)
    names = [f"{name}_" if name in reserved else name for name in loop.parameters]
    rows = [", ".join(map(show_label, row)) for row in loop.rows]
    if len(names) == 1:
        return f"for {names[0]} in [{', '.join(rows)}]:", [Numbered("", names[0])]
    given = ", ".join(f"({row})" for row in rows)
    return f"for {', '.join(names)} in [{given}]:", [Numbered("", name) for name in names]


def _step(column: Sequence[Label]) -> int:
    """Compute the constant positive step of numbers; 0 if there is none."""
    if any(isinstance(label, str) for label in column):
        return 0
    if len({label.parameter if isinstance(label, Numbered) else "" for label in column}) > 1:
        return 0
    numbers = [_offset(label) for label in column]
    steps = {b - a for a, b in pairwise(numbers)}
    return steps.pop() if len(steps) == 1 and min(steps) > 0 else 0


def _offset(label: Label) -> int:
    return label.offset if isinstance(label, Numbered) else int(label)


def identifier(name: str) -> str:
    """Convert a name to a Python identifier."""
    made = re.sub(r"\W+", "_", name).strip("_").lower() or "value"
    made = f"_{made}" if made[0].isdigit() else made
    return f"{made}_" if keyword.iskeyword(made) else made


def wrap_line(line: str) -> list[str]:
    """Break a line that is too long at the arguments of its outermost call."""
    if len(line) <= WIDTH:
        return [line]
    begin = line.find("(") + 1 if "(" in line else 0
    if line.lstrip().startswith("for "):
        begin = line.find("[") + 1
    if not begin:
        return [line]
    depth, at, parts, start = 0, begin, list[str](), begin
    while at < len(line):
        char = line[at]
        if char == '"':
            at = _END_OF_TEXT.match(line, at).end() - 1  # pyright: ignore[reportOptionalMemberAccess]
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            if depth == 0:
                break
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(line[start:at].strip())
            start = at + 1
        at += 1
    parts.append(line[start:at].strip())
    indent = " " * (len(line) - len(line.lstrip()))
    if len(parts) < 2:
        return [line]
    inner = f"{indent}    {', '.join(parts)}"
    middle = [inner] if len(inner) <= WIDTH else [f"{indent}    {part}," for part in parts]
    return [line[:begin], *middle, f"{indent}{line[at:]}"]
