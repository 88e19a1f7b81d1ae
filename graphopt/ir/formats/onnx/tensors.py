"""Tensors of ONNX files: their element types, and their elements wherever they are stored."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from graphopt.errors import FormatError, LimitError
from graphopt.ir.dtypes import DType
from graphopt.ir.formats.files import path_of_variable
from graphopt.ir.formats.protobuf.message import Message
from graphopt.ir.formats.protobuf.wire import WireReader
from graphopt.ir.formats.quote import quote
from graphopt.ir.translate.onnx.naming import element_type

Array = np.ndarray[Any, Any]

# By dtype, the field of a tensor without raw data, and the field's element type.
_FIELDS = {
    **dict.fromkeys(("float32", "complex64"), ("float_data", np.dtype("<f4"))),
    **dict.fromkeys(("float64", "complex128"), ("double_data", np.dtype("<f8"))),
    "int64": ("int64_data", None),
    **dict.fromkeys(("uint32", "uint64"), ("uint64_data", None)),
}
# The dtypes with several elements in a byte, the first in its lowest bits, by their bits.
_PACKED = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}
# The dtypes that a field stores as the bits of an integer.
_AS_BITS = frozenset(
    (
        *("float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz"),
        *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
    )
)
_LOCATIONS = ("the file", "another file")


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of a file: its type, and where its elements are."""

    wire: WireReader = field(repr=False)
    message: Message = field(repr=False)
    folder: Path | None = field(repr=False)
    name: str
    dtype: DType | str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def byte_count(self) -> int:
        """The bytes that the elements take in a file."""
        if not isinstance(self.dtype, DType):
            return self.size
        return -(-self.size * _PACKED.get(self.dtype, 8 * self.dtype.numpy.itemsize) // 8)

    def error(self, problem: str) -> FormatError:
        """Return the exception, for the caller to raise, for a problem."""
        return FormatError(f"{self.wire.source}: tensor {quote(self.name)}: {problem}")

    def array(self) -> Array:
        """Return the elements as a read-only array; a view on the file if they are raw."""
        dtype = self.dtype
        if not isinstance(dtype, DType):
            raise self.error(f"the elements are {dtype}, which graphopt has no type for")
        if self.message.get("data_location", 0) == 1:
            return _shape_array(self, self._external(self.byte_count), dtype)
        raw = self.message.get("raw_data")
        if raw is not None:
            return _shape_array(self, memoryview(self.wire.data)[slice(*raw)], dtype)
        return self._list_numbers(dtype)

    def numbers(self) -> list[Any]:
        """Return the elements in order, as Python numbers."""
        array = self.array()
        is_plain = isinstance(self.dtype, DType) and self.dtype.is_of_numpy
        return (array if is_plain else array.astype(np.float64)).ravel().tolist()

    def _list_numbers(self, dtype: DType) -> Array:
        """Read the elements from the message field for this type."""
        name, stored = _FIELDS.get(dtype, ("int32_data", None))
        data = self.wire.data
        chunks = [memoryview(data)[start:stop] for start, stop in self.message.get(name, ())]
        content = b"".join(chunks)
        if stored is not None:
            return _shape_array(self, memoryview(content), dtype)
        numbers = unpack_varints(content)
        wanted = self.byte_count if dtype in _PACKED else self.size
        if numbers is None or len(numbers) != wanted:
            found = "damaged numbers" if numbers is None else f"{len(numbers)}"
            raise self.error(f"expected {wanted} numbers in {name}, found {found}")
        if dtype in _PACKED:
            return _unpack_elements(numbers.astype(np.uint8), self, dtype)
        if dtype in _AS_BITS:
            bits = numbers.astype(f"u{dtype.numpy.itemsize}").view(dtype.numpy)
            return _read_only(bits.reshape(self.shape))
        return _read_only(numbers.astype(dtype.numpy).reshape(self.shape))

    def _external(self, size: int) -> memoryview:
        """Read the bytes from another file in the model's folder."""
        told = {e.get("key", ""): e.get("value", "") for e in self.message.get("external_data", ())}
        if self.folder is None:
            raise self.error(
                "the numbers are in another file, and the folder of the model is unknown"
            )
        path = path_of_variable(self.folder, told.get("location", ""))
        offset = self._number(told, "offset", 0)
        length = self._number(told, "length", size)
        if length != size:
            raise self.error(f"expected {size} bytes in {quote(path.name)}, found {length}")
        if not path.is_file():
            raise self.error(f"the numbers are in the file {path}, which does not exist")
        there = path.stat().st_size
        if offset + length > there:
            raise self.error(
                f"expected bytes {offset}..{offset + length} of {path}, found a file of {there} "
                "bytes"
            )
        with path.open("rb") as file:
            file.seek(offset)
            return memoryview(file.read(length))

    def _number(self, told: dict[str, str], key: str, default: int) -> int:
        text = told.get(key, "")
        if not text:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise self.error(f"expected {key} to be a number of bytes, found {quote(text)}")
        return int(text)


def stored_tensor(wire: WireReader, message: Message, folder: Path | None) -> StoredTensor:
    """Convert a message to a tensor and check its sizes; the elements are read on use."""
    name, dims = message.get("name", ""), tuple(message.get("dims", ()))
    dtype = element_type(message.get("data_type", 0))
    made = StoredTensor(wire, message, folder, name, dtype, dims)
    limits = wire.limits
    if any(dim < 0 for dim in dims):
        raise made.error(f"expected sizes of 0 or more, found {quote(list(dims))}")
    if len(dims) > limits.rank:
        raise LimitError(
            f"{wire.source}: tensor {quote(name)}: expected at most {limits.rank} dimensions, "
            f"found {len(dims)}"
        )
    width = dtype.numpy.itemsize if isinstance(dtype, DType) else 1
    if math.prod(dims) * width > limits.tensor_bytes:
        raise LimitError(
            f"{wire.source}: tensor {quote(name)}: expected at most {limits.tensor_bytes} bytes, "
            f"found the sizes {quote(list(dims))}"
        )
    location = message.get("data_location", 0)
    if location not in range(len(_LOCATIONS)):
        raise made.error(f"expected data_location {' or '.join(_LOCATIONS)}, found {location}")
    if "segment" in message:
        raise made.error("segments of tensors are not supported")
    return made


def _shape_array(tensor: StoredTensor, content: memoryview, dtype: DType) -> Array:
    wanted = tensor.byte_count
    if content.nbytes != wanted:
        raise tensor.error(
            f"expected {wanted} bytes for {dtype} {list(tensor.shape)}, found {content.nbytes}"
        )
    if dtype == "bool":  # a byte other than 0 and 1 would be an invalid bool
        return _read_only(np.frombuffer(content, np.uint8).astype(bool).reshape(tensor.shape))
    if dtype in _PACKED:
        return _unpack_elements(np.frombuffer(content, np.uint8), tensor, dtype)
    little = dtype.numpy.newbyteorder("<") if dtype.is_of_numpy else dtype.numpy
    return _read_only(np.frombuffer(content, little).reshape(tensor.shape))


def _unpack_elements(content: Array, tensor: StoredTensor, dtype: DType) -> Array:
    """Unpack bytes that hold several elements each; the last byte may hold fewer."""
    bits = _PACKED[dtype]
    places = np.arange(0, 8, bits).astype(np.uint8)
    parts: Array = (content[:, None] >> places & np.uint8(2**bits - 1)).ravel()[: tensor.size]
    if dtype == "float4_e2m1fn":
        return _read_only(parts.view(dtype.numpy).reshape(tensor.shape))
    return _read_only(parts.astype(dtype.numpy).reshape(tensor.shape))


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def unpack_varints(content: bytes) -> Array | None:
    """Decode packed varints to int64; None where one is too long or the last has no end.

    Vectorized: each byte adds its seven bits to the number that it belongs to.
    """
    data = np.frombuffer(content, np.uint8)
    if not data.size:
        return np.zeros(0, np.int64)
    ends = np.flatnonzero(data < 0x80)
    if not ends.size or ends[-1] != data.size - 1:
        return None
    starts = np.concatenate(([0], ends[:-1] + 1))
    if (ends - starts).max() >= 10:
        return None
    places = np.arange(data.size) - np.repeat(starts, ends - starts + 1)
    parts = (data & np.uint8(0x7F)).astype(np.uint64) << (7 * places).astype(np.uint64)
    return np.bitwise_or.reduceat(parts, starts).view(np.int64)
