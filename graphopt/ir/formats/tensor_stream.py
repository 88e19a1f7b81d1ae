"""One stored tensor: convert Paddle's tensor stream to an array and back.

A stream has a shape and an element type but no name; the names in a parameter file, and their
order, come from the program (`parameters.py`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from graphopt.errors import ProgramError, UnsupportedError
from graphopt.ir.dtypes import NUMBERED, as_dtype
from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.protobuf.message import decode, encode
from graphopt.ir.formats.protobuf.schema import ELEMENT_TYPE, TENSOR
from graphopt.ir.formats.protobuf.wire import WireReader

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Lod: TypeAlias = tuple[tuple[int, ...], ...]

_U32, _I32, _U64, _I64 = (struct.Struct(layout) for layout in ("<I", "<i", "<Q", "<q"))
_DTYPES = {dtype.code: dtype for dtype in NUMBERED}


class SavedTensor(NamedTuple):
    """A stored tensor and its levels of sequence offsets, outermost first.

    Each level starts at 0 and never decreases; the last one ends at `array.shape[0]`.
    """

    array: Array
    lod: Lod = ()


class SavedRows(NamedTuple):
    """Stored selected rows: `array[i]` is row `rows[i]` of a matrix that has `height` rows."""

    array: Array
    rows: tuple[int, ...]
    height: int


def read_tensor(
    data: bytes, offset: int = 0, source: str = "<tensor>", limits: Limits | None = None
) -> tuple[SavedTensor, int]:
    """Read the tensor whose stream begins at `offset`; return it and the offset after it.

    The array is a read-only view on `data` (not always aligned). Raises FormatError with the byte
    offset for a stream that is malformed or cut, LimitError for a stream that claims more than
    `limits` allow, UnsupportedError for an element type without an array type.
    """
    stream = _Stream(data, offset, source, limits or Limits())
    stream.zero("version")
    levels_at = stream.position
    lod = stream.lod()
    array = stream.array()
    rows = array.shape[0] if array.ndim else 0
    if lod and lod[-1][-1] != rows:
        raise stream.wire.error(
            levels_at,
            f"expected the LoD to end at the number of rows, {rows}, found {lod[-1][-1]}",
        )
    return SavedTensor(array, lod), stream.position


def read_selected_rows(
    data: bytes, offset: int = 0, source: str = "<tensor>", limits: Limits | None = None
) -> tuple[SavedRows, int]:
    """Read, as `read_tensor`, a variable that the program declares to be selected rows."""
    stream = _Stream(data, offset, source, limits or Limits())
    stream.zero("version")
    count_at = stream.position
    count = stream.number(_U64, "the number of rows")
    rows = stream.integers(count_at, count * 8, "<i8")
    height = stream.number(_I64, "the height")
    array = stream.array()
    if array.shape[:1] != (count,):
        raise stream.wire.error(
            count_at, f"expected {count} rows of data, found shape {list(array.shape)}"
        )
    if any(not 0 <= row < height for row in rows):
        raise stream.wire.error(count_at, f"expected row numbers in 0..{height - 1}")
    return SavedRows(array, rows, height), stream.position


class _Stream:
    """A position in the bytes of a parameter file."""

    def __init__(self, data: bytes, position: int, source: str, limits: Limits) -> None:
        self.wire = WireReader(data, source, limits)
        self.position = position

    def number(self, layout: struct.Struct, what: str) -> int:
        self._require(self.position, layout.size, what)
        (value,) = layout.unpack_from(self.wire.data, self.position)
        self.position += layout.size
        return value

    def zero(self, what: str) -> None:
        at = self.position
        if value := self.number(_U32, what):
            raise self.wire.error(at, f"expected {what} 0, found {value}")

    def _require(self, offset: int, size: int, what: str) -> None:
        left = len(self.wire.data) - self.position
        if size > left:
            raise self.wire.error(offset, f"expected {size} bytes of {what}, found {left}")

    def integers(self, offset: int, size: int, layout: str) -> tuple[int, ...]:
        """Read `size` bytes as 64-bit numbers; `offset` is the position of the size in the file."""
        self._require(offset, size, "64-bit numbers")
        view = np.ndarray((size // 8,), layout, self.wire.data, self.position)
        self.position += size
        return tuple(view.tolist())

    def lod(self) -> Lod:
        at = self.position
        count = self.number(_U64, "the number of LoD levels")
        if count > self.wire.limits.lod_levels:
            raise self.wire.over_limit(
                at, f"expected at most {self.wire.limits.lod_levels} LoD levels, found {count}"
            )
        return tuple(self._lod_level() for _ in range(count))

    def _lod_level(self) -> tuple[int, ...]:
        at = self.position
        size = self.number(_U64, "the size of a LoD level")
        if size % 8 or not size:
            raise self.wire.error(at, f"expected a LoD level of 8, 16, 24 ... bytes, found {size}")
        offsets = self.integers(at, size, "<u8")
        if offsets[0] or any(left > right for left, right in pairwise(offsets)):
            raise self.wire.error(at, "expected LoD offsets that start at 0 and never decrease")
        return offsets

    def array(self) -> Array:
        """Read the tensor itself: version, descriptor, data."""
        self.zero("tensor version")
        at = self.position
        size = self.number(_I32, "the size of the tensor's description")
        if size < 0:
            raise self.wire.error(at, f"expected a description of 0 or more bytes, found {size}")
        self._require(at, size, "the tensor's description")
        start, self.position = self.position, self.position + size
        message = decode(self.wire, TENSOR, start, self.position)
        return self._view(at, message["data_type"], tuple(message.get("dims", ())))

    def _view(self, at: int, code: int, shape: tuple[int, ...]) -> Array:
        limits = self.wire.limits
        if len(shape) > limits.rank:
            raise self.wire.over_limit(
                at, f"expected at most {limits.rank} dimensions, found {len(shape)}"
            )
        if any(dim < 0 for dim in shape):
            raise self.wire.error(at, f"expected dimensions of 0 or more, found {list(shape)}")
        if code not in _DTYPES:
            raise UnsupportedError(
                f"{self.wire.source}: byte {at}: the tensor has element type "
                f"{ELEMENT_TYPE.meanings[code]}, which graphopt does not support; cast the tensor "
                "before saving"
            )
        dtype = _DTYPES[code].numpy
        # Empty tensors may have dimensions too large for any array, so 0 counts as 1 here.
        claim = math.prod(max(dim, 1) for dim in shape) * dtype.itemsize
        if claim > limits.tensor_bytes:
            raise self.wire.over_limit(
                at,
                f"expected at most {limits.tensor_bytes} bytes of data, found shape {list(shape)}",
            )
        size = math.prod(shape) * dtype.itemsize
        self._require(self.position, size, f"data for shape {list(shape)}")
        start, self.position = self.position, self.position + size
        if dtype == np.bool_:
            self._check_booleans(start, size)
        return np.ndarray(shape, dtype, self.wire.data, start if size else 0)

    def _check_booleans(self, start: int, size: int) -> None:
        values = np.ndarray((size,), np.uint8, self.wire.data, start if size else 0)
        wrong = np.flatnonzero(values > 1)
        if wrong.size:
            at = start + int(wrong[0])
            raise self.wire.error(at, f"expected a boolean, 0 or 1, found {self.wire.data[at]}")


def write_tensor(array: Array, lod: Sequence[Sequence[int]] = ()) -> bytes:
    """Encode an array as a tensor stream; raise ProgramError if Paddle lacks its element type."""
    parts = [_U32.pack(0), _U64.pack(len(lod))]
    for level in lod:
        parts += [_U64.pack(len(level) * 8), np.asarray(level, "<u8").tobytes()]
    return b"".join([*parts, _tensor_bytes(array)])


def write_selected_rows(tensor: SavedRows) -> bytes:
    """Encode selected rows as a stream."""
    rows = np.asarray(tensor.rows, "<i8").tobytes()
    head = _U32.pack(0) + _U64.pack(len(tensor.rows)) + rows + _I64.pack(tensor.height)
    return head + _tensor_bytes(tensor.array)


def _tensor_bytes(array: Array) -> bytes:
    try:
        dtype = as_dtype(array.dtype)
    except TypeError as error:
        raise ProgramError(f"an array cannot be saved: {error}") from None
    description = encode(TENSOR, {"data_type": dtype.code, "dims": array.shape})
    stored = array.astype(dtype.numpy.newbyteorder("<"), copy=False)
    return _U32.pack(0) + _I32.pack(len(description)) + description + stored.tobytes()
