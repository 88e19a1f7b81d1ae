"""Protobuf's wire format: varints, tags and lengths, with exact byte offsets in every error.

This layer knows nothing about messages or fields; `message.py` puts a schema on top of it.
"""

from __future__ import annotations

from graphopt.errors import FormatError, LimitError
from graphopt.ir.formats.limits import Limits

VARINT = 0
FIXED64 = 1
LENGTH = 2
FIXED32 = 5

_FIXED_SIZE = {FIXED64: 8, FIXED32: 4}
_WORD = 1 << 64
_GROUPS = (3, 4)


class WireReader:
    """The bytes of one file, read by position; positions are offsets in that file.

    `source` names the file in errors. The same reader serves every message of the file, so that
    the limits count over the whole of it.
    """

    def __init__(self, data: bytes, source: str, limits: Limits) -> None:
        self.data = data
        self.source = source
        self.limits = limits
        self._messages = 0

    def error(self, offset: int, problem: str) -> FormatError:
        """Return the exception, for the caller to raise, for a problem at a byte offset."""
        return FormatError(f"{self.source}: byte {offset}: {problem}")

    def over_limit(self, offset: int, problem: str) -> LimitError:
        """Return the exception for a limit that the file exceeds at a byte offset."""
        return LimitError(f"{self.source}: byte {offset}: {problem}")

    def count_message(self, offset: int) -> None:
        """Count one message against the limit."""
        self._messages += 1
        if self._messages > self.limits.messages:
            raise self.over_limit(
                offset, f"expected at most {self.limits.messages} messages, found more"
            )

    def varint(self, position: int, stop: int) -> tuple[int, int]:
        """Decode the unsigned number at `position`; return it and the position after it."""
        data = self.data
        if position < stop and data[position] < 0x80:
            return data[position], position + 1
        value = shift = 0
        for at in range(position, min(stop, position + 10)):
            byte = data[at]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= _WORD:
                    raise self.error(position, f"expected a varint below 2^64, found {value}")
                return value, at + 1
            shift += 7
        if stop - position < 10:
            raise self.error(
                position, f"expected a complete varint, but the message ends at byte {stop}"
            )
        raise self.error(position, "expected a varint of at most ten bytes, found a longer one")

    def record(self, position: int, stop: int) -> tuple[int, int, int, int]:
        """Decode one field: (field number, wire type, value, position after it).

        The value is the number itself for `VARINT`, else the position where the field's bytes
        begin. Groups, which Paddle never wrote, are refused.
        """
        tag, body = self.varint(position, stop)
        number, wire_type = tag >> 3, tag & 7
        if number == 0 or number >= 1 << 29:
            raise self.error(position, f"expected a field number in 1..2^29-1, found {number}")
        if wire_type == VARINT:
            value, end = self.varint(body, stop)
            return number, wire_type, value, end
        if wire_type == LENGTH:
            length, body = self.varint(body, stop)
        elif wire_type in _FIXED_SIZE:
            length = _FIXED_SIZE[wire_type]
        else:
            what = "a deprecated group" if wire_type in _GROUPS else f"wire type {wire_type}"
            raise self.error(position, f"expected a varint, fixed or length field, found {what}")
        if length > stop - body:
            raise self.error(
                position,
                f"expected field {number} to end inside its message, found a length of {length} "
                f"with {stop - body} bytes left: the file was cut off or damaged",
            )
        return number, wire_type, body, body + length


def varint_bytes(value: int) -> bytes:
    """Encode a number in -2^63..2^64-1 as a varint (ten bytes when negative, as in protobuf)."""
    if 0 <= value < 0x80:
        return _ONE_BYTE[value]
    value &= _WORD - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag_bytes(number: int, wire_type: int) -> bytes:
    """Encode the tag that precedes a field's value."""
    return varint_bytes(number << 3 | wire_type)


_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))
