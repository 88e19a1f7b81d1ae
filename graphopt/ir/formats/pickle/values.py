"""The few calls that Paddle's pickles make, recognized by their exact shape and never executed.

A pickle builds an array by calling a NumPy function and then setting the state of its result. Here
a global is only a name, and each allowed call builds a plain value from checked arguments.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np

from graphopt.ir.formats.limits import Limits

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


class RefusedCall(Exception):
    """A call that no sound parameter file makes; the reader adds file and offset."""


class Malformed(Exception):
    """A call of an allowed kind with inconsistent arguments."""


class TooLarge(Exception):
    """An array that is larger than the limits allow."""


class Copies:
    """The number of bytes that may still be copied: bounds a file that repeats the same bytes."""

    def __init__(self, size: int, limits: Limits) -> None:
        self.limits = limits
        self._left = 4 * size + (1 << 16)

    def spend(self, size: int) -> None:
        """Count a copy; raise TooLarge when a sound file of this size would not need it."""
        self._left -= size
        if self._left < 0:
            raise TooLarge("the size of the unpacked values")


@dataclass(frozen=True)
class Global:
    """A name that the pickle imports."""

    name: str


@dataclass
class ElementType:
    """The result of a numpy.dtype call; its state may still set the byte order."""

    dtype: np.dtype[Any]


@dataclass
class Blank:
    """The result of numpy's _reconstruct: an array that has no contents before its state is set."""

    slots: list[int] = field(default_factory=list[int])
    """The memo slots that refer to the array."""


_RECONSTRUCT = frozenset(f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core"))
_SCALAR = frozenset(f"numpy.{core}.multiarray.scalar" for core in ("core", "_core"))
_TUPLE = ("builtins.tuple", "__builtin__.tuple")
_EVAL = ("builtins.eval", "__builtin__.eval")
_BYTES = ("builtins.bytes", "__builtin__.bytes")
GLOBALS = frozenset(
    (
        *_RECONSTRUCT,
        *_SCALAR,
        *_TUPLE,
        *_EVAL,
        *_BYTES,
        "numpy.ndarray",
        "numpy.dtype",
        "_codecs.encode",
        "collections.OrderedDict",
    )
)
# Booleans, integers, floats and complex numbers: the element types without code or pointers.
_ELEMENT = re.compile(r"[<>|=]?(b1|[iu][1248]|f[248]|c8|c16)")


def call(function: Any, arguments: Any, copies: Copies) -> Any:
    """Evaluate an allowed call; raise RefusedCall or Malformed for any other."""
    if not isinstance(function, Global) or not isinstance(arguments, tuple):
        raise RefusedCall("a call of an object that is not a function")
    name, given = function.name, cast(tuple[Any, ...], arguments)
    if name in _RECONSTRUCT:
        if len(given) == 3 and _is(given[0], Global("numpy.ndarray")):
            return Blank()
    elif name == "numpy.dtype":
        if given and isinstance(given[0], str):
            return ElementType(_element_type(given[0]))
    elif name in _SCALAR:
        if len(given) == 2 and isinstance(given[0], ElementType):
            return build_array((1, (), given[0], False, given[1]), copies).item()
    elif name in _TUPLE:
        if len(given) == 1 and isinstance(given[0], tuple):
            return cast(tuple[Any, ...], given[0])
    elif name in _EVAL:
        # Paddle's form of a bare tensor; the text is compared, not evaluated.
        if len(given) == 2 and _is(given[0], "data") and isinstance(given[1], dict):
            found = cast(dict[Any, Any], given[1])
            if list(found) == ["data"] and isinstance(found["data"], np.ndarray):
                return cast(Array, found["data"])
    elif name == "_codecs.encode":
        if len(given) == 2 and isinstance(given[0], str) and _is(given[1], "latin1"):
            return _latin(given[0], copies)
    elif name in _BYTES and not given:
        return b""
    elif name == "collections.OrderedDict" and not given:
        return {}
    raise RefusedCall(f"a call of {name} with arguments that Paddle does not write")


def _is(value: Any, *expected: Any) -> bool:
    """Compare types first, then values: arrays would compare element by element."""
    return any(type(value) is type(other) and value == other for other in expected)


def _element_type(text: str) -> np.dtype[Any]:
    if not _ELEMENT.fullmatch(text):
        raise RefusedCall(f"an array of element type {text[:20]!r}")
    return np.dtype(text)


def _latin(text: str, copies: Copies) -> bytes:
    copies.spend(len(text))
    try:
        return text.encode("latin1")
    except UnicodeEncodeError:
        raise Malformed("expected text of bytes, found other characters") from None


def set_byte_order(element: ElementType, state: Any) -> None:
    """Apply the state of a dtype: version, byte order, and no structured fields."""
    given = cast(tuple[Any, ...], state) if isinstance(state, tuple) else ()
    orders = ("<", ">", "|", "=")
    if len(given) < 5 or not _is(given[1], *orders) or any(v is not None for v in given[2:5]):
        raise RefusedCall("a structured element type")
    if given[1] in ("<", ">"):
        element.dtype = element.dtype.newbyteorder(cast(Any, given[1]))


def build_array(state: Any, copies: Copies) -> Array:
    """Build the array of a state (version, shape, dtype, column-major, bytes), in native order.

    It has the native byte order, and is a read-only view on the bytes where possible.
    """
    given = cast(tuple[Any, ...], state) if isinstance(state, tuple) else ()
    if (
        len(given) != 5
        or not isinstance(given[1], tuple)
        or not isinstance(given[2], ElementType)
        or type(given[3]) not in (bool, int)
    ):
        raise RefusedCall("an array whose state is not a shape, an element type and bytes")
    shape, dtype = cast(tuple[Any, ...], given[1]), given[2].dtype
    if not all(type(dim) is int and dim >= 0 for dim in shape):
        raise Malformed(f"expected dimensions of 0 or more, found {str(shape)[:60]}")
    if not isinstance(given[4], str | bytes | memoryview):
        raise RefusedCall("an array whose contents are not bytes")
    text_or_bytes = cast("str | bytes | memoryview[int]", given[4])
    data = _latin(text_or_bytes, copies) if isinstance(text_or_bytes, str) else text_or_bytes
    # Empty arrays may have dimensions too large for any array, so 0 counts as 1 here.
    claim = math.prod(max(dim, 1) for dim in shape) * dtype.itemsize
    if claim > copies.limits.tensor_bytes or len(shape) > copies.limits.rank:
        raise TooLarge(f"an array of shape {str(shape)[:60]}")
    size = math.prod(shape) * dtype.itemsize
    if len(data) != size:
        raise Malformed(f"expected {size} bytes for shape {list(shape)}, found {len(data)}")
    if dtype == np.bool_ and size and int(np.frombuffer(data, np.uint8).max()) > 1:
        raise Malformed("expected booleans, 0 or 1")
    array: Array = np.ndarray(shape, dtype, data, order="F" if given[3] else "C")
    if dtype.isnative:
        return array
    copies.spend(size)
    return array.astype(dtype.newbyteorder("="))
