"""Read `operators.txt`: each row on first access, each column when it is needed."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

_NUMBERS: Mapping[str, type[float | int | bool]] = {
    **dict.fromkeys(("float", "float64"), float),
    **dict.fromkeys(("int", "long"), int),
    **dict.fromkeys(("boolean", "bool"), bool),
}


class OperatorSignature(NamedTuple):
    """A name that an operator has elsewhere, and the slots of its operands and results there."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    renamed: Mapping[str, str]
    """Attribute name of the signature -> Paddle's name."""


@dataclass(frozen=True)
class OperatorAttribute:
    """An attribute of an operator; `kind` is "" where Paddle 2.6.2 does not know it."""

    kind: str
    stated: str | None
    """The text of the default; None for a required attribute."""

    @cached_property
    def default(self) -> Any:
        """The default as a Python value; None when there is none."""
        return None if self.stated is None else ast.literal_eval(self.stated)

    @property
    def constant(self) -> Any:
        """The default as a value that may be shared: a tuple for a list."""
        found: Any = self.default
        return tuple(cast(list[Any], found)) if isinstance(found, list) else found

    def read(self, value: Any) -> Any:
        """Convert a value to the attribute's kind; ValueError or TypeError for another kind."""
        made = _NUMBERS.get(self.kind or type(self.default).__name__)
        if made is not None:
            return made(value)
        is_list = self.kind.endswith("s") or isinstance(self.default, list)
        if (self.kind or self.stated is not None) and is_list != isinstance(value, list | tuple):
            raise TypeError
        return value


class OperatorRow:
    """One operator of Paddle."""

    def __init__(self, type: str, text: str) -> None:
        self.type = type
        self._text = text

    @cached_property
    def _columns(self) -> Mapping[str, Sequence[str]]:
        """The columns by their first words."""
        found: dict[str, list[str]] = {}
        for column in self._text.split(" | ")[1:]:
            word, _, rest = column.partition(" ")
            found.setdefault(word, []).append(rest)
        return found

    def _words(self, column: str) -> Sequence[str]:
        return [word for text in self._columns.get(column, ()) for word in text.split()]

    @cached_property
    def marked_slots(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The input slots and the output slots, with `*` and `?`."""
        inputs, _, outputs = self._text.partition(" | ")[0].removeprefix(self.type).partition("->")
        return tuple(inputs.split()), tuple(outputs.split())

    @property
    def slots(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The names of the input slots and of the output slots."""
        inputs, outputs = self.marked_slots
        return tuple(s.rstrip("*?") for s in inputs), tuple(s.rstrip("*?") for s in outputs)

    @cached_property
    def attributes(self) -> Mapping[str, OperatorAttribute]:
        """The attributes that a release of Paddle knows."""
        found: dict[str, OperatorAttribute] = {}
        for word in self._words("attrs"):
            declared, equals, default = word.partition("=")
            name, _, kind = declared.partition(":")
            found[name] = OperatorAttribute(kind, default if equals else None)
        return found

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The values of attributes that an operator does not state; lists are tuples."""
        each = self.attributes.items()
        return {name: own.constant for name, own in each if own.stated is not None}

    @cached_property
    def old_names(self) -> Mapping[str, str]:
        """Paddle 1.8's names of attributes -> today's names."""
        return dict(_pair(word) for word in self._words("old"))

    @property
    def op_name(self) -> str:
        """The name of the op of the dialect, "" when there is none."""
        return self._text.partition(" | pd ")[2].split(" ", 1)[0]

    @cached_property
    def pd(self) -> OperatorSignature | None:
        """The op of the dialect; None when a translation composes it of several."""
        found = self._columns.get("pd")
        return None if found is None else self._signature(found[0])

    @cached_property
    def tensors(self) -> Mapping[str, str]:
        """The slots whose tensors give properties of the op of the dialect."""
        return dict(_pair(word) for word in self._words("tensors"))

    @cached_property
    def pir(self) -> Sequence[OperatorSignature]:
        """The operators of PIR that become this one."""
        return [self._signature(text) for text in self._columns.get("pir", ())]

    @cached_property
    def pir_gradients(self) -> Mapping[str, OperatorSignature]:
        """The gradient operators of PIR, by the names of the operators they differentiate."""
        each = [self._signature(text) for text in self._columns.get("grad", ())]
        return {found.name: found for found in each}

    @property
    def derivative(self) -> str:
        """The kind of its derivative: zero, linear, shape or piecewise; "" for any other."""
        return self._columns.get("derivative", [""])[0]

    @cached_property
    def constant(self) -> frozenset[str]:
        """The input slots that get no gradient in Paddle, though the derivative exists."""
        return frozenset(self._words("constant"))

    @property
    def forgets_lengths(self) -> bool:
        """True where the results have the rows of the first input, but not its sequences."""
        return "forgets" in self._columns

    @property
    def version(self) -> int:
        """The version of the operator in Paddle 2.6.2."""
        return int(self._columns.get("version", ["0"])[0])

    @property
    def only(self) -> str:
        """The release that has the operator, "" where Paddle 2.6.2 does."""
        return self._columns.get("only", [""])[0]

    def _signature(self, text: str) -> OperatorSignature:
        name, _, rest = text.partition(" ")
        inputs, outputs = self.slots
        if rest.startswith("("):
            listed, _, rest = rest[1:].partition(")")
            inputs, outputs = (tuple(side.split()) for side in listed.split("->"))
        return OperatorSignature(name, inputs, outputs, dict(_pair(word) for word in rest.split()))


def _pair(word: str) -> tuple[str, str]:
    name, _, other = word.partition("=")
    return name, other


def row_of(type: str) -> OperatorRow:
    """Return the row of an operator; an empty row for a type without one."""
    return operators().get(type) or OperatorRow(type, type)


@cache
def operators() -> Mapping[str, OperatorRow]:
    """Read the rows of all operators, by their types."""
    text = Path(__file__).with_name("operators.txt").read_text("utf-8")
    rows = text.replace("\n        ", " ").replace("\n    ", " ").splitlines()
    return {type: OperatorRow(type, row) for row in rows for type in (row.split(" ", 1)[0],)}
