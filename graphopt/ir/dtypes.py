"""The element types: one row each, with its name in every vocabulary that graphopt speaks.

A `DType` is a string (so `x.dtype == "float32"` holds and NumPy accepts it) that also knows its
xDSL type, its NumPy type and the number that Paddle's files use for it. Types without such a number
come from models of other formats: Paddle's functions and files do not name them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

import ml_dtypes
import numpy as np

from graphopt.errors import UnsupportedError

if TYPE_CHECKING:
    from xdsl.ir import Attribute


class DType(str):
    """An element type, e.g. `DType("float32")`; `paddle.float32` and its like are instances."""

    __slots__ = ()

    def __new__(cls, name: str) -> DType:
        """Make the type of a name, or of another DType."""
        return super().__new__(cls, format(name))

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy type with the same values (from `ml_dtypes` where NumPy lacks it)."""
        return _NUMPY[self]

    @property
    def is_of_numpy(self) -> bool:
        """True for a type that NumPy itself has, so that NumPy files and lists can hold it."""
        return self.numpy.type.__module__ == "numpy"

    @property
    def ir(self) -> Attribute:
        """The xDSL element type."""
        return _element_types()[self]

    @property
    def code(self) -> int:
        """The number of this type in Paddle's `VarType.Type` enumeration.

        Raises UnsupportedError for a type that Paddle's files have no number for.
        """
        if self not in _CODE:
            raise UnsupportedError(f"Paddle's files have no tensors of {self}; cast it before")
        return _CODE[self]

    def __int__(self) -> int:
        """Return `code`: attributes of appended operators often hold a type as a number."""
        return self.code

    @property
    def is_floating(self) -> bool:
        """True for the real floating-point types that operators compute in."""
        return self in FLOATING

    @property
    def is_whole(self) -> bool:
        """True for the integer types; bool is not one."""
        return self.startswith(("int", "uint"))

    @property
    def cut_in(self) -> np.dtype[Any]:
        """The integer type to which a float is truncated before it is cast to this type."""
        return np.dtype(np.int32 if self.numpy.itemsize < 4 or self == "int32" else np.int64)

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest number, infinity for floats; 0 and 1 for bool."""
        if self == "bool":
            return 0.0, 1.0
        if not self.is_whole:
            return float("-inf"), float("inf")
        info = ml_dtypes.iinfo(self.numpy)
        return float(info.min), float(info.max)

    @property
    def is_complex(self) -> bool:
        """True for complex64 and complex128."""
        return self in ("complex64", "complex128")

    @property
    def is_differentiable(self) -> bool:
        """True when a gradient with respect to a value of this type exists."""
        return self.is_floating or self.is_complex

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        """Return the text of Paddle's dtype, such as "paddle.float32", which scripts compare."""
        return f"paddle.{self}"

    def __format__(self, spec: str) -> str:
        """Format the name alone, "float32", for messages and records."""
        return format(str.__str__(self), spec)


