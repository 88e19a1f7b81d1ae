"""Protobuf messages as dictionaries, decoded and encoded by a table of fields.

A `MessageType` lists its fields once and serves both directions. The message types are in
`schema.py`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from graphopt.errors import ProgramError
from graphopt.ir.formats.protobuf.wire import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    WireReader,
    tag_bytes,
    varint_bytes,
)

# Field values by field name; an absent field has no key. Fields missing in the table are kept under
# UNKNOWN, as their original bytes.
Message: TypeAlias = dict[str, Any]
UNKNOWN = "?"

# Reads the message between two positions, instead of `decode`.
SpanReader: TypeAlias = Callable[[int, int], Any]


class WireKind(Protocol):
    """The encoding of a field's values."""

    @property
    def name(self) -> str:
        """The name of the kind in errors."""
        ...

    @property
    def wire_type(self) -> int:
        """The wire type of one value."""
        ...

    def read(self, wire: WireReader, label: str, offset: int, value: int, stop: int) -> Any:
        """Decode the field `label` at `offset`; `value` is as in `WireReader.record`."""
        ...

    def write(self, label: str, value: Any) -> bytes:
        """Encode the bytes after the tag; raise ProgramError when the value does not fit."""
        ...


@dataclass(frozen=True)
class Integer:
    """A varint in `low`..`high`; negative numbers are sign-extended to 64 bits."""

    name: str
    low: int
    high: int
    wire_type = VARINT

    def read(self, wire: WireReader, label: str, offset: int, value: int, stop: int) -> int:
        number = value - (1 << 64) if value >> 63 else value
        if not self.low <= number <= self.high:
            raise wire.error(offset, f"expected {label} to be an {self.name}, found {number}")
        return number

    def write(self, label: str, value: Any) -> bytes:
        if not isinstance(value, int) or not self.low <= value <= self.high:
            raise ProgramError(f"{label} must be an {self.name}, got {value!r}")
        return varint_bytes(value)


@dataclass(frozen=True)
class Enumeration:
    """A varint that must be one of the numbers that have a meaning."""

    name: str
    meanings: Mapping[int, str]
    wire_type = VARINT

    def read(self, wire: WireReader, label: str, offset: int, value: int, stop: int) -> int:
        if value not in self.meanings:
            raise wire.error(offset, f"expected {label} to be {self._choices()}, found {value}")
        return value

    def write(self, label: str, value: Any) -> bytes:
        if value not in self.meanings:
            raise ProgramError(f"{label} must be {self._choices()}, got {value!r}")
        return varint_bytes(value)

    def _choices(self) -> str:
        choices = ", ".join(f"{number} {word}" for number, word in self.meanings.items())
        return f"{self.name} ({choices})"


@dataclass(frozen=True)
class Boolean:
    """A varint that is 0 or 1."""

    name: str = "boolean"
    wire_type = VARINT

    def read(self, wire: WireReader, label: str, offset: int, value: int, stop: int) -> bool:
        if value > 1:
            raise wire.error(offset, f"expected {label} to be 0 or 1, found {value}")
        return bool(value)

    def write(self, label: str, value: Any) -> bytes:
        return b"\1" if value else b"\0"


@dataclass(frozen=True)
class RealKind:
    """A little-endian IEEE number; `layout` is its `struct` format."""

    name: str
    layout: str
    wire_type: int

    def read(self, wire: WireReader, label: str, offset: int, value: int, stop: int) -> float:
        return struct.unpack_from(self.layout, wire.data, value)[0]

    def write(self, label: str, value: Any) -> bytes:
        try:
            return struct.pack(self.layout, value)
        except (struct.error, OverflowError):
            raise ProgramError(f"{label} must be a {self.name}, got {value!r}") from None


@dataclass(frozen=True)
class Text:
    """A string; bytes that are not UTF-8 survive as surrogate escapes."""

    name: str = "string"
    wire_type = LENGTH

    def read(self, wire: WireReader, label: str, offset: int, value: int, stop: int) -> str:
        return wire.data[value:stop].decode("utf-8", "surrogateescape")

    def write(self, label: str, value: Any) -> bytes:
        if not isinstance(value, str):
            raise ProgramError(f"{label} must be a string, got {value!r}")
        return _with_length(value.encode("utf-8", "surrogateescape"))


@dataclass(frozen=True)
class MessageField:
    """One row of the table: the number, name and kind of a field of a message."""

    number: int
    name: str
    kind: WireKind
    repeated: bool = False
    required: bool = False
    tag: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tag", tag_bytes(self.number, self.kind.wire_type))


