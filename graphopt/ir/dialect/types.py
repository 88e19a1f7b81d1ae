"""Tensor types and the shape arithmetic that type rules share.

A tensor type is xDSL's `tensor<?x1xf32>`; `UNKNOWN` (-1, printed `?`) marks a dimension that is
known only when the program runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType
from xdsl.ir import Attribute
from xdsl.irdl import AttrConstraint, BaseAttr

from graphopt.errors import OperandError, ProgramError, UnsupportedError
from graphopt.ir.dialect.shapes import UNKNOWN as UNKNOWN
from graphopt.ir.dialect.shapes import Shape as Shape
from graphopt.ir.dialect.shapes import agree as agree
from graphopt.ir.dialect.shapes import broadcast_dim as broadcast_dim
from graphopt.ir.dialect.shapes import broadcast_shapes as broadcast_shapes
from graphopt.ir.dialect.shapes import element_count as element_count
from graphopt.ir.dtypes import DType, as_dtype, from_ir

# TensorType is generic over its element type; the dialect checks it by `from_ir` instead.
Tensor = TensorType[Attribute]
# constraint of operands and results; shared, as xDSL makes a new one for each mention of a type
TENSOR: AttrConstraint[Tensor] = BaseAttr(TensorType)
# the elements of a property, each None if unknown; None if their number is unknown
Partial = tuple[int | None, ...] | None


@lru_cache(maxsize=4096)
def _tensor(shape: Shape, element: Attribute) -> Tensor:
    return TensorType(element, [DYNAMIC_INDEX if dim < 0 else dim for dim in shape])


def tensor(shape: Iterable[int], dtype: Any) -> Tensor:
    """Build the tensor type of a shape and dtype; a negative dimension means unknown."""
    return _tensor(tuple(int(d) for d in shape), as_dtype(dtype).ir)


def like(source: Tensor, *, shape: Iterable[int] | None = None, dtype: Any = None) -> Tensor:
    """Build the tensor type `source` with another shape or dtype."""
    return tensor(
        shape_of(source) if shape is None else shape,
        dtype_of(source) if dtype is None else dtype,
    )


def shape_of(type: Attribute) -> Shape:
    """Return the dimensions of a tensor type."""
    assert isinstance(type, TensorType), type
    return tuple(UNKNOWN if dim == DYNAMIC_INDEX else dim for dim in type.get_shape())


def dtype_of(type: Attribute) -> DType:
    """Return the element type of a tensor type."""
    assert isinstance(type, TensorType), type
    return from_ir(cast(Tensor, type).element_type)


def rank_of(type: Attribute) -> int:
    """Return the number of dimensions of a tensor type."""
    return len(shape_of(type))


def show(type: Attribute) -> str:
    """Format a tensor type for error messages: `[-1, 4] float32`."""
    return f"{list(shape_of(type))} {dtype_of(type)}"


def normalize_axis(axis: int, rank: int, what: str = "axis") -> int:
    """Count `axis` from the front; raise ProgramError when it is outside [-rank, rank)."""
    if not -rank <= axis < rank:
        raise ProgramError(
            f"{what} {axis} is out of range for a tensor of rank {rank}; "
            f"use a value from {-rank} to {rank - 1}"
        )
    return axis + rank if axis < 0 else axis


def normalize_axes(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Count the axes from the front; sort them and drop duplicates."""
    return tuple(sorted({normalize_axis(axis, rank) for axis in axes}))


def same_dtype(*types: Tensor) -> DType:
    """Return the one dtype of all operands; raise OperandError when they differ."""
    first = dtype_of(types[0])
    for other in types[1:]:
        if dtype_of(other) != first:
            raise OperandError(
                f"the operands must have one dtype, found {first} and {dtype_of(other)}; "
                "cast one of them"
            )
    return first


def same_shape(*types: Attribute) -> Shape:
    """Merge operand shapes that must be equal; raise ProgramError if known sizes differ."""
    shape = shape_of(types[0])
    for other in map(shape_of, types[1:]):
        if not agree(shape, other):
            raise ProgramError(
                f"the operands must have one shape, found {list(shape)} and {list(other)}"
            )
        shape = tuple(b if a == UNKNOWN else a for a, b in zip(shape, other, strict=True))
    return shape


# No machine holds a larger tensor; a program that declares one is broken or hostile.
LARGEST_TENSOR = 1 << 44
# the most parts of a dimension, or sizes from one tensor: a damaged file has billions
MOST_VALUES = 1 << 16


def byte_count(type: Attribute) -> int:
    """Count the bytes of a tensor; UNKNOWN when a dimension is unknown."""
    count = element_count(shape_of(type))
    return count if count == UNKNOWN else count * dtype_of(type).numpy.itemsize


def check_size(type: Attribute) -> None:
    """Raise ProgramError when a tensor is too large for any machine."""
    if not isinstance(type, TensorType):
        return
    found = cast(Tensor, type)
    if byte_count(found) > LARGEST_TENSOR:
        raise ProgramError(
            f"a result would be {show(found)}, which takes {byte_count(found)} bytes; no tensor "
            f"may take more than {LARGEST_TENSOR}"
        )


def product(dims: Sequence[int]) -> int:
    """Multiply dimensions; UNKNOWN when one is unknown."""
    return element_count(tuple(dims))


def sizes_in(elements: Partial, name: str) -> Shape:
    """Return the sizes that a property lists, UNKNOWN for sizes that the run decides.

    Raises UnsupportedError when the run decides how many there are.
    """
    if elements is None:
        raise UnsupportedError(
            f"the number of dimensions in '{name}' must be known before the program runs; "
            "give a tensor of known length"
        )
    return tuple(UNKNOWN if size is None else size for size in elements)


