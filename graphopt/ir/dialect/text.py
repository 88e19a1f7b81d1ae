"""The text of a module: xDSL's, with readable functions.

A function has one argument a line, with its role first: `feed %x: tensor<?x4xf32>`. The variable's
name comes after its role if the value has another name: `state "fc.w" %w: tensor<4x2xf32>`. The
parser here also reads `func.func` as xDSL prints it. xDSL's own parser reads no roles: for it,
print in the generic format.

Printer and parser cache tensor types by their text: a program repeats few types, and building a
type is most of the cost of reading an op.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from io import StringIO
from typing import IO, Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument, Operation, TypeAttribute
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import ParseError

from graphopt.errors import FormatError
from graphopt.ir.dialect.signature import FEED, FETCH, PREPARED, STATE
from graphopt.ir.dialect.types import Tensor

# the keyword of each kind of argument or result
_ROLES = {"feed": FEED, "state": STATE, "prepared": PREPARED, "fetch": FETCH}

# longer lines are broken after commas
WIDTH = 100
# a string, which is never broken, or a place for a line break: after a comma, before `->`
_STRING_OR_BREAK = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|, |\) -> ')

# a tensor of a plain element type, without an encoding
_TENSOR = re.compile(r"tensor<[0-9?x]*[a-z]+[0-9]*>")

# a string without characters to escape
_PLAIN = re.compile(r"[ !#-\[\]-~]*")
_ESCAPED = re.compile(r'["\\]')


@lru_cache(4096)
def type_text(type_: Attribute) -> str:
    """Format a type as xDSL prints it."""
    return str(type_)


class ModulePrinter(Printer):
    """A printer of modules; with `print_types` ops have all their types.

    With `short_signatures` the arguments of a function are on one line, and so are its results.
    """

    def __init__(
        self,
        stream: IO[str] | None = None,
        *,
        print_types: bool = False,
        short_signatures: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(stream, **options)
        self.print_types = print_types
        self.short_signatures = short_signatures

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, TensorType):
            self.print_string(type_text(cast(Tensor, attribute)))
        else:
            super().print_attribute(attribute)

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        # nearly all strings have no line break
        if self.stream is None or "\n" in text:
            super().print_string(text, indent=indent)
        else:
            self._current_column += len(text)
            self.stream.write(text)

    def print_string_literal(self, string: str) -> None:
        if _PLAIN.fullmatch(string) or (string.isprintable() and not _ESCAPED.search(string)):
            self.print_string(f'"{string}"')
            return
        try:
            super().print_string_literal(string)
        except UnicodeEncodeError:
            raise FormatError(
                f"{string!r} has half of a surrogate pair, which no file can hold; give it another "
                "name"
            ) from None

    def print_op(self, op: Operation) -> None:
        if isinstance(op, FuncOp) and not self.print_generic_format and _has_roles(op):
            self._print_function(op)
        else:
            super().print_op(op)

    def _print_function(self, function: FuncOp) -> None:
        self.enter_scope()
        self.print_string(f"{function.name} ")
        if function.sym_visibility:
            self.print_string(f"{function.sym_visibility.data} ")
        self.print_symbol_name(function.sym_name.data)
        arguments, types = function.body.block.args, function.function_type.outputs.data
        self._print_ports(arguments, _entries(function.arg_attrs, len(arguments)))
        self.print_string(" -> ")
        self._print_ports(types, _entries(function.res_attrs, len(types)))
        self.print_op_attributes(function.attributes, print_keyword=True)
        self.print_string(" ")
        self.print_region(function.body, print_entry_block_args=False, print_empty_block=False)
        if self.print_debuginfo:
            self.print_string(" ")
            self.print_attribute(function.location)
        self.exit_scope()

    def _print_ports(
        self,
        ports: Sequence[BlockArgument | Attribute],
        entries: Sequence[Mapping[str, Attribute]],
    ) -> None:
        """Print arguments or result types, one per line where there are several."""
        with self.in_parens():
            if len(ports) < 2 or self.short_signatures:
                self.print_list(
                    zip(ports, entries, strict=True), lambda each: self._print_port(*each)
                )
                return
            with self.indented():
                for position, (port, entry) in enumerate(zip(ports, entries, strict=True)):
                    self.print_string(",\n" if position else "\n")
                    self._print_port(port, entry)
            self._print_new_line()

    def _print_port(self, port: BlockArgument | Attribute, entry: Mapping[str, Attribute]) -> None:
        role, name = _role(entry)
        if role:
            self.print_string(f"{role} ")
            # omit the variable's name if the value has the same one
            if not isinstance(port, BlockArgument):
                self.print_string_literal(name)
                self.print_string(": ")
            elif port.name_hint != name or name in self.ssa_names:
                self.print_string_literal(name)
                self.print_string(" ")
        if isinstance(port, BlockArgument):
            self.print_block_argument(port, print_type=False)
            self.print_string(": ")
        self.print_attribute(port.type if isinstance(port, BlockArgument) else port)
        if len(entry) > bool(role):
            self.print_op_attributes(entry, reserved_attr_names=[_ROLES[role]] if role else ())
        if isinstance(port, BlockArgument) and self.print_debuginfo:
            self.print_string(" ")
            self.print_attribute(port.location)


def _role(entry: Mapping[str, Attribute]) -> tuple[str, str]:
    """Find the role of an argument or a result and its name; empty strings without a role."""
    for role, key in _ROLES.items():
        name = entry.get(key)
        if isinstance(name, StringAttr):
            return role, name.data
    return "", ""


def _entries(
    attrs: ArrayAttr[DictionaryAttr] | None, count: int
) -> Sequence[Mapping[str, Attribute]]:
    """Return the attributes of each argument or result."""
    if attrs is None:
        return [dict[str, Attribute]() for _ in range(count)]
    return [entry.data for entry in attrs]


def _has_roles(function: FuncOp) -> bool:
    """True when an argument or a result of a function with a body has a role."""
    attrs = (*(function.arg_attrs or ()), *(function.res_attrs or ()))
    return bool(function.body.blocks) and any(_role(entry.data)[0] for entry in attrs)


class ModuleParser(Parser):
    """A parser of the text that `ModulePrinter` and xDSL's printer emit."""

    def __init__(self, ctx: Context, input: str | bytes, name: str = "<unknown>") -> None:
        super().__init__(ctx, input, name)
        self._tensors: dict[str, TypeAttribute] = {}
        self._port: dict[str, Attribute] = {}
        """The attributes of the argument or result that is being parsed."""

    def parse_module(self, allow_implicit_module: bool = True) -> ModuleOp:
        """Parse a module.

        Raises ParseError, with the position, for malformed text, and FormatError for regions nested
        too deeply.
        """
        try:
            return super().parse_module(allow_implicit_module)
        except RecursionError:
            raise FormatError(
                f"{self.lexer.input.name}: expected regions nested a few hundred deep at most, "
                f"found more; move inner modules or loops out"
            ) from None

    def parse_optional_type(self) -> TypeAttribute | None:
        start = self.pos
        found = _TENSOR.match(self.lexer.input.content, start)
        if found is None:
            role = self._parse_optional_role()
            if role is None:
                return super().parse_optional_type()
            self._port = {role: StringAttr(self.parse_str_literal())}
            self.parse_punctuation(":")
            return self.parse_type()
        known = self._tensors.get(found[0])
        if known is not None:
            self._resume_from(found.end())
            return known
        read = super().parse_optional_type()
        if read is not None:
            self._tensors[found[0]] = read
        return read

    def _get_op_by_name(self, name: str) -> type[Operation]:
        try:
            return super()._get_op_by_name(name)
        except ParseError as error:
            dialect, _, own = name.rpartition(".")
            names = {op.name.rpartition(".")[2]: op.name for op in self.ctx.loaded_ops}
            near = get_close_matches(own, names, 1, 0.7)
            if not near and dialect:
                raise
            hint = f"did you mean {names[near[0]]}?" if near else "ops of graphopt begin with pd."
            message = f"{error.msg}; {hint}"
            raise ParseError(error.span, message) from None

    def parse_optional_str_literal(self) -> str | None:
        found = super().parse_optional_str_literal()
        if found is not None:
            return found
        # xDSL reads a string with escapes as bytes if it contains more than ASCII
        start = self.pos
        data = self.parse_optional_bytes_literal()
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            self.raise_error("Expected UTF-8 in a string!", start, self.pos)

    # func.func's own parser reads an argument, or a result type, before its attributes

    def parse_optional_argument(self, expect_type: bool = True) -> Any:
        role = self._parse_optional_role()
        if role is None:
            return super().parse_optional_argument(expect_type)
        name = self.parse_optional_str_literal()
        argument = self.parse_argument()
        self._port = {role: StringAttr(argument.name.text[1:] if name is None else name)}
        return argument

    def parse_optional_dictionary_attr_dict(self) -> dict[str, Attribute]:
        port, self._port = self._port, {}
        found = super().parse_optional_dictionary_attr_dict()
        return port | found if port else found

    def _parse_optional_role(self) -> str | None:
        for role, key in _ROLES.items():
            if self.parse_optional_keyword(role) is not None:
                return key
        return None


