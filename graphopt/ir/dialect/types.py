"""Tensor types and the shape arithmetic that type rules share.

A tensor type is xDSL's `tensor<?x1xf32>`; `UNKNOWN` (-1, printed `?`) marks a dimension that is
known only when the program runs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute

from graphopt.errors import ProgramError
from graphopt.ir.dtypes import DType, as_dtype, from_ir

UNKNOWN = -1
# TensorType is generic over its element; the dialect checks elements by `from_ir`, not by type.
Tensor = TensorType[Attribute]
Shape = tuple[int, ...]


@lru_cache(maxsize=4096)
def _tensor(shape: Shape, element: Attribute) -> Tensor:
    return TensorType(element, [DYNAMIC_INDEX if dim < 0 else dim for dim in shape])


def tensor(shape: Iterable[int], dtype: Any) -> Tensor:
    """The tensor type with this shape and dtype; any negative dimension means unknown."""
    return _tensor(tuple(int(d) for d in shape), as_dtype(dtype).ir)


def like(source: Tensor, *, shape: Iterable[int] | None = None, dtype: Any = None) -> Tensor:
    """`source` with another shape or dtype."""
    return tensor(
        shape_of(source) if shape is None else shape,
        dtype_of(source) if dtype is None else dtype,
    )


def shape_of(type: Attribute) -> Shape:
    """The dimensions of a tensor type."""
    assert isinstance(type, TensorType), type
    return tuple(UNKNOWN if dim == DYNAMIC_INDEX else dim for dim in type.get_shape())


def dtype_of(type: Attribute) -> DType:
    """The element type of a tensor type."""
    assert isinstance(type, TensorType), type
    return from_ir(cast(Tensor, type).element_type)


def rank_of(type: Attribute) -> int:
    """The number of dimensions of a tensor type."""
    return len(shape_of(type))


def show(type: Attribute) -> str:
    """A tensor type as error messages print it: `[-1, 4] float32`."""
    return f"{list(shape_of(type))} {dtype_of(type)!s}"


def normalize_axis(axis: int, rank: int, what: str = "axis") -> int:
    """`axis` counted from the front; ProgramError when it is outside [-rank, rank)."""
    if not -rank <= axis < rank:
        raise ProgramError(
            f"{what} {axis} is out of range for a tensor of rank {rank}; "
            f"use a value from {-rank} to {rank - 1}"
        )
    return axis + rank if axis < 0 else axis


def normalize_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The axes counted from the front, sorted, each once."""
    return tuple(sorted({normalize_axis(axis, rank) for axis in axes}))


def broadcast_dim(a: int, b: int) -> int | None:
    """The dimension that `a` and `b` broadcast to, None when they do not."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if a == UNKNOWN:
        return b
    if b == UNKNOWN:
        return a
    return None


def broadcast_shapes(*shapes: Shape) -> Shape:
    """NumPy broadcasting with unknown dimensions; ProgramError when two known ones differ.

    An unknown dimension against a known one other than 1 is taken to be equal to it.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[int] = [1] * rank
    for shape in shapes:
        for position, dim in enumerate(shape, start=rank - len(shape)):
            merged = broadcast_dim(result[position], dim)
            if merged is None:
                raise ProgramError(
                    "Broadcast dimension mismatch: shapes "
                    + " and ".join(str(list(s)) for s in shapes)
                    + f" differ at dimension {position} ({result[position]} against {dim})"
                )
            result[position] = merged
    return tuple(result)


def same_dtype(*types: Tensor) -> DType:
    """The one dtype of all operands; ProgramError when they differ."""
    first = dtype_of(types[0])
    for other in types[1:]:
        if dtype_of(other) != first:
            raise ProgramError(
                f"the operands must have one dtype, found {first!s} and {dtype_of(other)!s}; "
                "cast one of them"
            )
    return first


def element_count(shape: Shape) -> int:
    """The number of elements, UNKNOWN when a dimension is."""
    return UNKNOWN if UNKNOWN in shape else math.prod(shape)


# No machine holds a larger tensor; a program that declares one is broken or hostile.
LARGEST_TENSOR = 1 << 44


def byte_count(type: Attribute) -> int:
    """The bytes of a tensor, UNKNOWN when a dimension is."""
    count = element_count(shape_of(type))
    return count if count == UNKNOWN else count * dtype_of(type).numpy.itemsize


def check_size(type: Attribute) -> None:
    """ProgramError when a tensor is too large for any machine."""
    if not isinstance(type, TensorType):
        return
    found = cast(Tensor, type)
    if byte_count(found) > LARGEST_TENSOR:
        raise ProgramError(
            f"a result would be {show(found)}, which takes {byte_count(found)} bytes; no tensor "
            f"may take more than {LARGEST_TENSOR}"
        )


def product(dims: Sequence[int]) -> int:
    """The product of dimensions, UNKNOWN when one is."""
    return element_count(tuple(dims))


def compatible(declared: Attribute, inferred: Attribute) -> bool:
    """True when two tensor types agree wherever both know a dimension."""
    if not (isinstance(declared, TensorType) and isinstance(inferred, TensorType)):
        return declared == inferred
    declared, inferred = cast(Tensor, declared), cast(Tensor, inferred)
    a, b = shape_of(declared), shape_of(inferred)
    return (
        declared.element_type == inferred.element_type
        and len(a) == len(b)
        and all(x == y or UNKNOWN in (x, y) for x, y in zip(a, b, strict=True))
    )
