"""Classes for the messages of a schema, with the methods that Google's protobuf gives them.

A message is a dictionary as in `ir/formats/protobuf`; a class of this module is a view of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, ClassVar, Self

from graphopt.errors import FormatError
from graphopt.ir.formats.protobuf.message import (
    BOOL,
    STRING,
    Enumeration,
    MessageField,
    MessageType,
    RealKind,
    decode,
    encode,
)
from graphopt.ir.formats.protobuf.wire import Limits, WireReader


class Message:
    """A message: its fields are attributes, which have their default while they are not set."""

    KIND: ClassVar[MessageType]
    MEMBERS: ClassVar[dict[str, type[Message]]]

    def __init__(self, **fields: Any) -> None:
        object.__setattr__(self, "_values", {})
        for name, value in fields.items():
            if isinstance(value, (list, tuple)):
                getattr(self, name).extend(value)
            elif name in self.MEMBERS:
                getattr(self, name).CopyFrom(value)
            else:
                setattr(self, name, value)

    def _field(self, name: str) -> MessageField:
        for row in self.KIND.fields:
            if row.name == name:
                return row
        raise AttributeError(f"'{self.KIND.name}' has no field '{name}'")

    def __getattr__(self, name: str) -> Any:
        row = self._field(name)
        values, member = self.__dict__["_values"], self.MEMBERS.get(name)
        if row.repeated:
            items = values.setdefault(name, [])
            return items if member is None else Members(items, member)
        if member is None:
            return values.get(name, _default(row))
        return _view(member, values.setdefault(name, {}))

    def __setattr__(self, name: str, value: Any) -> None:
        row = self._field(name)
        if row.repeated or name in self.MEMBERS:
            raise AttributeError(f"'{self.KIND.name}.{name}' is changed in place, not assigned")
        row.kind.write(f"{self.KIND.name}.{name}", value)
        self.__dict__["_values"][name] = value

    def _message(self) -> dict[str, Any]:
        """Return the fields that are set, without the empty messages that reads created."""
        return _set_fields(self.KIND, self.__dict__["_values"])

    def HasField(self, name: str) -> bool:
        """Return whether a single field is set."""
        if self._field(name).repeated:
            raise ValueError(f"'{self.KIND.name}.{name}' is a list; ask for its length")
        return name in self._message()

    def ClearField(self, name: str) -> None:
        """Reset a field to its default."""
        self._field(name)
        self.__dict__["_values"].pop(name, None)

    def Clear(self) -> None:
        """Reset every field to its default."""
        self.__dict__["_values"].clear()

    def CopyFrom(self, other: Self) -> None:
        """Replace the fields with a copy of another message of the type."""
        values: dict[str, Any] = self.__dict__["_values"]
        copied = deepcopy(other._message())
        values.clear()
        values.update(copied)

    def IsInitialized(self) -> bool:
        """Return whether the required fields are set, also in the nested messages."""
        return _is_complete(self.KIND, self._message())

    def SerializePartialToString(self) -> bytes:
        """Encode the message, complete or not."""
        return encode(self.KIND, self._message())

    def SerializeToString(self) -> bytes:
        """Encode the message; FormatError (ValueError) when a required field is not set."""
        if not self.IsInitialized():
            raise FormatError(f"a {self.KIND.name} lacks a required field")
        return self.SerializePartialToString()

    def ParseFromString(self, data: bytes) -> None:
        """Decode the fields; FormatError (ValueError) when the bytes are no such message.

        Every required field must be present.
        """
        values: dict[str, Any] = self.__dict__["_values"]
        wire = WireReader(bytes(data), self.KIND.name, Limits())
        found = decode(wire, self.KIND, 0, len(data))
        values.clear()
        values.update(found)

    @classmethod
    def FromString(cls, data: bytes) -> Self:
        """Decode a new message from bytes."""
        made = cls()
        made.ParseFromString(data)
        return made

    def ByteSize(self) -> int:
        """Count the bytes of the encoded message."""
        return len(self.SerializePartialToString())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._message() == other._message()

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"{self.KIND.name}({self._message()})"


class Members:
    """The messages of a repeated field."""

    def __init__(self, items: list[Any], kind: type[Message]) -> None:
        self._items, self._kind = items, kind

    def add(self, **fields: Any) -> Message:
        """Append a message and return it."""
        self._items.append({})
        self._items[-1].update(self._kind(**fields)._message())
        return self[-1]

    def extend(self, messages: Iterable[Message]) -> None:
        """Append copies of messages."""
        for message in messages:
            self.append(message)

    def append(self, message: Message) -> None:
        """Append a copy of a message."""
        self.add().CopyFrom(message)

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: int) -> Message:
        return _view(self._kind, self._items[index])

    def __iter__(self) -> Iterator[Message]:
        return (self[index] for index in range(len(self)))


def _view(kind: type[Message], values: dict[str, Any]) -> Message:
    made = kind()
    object.__setattr__(made, "_values", values)
    return made


def _set_fields(kind: MessageType, message: dict[str, Any]) -> dict[str, Any]:
    kinds = {row.name: row for row in kind.fields if isinstance(row.kind, MessageType)}
    found: dict[str, Any] = {}
    for name, value in message.items():
        inner = kinds[name].kind if name in kinds else None
        if isinstance(inner, MessageType):
            parts = [_set_fields(inner, m) for m in (value if kinds[name].repeated else [value])]
            value = parts if kinds[name].repeated else parts[0]
        # convert NumPy arrays and numbers to Python values
        to_list: Any = getattr(value, "tolist", None)
        value = value if to_list is None else to_list()
        if value not in ([], {}):
            found[name] = value
    return found


def _default(row: MessageField) -> Any:
    if row.kind == STRING:
        return ""
    if row.kind == BOOL:
        return False
    if isinstance(row.kind, Enumeration):
        return min(row.kind.meanings)
    return 0.0 if isinstance(row.kind, RealKind) else 0


def _is_complete(kind: MessageType, message: dict[str, Any]) -> bool:
    if any(name not in message for name in kind.required):
        return False
    for row in kind.fields:
        if isinstance(row.kind, MessageType) and row.name in message:
            inner = message[row.name]
            if not all(_is_complete(row.kind, m) for m in (inner if row.repeated else [inner])):
                return False
    return True


_CLASSES: dict[int, type[Message]] = {}


def class_of(kind: MessageType) -> type[Message]:
    """Return the class of a message type, the same one at each call."""
    if id(kind) not in _CLASSES:
        members = {
            row.name: class_of(row.kind) for row in kind.fields if isinstance(row.kind, MessageType)
        }
        body = {"KIND": kind, "MEMBERS": members, "__doc__": f"The message {kind.name}."}
        _CLASSES[id(kind)] = type(kind.name, (Message,), body)
    return _CLASSES[id(kind)]