@dataclass(frozen=True)
class MessageType:
    """A message: its name and its fields in number order."""

    name: str
    fields: tuple[MessageField, ...]
    by_number: dict[int, MessageField] = field(init=False, repr=False)
    required: tuple[str, ...] = field(init=False, repr=False)
    wire_type = LENGTH

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_number", {row.number: row for row in self.fields})
        object.__setattr__(self, "required", tuple(r.name for r in self.fields if r.required))

    def read(self, wire: WireReader, label: str, offset: int, value: int, stop: int) -> Message:
        return decode(wire, self, value, stop)

    def write(self, label: str, value: Any) -> bytes:
        return _with_length(value if isinstance(value, bytes) else encode(self, value))


INT32 = Integer("int32", -(1 << 31), (1 << 31) - 1)
INT64 = Integer("int64", -(1 << 63), (1 << 63) - 1)
BOOL = Boolean()
FLOAT = RealKind("float", "<f", FIXED32)
DOUBLE = RealKind("double", "<d", FIXED64)
STRING = Text()

_WIRE_NAMES = {VARINT: "a varint", FIXED32: "4 bytes", FIXED64: "8 bytes", LENGTH: "a length"}


def decode(
    wire: WireReader,
    kind: MessageType,
    start: int,
    stop: int,
    each: Mapping[str, SpanReader] | None = None,
) -> Message:
    """Decode the message in bytes `start`..`stop`.

    `each` names message fields that the caller decodes itself. Raises FormatError when the bytes
    break the wire format, a field has another type than in the table, a required field is missing,
    or a singular field comes twice.
    """
    wire.count_message(start)
    message: Message = {}
    position = start
    while position < stop:
        offset = position
        number, wire_type, value, position = wire.record(offset, stop)
        row = kind.by_number.get(number)
        if row is None:
            message.setdefault(UNKNOWN, bytearray()).extend(wire.data[offset:position])
        elif each and row.name in each and wire_type == LENGTH:
            _store(wire, kind, row, message, offset, each[row.name](value, position))
        elif wire_type == row.kind.wire_type:
            label = f"{kind.name}.{row.name}"
            item = row.kind.read(wire, label, offset, value, position)
            _store(wire, kind, row, message, offset, item)
        else:
            items = _unpack(wire, kind, row, offset, wire_type, value, position)
            message.setdefault(row.name, []).extend(items)
    for name in kind.required:
        if name not in message:
            raise wire.error(start, f"expected {kind.name} to have a '{name}', found none")
    return message


def _store(
    wire: WireReader, kind: MessageType, row: MessageField, message: Message, offset: int, item: Any
) -> None:
    if row.repeated:
        message.setdefault(row.name, []).append(item)
    elif row.name in message:
        raise wire.error(offset, f"expected {kind.name}.{row.name} once, found it again")
    else:
        message[row.name] = item


def _unpack(
    wire: WireReader,
    kind: MessageType,
    row: MessageField,
    offset: int,
    wire_type: int,
    start: int,
    stop: int,
) -> list[Any]:
    """Decode a packed field: one length-delimited record with all numbers."""
    label = f"{kind.name}.{row.name}"
    if wire_type != LENGTH or not row.repeated:
        expected, found = _WIRE_NAMES[row.kind.wire_type], _WIRE_NAMES[wire_type]
        raise wire.error(offset, f"expected {label} to be {expected}, found {found}")
    items: list[Any] = []
    size = {FIXED32: 4, FIXED64: 8}.get(row.kind.wire_type)
    position = start
    while position < stop:
        at = value = position
        if size is None:
            value, position = wire.varint(at, stop)
        else:
            position += size
        if position > stop:
            raise wire.error(at, f"expected {size} bytes of {label}, found {stop - at}")
        items.append(row.kind.read(wire, label, at, value, position))
    return items


def encode(kind: MessageType, message: Message) -> bytes:
    """Encode a message: fields in number order, repeated numbers unpacked, as Paddle writes.

    Sub-messages may be bytes that are already encoded. Raises ProgramError for a value that its
    field cannot hold.
    """
    out = bytearray()
    for row in kind.fields:
        value = message.get(row.name)
        if value is None:
            continue
        label = f"{kind.name}.{row.name}"
        for item in value if row.repeated else (value,):
            out += row.tag
            out += row.kind.write(label, item)
    out += message.get(UNKNOWN, b"")
    return bytes(out)


def _with_length(body: bytes) -> bytes:
    return varint_bytes(len(body)) + body
