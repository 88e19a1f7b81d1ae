"""Encode plain values as pickles that every release of Paddle reads.

Written opcode by opcode: Python's own pickler would name NumPy's modules as the installed NumPy
does, which older releases do not know, and would store arrays of extension types that no release
knows.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import ml_dtypes
import numpy as np

from graphopt.errors import ProgramError
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.quote import kind_of, quote

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_SHORT, _MEDIUM = 1 << 8, 1 << 32
_NESTING = Limits().nesting


class Named:
    """An array that loads as a tensor with a name, in Paddle's dynamic mode."""

    def __init__(self, name: str, array: np.ndarray[Any, Any]) -> None:
        self.name, self.array = name, array


def write_pickle(value: Any, protocol: int = 4) -> Iterator[bytes | memoryview]:
    """Yield the pickle of `value` in pieces; large arrays are not copied.

    `value` consists of dicts, lists, tuples, strings, bytes, numbers, None, arrays and `Named`.
    bfloat16 is stored as uint16, as Paddle does. Raises ProgramError, with the path in `value`, for
    anything else.
    """
    yield bytes((0x80, protocol))
    yield from _value(value, protocol, "", 0)
    yield b"."


def _value(value: Any, protocol: int, path: str, depth: int) -> Iterator[bytes | memoryview]:
    if depth > _NESTING:
        raise ProgramError(f"cannot save{path}: containers nest deeper than {_NESTING}")
    value = _number(value)
    write = next((write for kind, write in _WRITERS.items() if isinstance(value, kind)), None)
    if write is not None:
        yield write(value, protocol)
    elif isinstance(value, np.ndarray):
        yield from _array(cast(np.ndarray[Any, Any], value), protocol, path)
    elif isinstance(value, Named):
        yield _global("tuple", _builtins(protocol)) + _text(value.name)
        yield from _array(value.array, protocol, path)
        yield b"\x86\x85R"
    elif isinstance(value, dict):
        items = cast(dict[Any, Any], value).items()
        yield b"}("
        for key, item in items:
            yield from _value(_key(key, path), protocol, path, depth)
            yield from _value(item, protocol, f"{path}[{quote(key)}]", depth + 1)
        yield b"u"
    elif isinstance(value, list | tuple):
        many = cast(list[Any], value)
        yield b"(" if isinstance(value, tuple) else b"]("
        for index, item in enumerate(many):
            yield from _value(item, protocol, f"{path}[{index}]", depth + 1)
        yield b"t" if isinstance(value, tuple) else b"e"
    else:
        raise ProgramError(
            f"cannot save{path or ' the value'}: a {kind_of(value)} is not supported, only "
            "dicts, lists, tuples, strings, numbers and arrays"
        )


def _number(value: Any) -> Any:
    """Convert a NumPy scalar to a Python number; return other values unchanged."""
    if not _is_scalar(value) or value.dtype.char not in "?bBhHiIlLqQefd":
        return value
    return value.item()


def _is_scalar(value: Any) -> bool:
    return isinstance(value, np.generic)


def _key(key: Any, path: str) -> Any:
    key = _number(key)
    if not isinstance(key, str | int | float | bytes | None):
        raise ProgramError(
            f"cannot save{path or ' the value'}: a key is a {kind_of(key)}, not a string or number"
        )
    return key


def _builtins(protocol: int) -> str:
    return "builtins" if protocol >= 3 else "__builtin__"


def _global(name: str, module: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _text(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    if len(data) >= _MEDIUM:
        return b"\x8d" + struct.pack("<Q", len(data)) + data
    return b"X" + struct.pack("<I", len(data)) + data


def _byte_head(size: int) -> bytes:
    if size < _SHORT:
        return b"C" + struct.pack("<B", size)
    if size < _MEDIUM:
        return b"B" + struct.pack("<I", size)
    return b"\x8e" + struct.pack("<Q", size)


def _bytes(data: bytes, protocol: int) -> bytes:
    if protocol >= 3:
        return _byte_head(len(data)) + data
    # Protocol 2 has no bytes: Python 3 writes them as text, with a call that encodes it.
    return _global("encode", "_codecs") + _text(data.decode("latin1")) + _text("latin1") + b"\x86R"


def _integer(value: int, _: int) -> bytes:
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    size = value.bit_length() // 8 + 1
    if size >= _SHORT:
        raise ProgramError(
            f"cannot save the integer {quote(value)}: {size} bytes exceed the limit of {_SHORT - 1}"
        )
    return b"\x8a" + struct.pack("<B", size) + value.to_bytes(size, "little", signed=True)


# In this order, as a bool is also an int.
_WRITERS: Mapping[type, Callable[[Any, int], bytes]] = {
    type(None): lambda _value, _protocol: b"N",
    bool: lambda value, _: b"\x88" if value else b"\x89",
    int: _integer,
    float: lambda value, _: b"G" + struct.pack(">d", value),
    str: lambda value, _: _text(value),
    bytes: _bytes,
}


def _array(array: np.ndarray[Any, Any], protocol: int, path: str) -> Iterator[bytes | memoryview]:
    """Yield the result of ndarray.__reduce__: a call that creates an empty array, and its state."""
    if array.dtype == _BFLOAT16:
        array = array.view(np.uint16)
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > 16 or array.dtype.char in "gG":
        raise ProgramError(
            f"cannot save{path or ' the value'}: Paddle does not support arrays of {array.dtype}"
        )
    dtype = array.dtype.newbyteorder("<")
    shape = b"".join((b"(", *(_integer(dim, 0) for dim in array.shape), b"t"))
    order = "|" if dtype.itemsize == 1 else "<"
    yield _global("_reconstruct", "numpy.core.multiarray") + _global("ndarray", "numpy")
    yield _integer(0, 0) + b"\x85" + _bytes(b"b", protocol) + b"\x87R("
    yield _integer(1, 0) + shape
    yield _global("dtype", "numpy") + _text(f"{dtype.kind}{dtype.itemsize}") + b"\x89\x88\x87R("
    yield _integer(3, 0) + _text(order) + b"NNN" + _integer(-1, 0) * 2 + _integer(0, 0) + b"tb\x89"
    data = np.ascontiguousarray(array.astype(dtype, copy=False)).reshape(-1).view(np.uint8)
    if protocol >= 3:
        yield _byte_head(data.nbytes)
        yield data.data
    else:
        yield _bytes(data.tobytes(), protocol)
    yield b"tb"
