"""Modules as text, and back: xDSL's printer and parser, which remember tensor types by their text.

A program repeats few types at every op, and making a type is most of what reading one op costs.
The text is the same as xDSL's own.
"""

from __future__ import annotations

import re
from functools import lru_cache
from io import StringIO
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Operation, TypeAttribute
from xdsl.parser import Parser
from xdsl.printer import Printer

from graphopt.ir.collector import paused_collector
from graphopt.ir.types import Tensor

# a tensor of a plain element type, without an encoding
_TENSOR = re.compile(r"tensor<[0-9?x]*[a-z]+[0-9]*>")

# a string that has nothing to escape
_PLAIN = re.compile(r"[ !#-\[\]-~]*")


@lru_cache(4096)
def type_text(type_: Attribute) -> str:
    """A type as xDSL prints it."""
    return str(type_)


class ModulePrinter(Printer):
    """A printer that forms the text of each tensor type once."""

    def print_attribute(self, attribute: Attribute) -> None:
        if isinstance(attribute, TensorType):
            self.print_string(type_text(cast(Tensor, attribute)))
        else:
            super().print_attribute(attribute)

    def print_string_literal(self, string: str) -> None:
        if _PLAIN.fullmatch(string):
            self.print_string(f'"{string}"')
        else:
            super().print_string_literal(string)


class ModuleParser(Parser):
    """A parser that reads each tensor type once."""

    def __init__(self, ctx: Context, input: str | bytes, name: str = "<unknown>") -> None:
        super().__init__(ctx, input, name)
        self._tensors: dict[str, TypeAttribute] = {}

    def parse_optional_type(self) -> TypeAttribute | None:
        start = self.pos
        found = _TENSOR.match(self.lexer.input.content, start)
        if found is None:
            return super().parse_optional_type()
        known = self._tensors.get(found[0])
        if known is not None:
            self._resume_from(found.end())
            return known
        read = super().parse_optional_type()
        if read is not None:
            self._tensors[found[0]] = read
        return read


def text_of(op: Operation) -> str:
    """A module, or any op, as text."""
    stream = StringIO()
    ModulePrinter(stream).print_op(op)
    return stream.getvalue()


@paused_collector()
def parse_text(text: str, name: str = "<text>") -> ModuleOp:
    """The module of a text; ParseError, with the position, where it is not well formed."""
    from graphopt.ir.dialect import context

    return ModuleParser(context(), text, name).parse_module()