def text_of(op: Operation, *, print_types: bool = False, short_signatures: bool = False) -> str:
    """Print a module, or any op, to text; the options are the ones of `ModulePrinter`."""
    stream = StringIO()
    ModulePrinter(stream, print_types=print_types, short_signatures=short_signatures).print_op(op)
    return wrap_lines(stream.getvalue())


def wrap_lines(text: str) -> str:
    """Break the long lines of IR text after commas.

    The results of a function stay on one line if they fit on one.
    """
    return "\n".join(
        line if len(line) <= WIDTH else _wrapped_line(line) for line in text.split("\n")
    )


def _wrapped_line(line: str) -> str:
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    arrow = next((each for each in _STRING_OR_BREAK.finditer(line) if each[0] == ") -> "), None)
    if arrow is None or not line.lstrip().startswith("func.func "):
        return _wrap_line(line, indent)
    arguments, results = _wrap_line(line[: arrow.start() + 1], indent), line[arrow.end() - 3 :]
    if len(arguments.rpartition("\n")[2]) + 1 + len(results) <= WIDTH:
        return f"{arguments} {results}"
    return f"{arguments}\n{_wrap_line(indent + results, indent)}"


def _wrap_line(line: str, indent: str) -> str:
    lines = [""]
    for piece in _pieces(line):
        if len(lines[-1]) + len(piece.rstrip()) > WIDTH and lines[-1].strip():
            lines[-1] = lines[-1].rstrip()
            lines.append(indent)
        lines[-1] += piece
    return "\n".join(lines)


def _pieces(line: str) -> Iterator[str]:
    """Split a line after each comma outside of strings."""
    start = 0
    for found in _STRING_OR_BREAK.finditer(line):
        if found[0] == ", ":
            yield line[start : found.end()]
            start = found.end()
    yield line[start:]