def resolve_shape(shape: Shape, wanted: Sequence[int]) -> Shape:
    """Resolve the target shape of `reshape`: 0 copies a dimension, one -1 takes the rest.

    Where copies would give elements to a tensor without any, each 0 stays a 0, as in Paddle 3. So
    does the -1 of a tensor without elements leave out sizes of 0: [0, 2, 3] to [0, -1] is [0, 6].
    """
    if list(wanted).count(-1) > 1 or any(dim < -1 for dim in wanted):
        raise ProgramError(f"reshape takes one -1 at most and nothing below it: {list(wanted)}")
    beyond = next((i for i, dim in enumerate(wanted) if dim == 0 and i >= len(shape)), None)
    if beyond is not None and 0 not in shape:
        raise ProgramError(
            f"reshape to {list(wanted)}: 0 at position {beyond} copies a dimension that "
            f"{list(shape)} does not have"
        )
    dims = [shape[i] if dim == 0 and i < len(shape) else dim for i, dim in enumerate(wanted)]
    if 0 in shape and 0 not in dims and -1 not in wanted:
        dims = list(wanted)
    return _fill_dim(shape, dims, wanted)


def resolve_shape_like(shape: Shape, like: Shape, wanted: Sequence[int]) -> Shape:
    """Resolve the shape of `reshape_like`: 0 copies from `like`, one -1 takes the rest."""
    if list(wanted).count(-1) > 1 or any(dim < -1 for dim in wanted):
        raise ProgramError(f"reshape takes one -1 at most and nothing below it: {list(wanted)}")
    if any(dim == 0 for dim in wanted[len(like) :]):
        raise ProgramError(f"{list(like)} has no size for each 0 in {list(wanted)}")
    dims = [like[i] if dim == 0 else dim for i, dim in enumerate(wanted)]
    copied = [dim for dim, size in zip(dims, wanted, strict=True) if size == 0]
    return tuple(dims) if UNKNOWN in (*shape, *copied) else _fill_dim(shape, dims, wanted)


def _fill_dim(shape: Shape, dims: list[int], wanted: Sequence[int]) -> Shape:
    """Replace the -1 of `wanted` by the dimension that the element count leaves."""
    total = element_count(shape)
    free = [i for i, dim in enumerate(wanted) if dim == -1]
    if total == UNKNOWN:
        return _resolve_unknown(shape, dims, free)
    others = [dim for i, dim in enumerate(dims) if i not in free]
    known = product(others)
    if free and total == known == 0:
        total, known = prod(filter(None, shape)), prod(filter(None, others))
    if free:
        if known == 0 or total % known:
            raise ProgramError(
                f"{list(shape)} cannot be reshaped to {list(wanted)}: {total} elements do not make "
                f"whole rows of {known}"
            )
        dims[free[0]] = total // known
    elif known != total:
        raise ProgramError(
            f"{list(shape)} has {total} elements and cannot be reshaped to {list(wanted)}"
        )
    return tuple(dims)


def _resolve_unknown(shape: Shape, dims: list[int], free: Sequence[int]) -> Shape:
    """Resolve a target shape as far as unknown dimensions allow.

    When the copied (0) dimensions are the only unknown ones, the -1 is still a number.
    """
    if free and dims.count(UNKNOWN) - 1 == shape.count(UNKNOWN):
        rest = product([d for i, d in enumerate(dims) if i not in free and d != UNKNOWN])
        known = product([d for d in shape if d != UNKNOWN])
        if rest and known % rest == 0:
            dims[free[0]] = known // rest
    return tuple(dims)


def check_count(count: int, what: str) -> None:
    """Raise ProgramError for more than MOST_VALUES of something."""
    if count > MOST_VALUES:
        raise ProgramError(f"{count} {what}; there are at most {MOST_VALUES}")


def split_sizes(dim: int, num: int, sections: Sequence[int]) -> tuple[int, ...]:
    """Compute the part sizes of a split dimension: `num` equal ones, or sections with one -1."""
    if not sections:
        check_count(num, "parts of one dimension")
        if num < 1 or (dim != UNKNOWN and dim % num):
            raise ProgramError(f"a dimension of {dim} cannot be split in {num} equal parts")
        return (UNKNOWN if dim == UNKNOWN else dim // num,) * num
    sizes = list(sections)
    if sizes.count(-1) > 1:
        raise ProgramError("split takes one -1 section at most")
    if -1 in sizes and dim != UNKNOWN:
        sizes[sizes.index(-1)] = dim - sum(size for size in sizes if size != -1)
    if dim != UNKNOWN and (sum(sizes) != dim or min(sizes) < 0):
        raise ProgramError(f"sections {list(sections)} do not add up to {dim}")
    return tuple(sizes)


def slice_bounds(dim: int, start: int, end: int) -> tuple[int, int]:
    """Clamp start and end to a known dimension; negative ones count from its end."""
    low = max(start + dim, 0) if start < 0 else min(start, dim)
    high = max(end + dim, 0) if end < 0 else min(end, dim)
    return low, max(high, low)


def compatible(declared: Attribute, inferred: Attribute) -> bool:
    """True when two tensor types agree wherever both know a dimension."""
    if not (isinstance(declared, TensorType) and isinstance(inferred, TensorType)):
        return declared == inferred
    declared, inferred = cast(Tensor, declared), cast(Tensor, inferred)
    same_element = declared.element_type == inferred.element_type
    return same_element and agree(shape_of(declared), shape_of(inferred))