class TypeCode(int):
    """The number of a dtype in an attribute; it also equals the `DType`."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return int(self) == (other.code if isinstance(other, DType) else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__


# name, number in VarType.Type where it has one, NumPy type
_ROWS: tuple[tuple[str, int | None, Any], ...] = (
    ("bool", 0, np.bool_),
    ("int16", 1, np.int16),
    ("int32", 2, np.int32),
    ("int64", 3, np.int64),
    ("float16", 4, np.float16),
    ("float32", 5, np.float32),
    ("float64", 6, np.float64),
    ("uint8", 20, np.uint8),
    ("int8", 21, np.int8),
    ("bfloat16", 22, ml_dtypes.bfloat16),
    ("complex64", 23, np.complex64),
    ("complex128", 24, np.complex128),
    ("uint16", None, np.uint16),
    ("uint32", None, np.uint32),
    ("uint64", None, np.uint64),
    # what is stored narrowly, and cast before it is computed with
    ("int2", None, ml_dtypes.int2),
    ("uint2", None, ml_dtypes.uint2),
    ("int4", None, ml_dtypes.int4),
    ("uint4", None, ml_dtypes.uint4),
    ("float4_e2m1fn", None, ml_dtypes.float4_e2m1fn),
    ("float8_e4m3fn", None, ml_dtypes.float8_e4m3fn),
    ("float8_e4m3fnuz", None, ml_dtypes.float8_e4m3fnuz),
    ("float8_e5m2", None, ml_dtypes.float8_e5m2),
    ("float8_e5m2fnuz", None, ml_dtypes.float8_e5m2fnuz),
    ("float8_e8m0fnu", None, ml_dtypes.float8_e8m0fnu),
)


# xDSL is imported when a program is translated, and not where its executable is on disk
@cache
def _element_types() -> dict[str, Attribute]:
    """Map each name to its xDSL element type."""
    from xdsl.dialects import builtin

    unsigned = builtin.Signedness.UNSIGNED
    return {
        "bool": builtin.i1,
        "int16": builtin.IntegerType(16),
        "int32": builtin.i32,
        "int64": builtin.i64,
        "float16": builtin.f16,
        "float32": builtin.f32,
        "float64": builtin.f64,
        "uint8": builtin.IntegerType(8, unsigned),
        "int8": builtin.IntegerType(8),
        "bfloat16": builtin.bf16,
        "complex64": builtin.ComplexType(builtin.f32),
        "complex128": builtin.ComplexType(builtin.f64),
        "uint16": builtin.IntegerType(16, unsigned),
        "uint32": builtin.IntegerType(32, unsigned),
        "uint64": builtin.IntegerType(64, unsigned),
        "int2": builtin.IntegerType(2),
        "uint2": builtin.IntegerType(2, unsigned),
        "int4": builtin.IntegerType(4),
        "uint4": builtin.IntegerType(4, unsigned),
        "float4_e2m1fn": builtin.Float4E2M1FNType(),
        "float8_e4m3fn": builtin.Float8E4M3FNType(),
        "float8_e4m3fnuz": builtin.Float8E4M3FNUZType(),
        "float8_e5m2": builtin.Float8E5M2Type(),
        "float8_e5m2fnuz": builtin.Float8E5M2FNUZType(),
        "float8_e8m0fnu": builtin.Float8E8M0FNUType(),
    }


@cache
def _from_element_types() -> dict[Attribute, DType]:
    return {element: DType(name) for name, element in _element_types().items()}


FLOATING = frozenset(("float16", "bfloat16", "float32", "float64"))
_CODE = {name: code for name, code, _ in _ROWS if code is not None}
_NUMPY = {name: np.dtype(numpy_type) for name, _, numpy_type in _ROWS}
_FROM_CODE = {code: DType(name) for name, code in _CODE.items()}

bool_ = DType("bool")
int8 = DType("int8")
int16 = DType("int16")
int32 = DType("int32")
int64 = DType("int64")
uint8 = DType("uint8")
float16 = DType("float16")
bfloat16 = DType("bfloat16")
float32 = DType("float32")
float64 = DType("float64")
complex64 = DType("complex64")
complex128 = DType("complex128")
NUMBERED = tuple(DType(name) for name in _CODE)
"""The types that Paddle's files have numbers for, and its functions names."""


def find_dtype(name: str) -> DType | None:
    """Find the element type of exactly this name, whether Paddle has it or not."""
    return DType(name) if name in _NUMPY else None


def convert_as_x86(values: Any, dtype: DType) -> np.ndarray[Any, Any]:
    """Convert real numbers to another dtype as Paddle's kernels do on x86.

    Floats are truncated toward zero. Integers of fewer than 32 bits keep the low bits of an int32,
    and uint32 the low bits of an int64. A number that int32 or int64 cannot hold, or NaN, becomes
    the least number of that type; uint64 also holds numbers up to twice that limit. NumPy leaves
    these cases to the processor.
    """
    array = np.asarray(values)
    target = dtype.numpy
    if array.dtype.kind in "biuc" or not dtype.is_whole:
        with np.errstate(over="ignore"):  # a number outside a narrower float becomes infinite
            return array.astype(target)
    wide = dtype.cut_in
    limit = float(2 ** (8 * wide.itemsize - 1))
    exact = array.astype(np.float64)
    held = (exact > -limit - 1) & (exact < limit) if limit < 2**53 else np.abs(exact) < limit
    whole = np.where(held, exact, 0.0).astype(wide)
    found = np.where(held, whole, np.iinfo(wide).min).astype(target)
    if dtype == "uint64":
        large = (exact >= limit) & (exact < 2 * limit)
        found = np.where(large, np.where(large, exact, 0.0).astype(target), found)
    return found


def as_dtype(spec: object) -> DType:
    """Convert a name, a NumPy type, a `DType` or a `VarType.Type` number to a `DType`.

    Other names are NumPy's, as in Paddle: "float" is float64 and "int" is int64; but "uint16" is
    bfloat16. Raises TypeError for anything that is not an element type.
    """
    if isinstance(spec, DType):
        return spec
    if isinstance(spec, str) and spec in _CODE:
        return DType(spec)
    if isinstance(spec, int) and not isinstance(spec, bool):
        if spec in _FROM_CODE:
            return _FROM_CODE[spec]
    else:
        try:
            name = np.dtype(cast(Any, spec)).name
        except TypeError:
            name = ""
        if name == "uint16":
            return DType("bfloat16")
        if name in _CODE:
            return DType(name)
    raise TypeError(f"{spec!r} is not an element type; use one of {', '.join(_CODE)}")


def from_ir(element: Attribute) -> DType:
    """Convert an xDSL element type to its `DType`; raise TypeError when there is none."""
    try:
        return _from_element_types()[element]
    except KeyError:
        raise TypeError(f"{element} is not an element type of the pd dialect") from None
