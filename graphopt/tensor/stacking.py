"""Joining, splitting and reshaping by compositions of simpler operators (paddle.*)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.errors import AssertedError, UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.sizes import has_variable
from graphopt.ir.dialect.shapes import broadcast_shapes
from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign, full
from graphopt.tensor.linalg import transpose
from graphopt.tensor.manipulation import (
    concat,
    flatten,
    gather,
    reshape,
    slice,
    split,
    stack,
    unsqueeze,
)
from graphopt.tensor.rearrange import flip, meshgrid


def _several(inputs: tuple[Any, ...], function: str) -> list[Variable]:
    """Check Variables passed one by one or as one list, and return their list."""
    given = inputs[0] if len(inputs) == 1 and isinstance(inputs[0], (list, tuple)) else inputs
    return arguments.variables(list(given), "inputs", function)


def _one_or_all(made: list[Variable], inputs: tuple[Any, ...]) -> Any:
    return made[0] if len(inputs) == 1 and isinstance(inputs[0], Variable) else made


def _at_least_1d(x: Variable) -> Variable:
    return x if x.shape else unsqueeze(x, 0)


def _at_least_2d(x: Variable) -> Variable:
    return x if len(x.shape) > 1 else unsqueeze(_at_least_1d(x), 0)


def _at_least_3d(x: Variable) -> Variable:
    return x if len(x.shape) > 2 else unsqueeze(_at_least_2d(x), -1)


def atleast_1d(*inputs: Any, name: str | None = None) -> Any:
    """Add an axis to scalars; return one tensor, or a list of several (paddle.atleast_1d)."""
    return _one_or_all([_at_least_1d(x) for x in _several(inputs, "atleast_1d")], inputs)


def atleast_2d(*inputs: Any, name: str | None = None) -> Any:
    """Add axes in front up to a rank of two (paddle.atleast_2d)."""
    return _one_or_all([_at_least_2d(x) for x in _several(inputs, "atleast_2d")], inputs)


def atleast_3d(*inputs: Any, name: str | None = None) -> Any:
    """Add axes up to a rank of three; [n] becomes [1, n, 1] (paddle.atleast_3d)."""
    return _one_or_all([_at_least_3d(x) for x in _several(inputs, "atleast_3d")], inputs)


def hstack(x: Sequence[Variable], name: str | None = None) -> Variable:
    """Concatenate tensors along the second axis, vectors along their own (paddle.hstack)."""
    parts = [_at_least_1d(item) for item in arguments.variables(x, "x", "hstack")]
    return concat(parts, 0 if len(parts[0].shape) == 1 else 1, name)


def vstack(x: Sequence[Variable], name: str | None = None) -> Variable:
    """Concatenate tensors along the first axis, vectors as rows (paddle.vstack)."""
    return concat([_at_least_2d(i) for i in arguments.variables(x, "x", "vstack")], 0, name)


def row_stack(x: Sequence[Variable], name: str | None = None) -> Variable:
    """Concatenate tensors as `vstack` does (paddle.row_stack)."""
    return vstack(x, name)


def dstack(x: Sequence[Variable], name: str | None = None) -> Variable:
    """Concatenate tensors along the third axis (paddle.dstack)."""
    return concat([_at_least_3d(i) for i in arguments.variables(x, "x", "dstack")], 2, name)


def column_stack(x: Sequence[Variable], name: str | None = None) -> Variable:
    """Concatenate tensors along the second axis, vectors as columns (paddle.column_stack)."""
    parts = [
        item if len(item.shape) > 1 else reshape(item, [-1, 1])
        for item in arguments.variables(x, "x", "column_stack")
    ]
    return concat(parts, 1, name)


def tensor_split(
    x: Variable, num_or_indices: Any, axis: int = 0, name: str | None = None
) -> list[Variable]:
    """Split x along an axis into almost equal parts, or at indices (paddle.tensor_split).

    The first parts get the remainder. Raises UnsupportedError for an axis of unknown size.
    """
    at = arguments.integer(axis, "axis", "tensor_split")
    shape = arguments.variable(x, "x", "tensor_split").shape
    if not shape or not -len(shape) <= at < len(shape):
        raise ValueError(f"tensor_split(): 'axis' {axis} is out of range for {list(shape)}")
    size = shape[at]
    if size < 0:
        raise UnsupportedError(
            f"tensor_split(): the size of axis {axis} of {list(shape)} must be known"
        )
    if isinstance(num_or_indices, (list, tuple)):
        inner = arguments.integers(num_or_indices, "num_or_indices", "tensor_split")
        bounds = [min(max(i + size if i < 0 else i, 0), size) for i in inner]
    else:
        count = arguments.integer(num_or_indices, "num_or_indices", "tensor_split")
        if count < 1:
            raise ValueError(f"tensor_split(): 'num_or_indices' should be 1 or more, not {count}")
        each, rest = divmod(size, count)
        bounds = [i * each + min(i, rest) for i in range(1, count)]
    pairs = itertools.pairwise([0, *bounds, size])
    return [slice(x, [at], [low], [max(low, high)]) for low, high in pairs]


def hsplit(x: Variable, num_or_indices: Any, name: str | None = None) -> list[Variable]:
    """Split x along the second axis, a vector along its own (paddle.hsplit)."""
    rank = len(arguments.variable(x, "x", "hsplit").shape)
    if rank < 1:
        raise ValueError("hsplit(): 'x' should have rank 1 or more, found 0")
    return tensor_split(x, num_or_indices, 0 if rank == 1 else 1, name)


def vsplit(
    x: Variable,
    num_or_sections: Any = None,
    name: str | None = None,
    num_or_indices: Any = None,
) -> list[Variable]:
    """Split x along the first axis (paddle.vsplit). Raises ValueError for rank 0 or 1.

    A list has the sizes of the parts, as in Paddle 2.6.2. If they do not add up to the axis, or it
    is called `num_or_indices`, it has the rows at which the next part begins, as in 3.3.1.
    """
    shape = arguments.variable(x, "x", "vsplit").shape
    if len(shape) < 2:
        raise ValueError(f"vsplit(): 'x' should have rank 2 or more, found {len(shape)}")
    if (num_or_sections is None) == (num_or_indices is None):
        raise TypeError("vsplit(): give either 'num_or_sections' or 'num_or_indices'")
    if num_or_sections is not None and _are_sizes(num_or_sections, shape[0]):
        return split(x, num_or_sections, 0, name)
    at = num_or_indices if num_or_sections is None else num_or_sections
    return tensor_split(x, at, 0, name)


def _are_sizes(given: Any, size: int) -> bool:
    """True for numbers that `split` takes along an axis of this size, which is -1 if it is open."""
    if size < 0 or has_variable(given):
        return True
    if not isinstance(given, (list, tuple)):
        return False  # equal parts, of which `tensor_split` lets the first ones have the remainder
    each = arguments.integers(given, "num_or_sections", "vsplit")
    has_rest = each.count(-1) == 1 and min(each) == -1 and sum(each) < size
    return has_rest or (min(each, default=-1) >= 0 and sum(each) == size)


def dsplit(x: Variable, num_or_indices: Any, name: str | None = None) -> list[Variable]:
    """Split x along the third axis (paddle.dsplit). Raises ValueError for a rank below 3."""
    rank = len(arguments.variable(x, "x", "dsplit").shape)
    if rank < 3:
        raise ValueError(f"dsplit(): 'x' should have rank 3 or more, found {rank}")
    return tensor_split(x, num_or_indices, 2, name)


def moveaxis(x: Variable, source: Any, destination: Any, name: str | None = None) -> Variable:
    """Move axes to other positions; the other axes keep their order (paddle.moveaxis)."""
    rank = len(arguments.variable(x, "x", "moveaxis").shape)
    ends: list[list[int]] = []
    for what, value in (("source", source), ("destination", destination)):
        axes = arguments.integers(value, what, "moveaxis")
        if any(not -rank <= axis < rank for axis in axes):
            raise AssertedError(f"moveaxis(): '{what}' {value} is out of range for rank {rank}")
        ends.append([axis % rank for axis in axes])
    if len(ends[0]) != len(ends[1]) or any(len(set(axes)) != len(axes) for axes in ends):
        raise AssertedError(
            f"moveaxis(): 'source' {source} and 'destination' {destination} should name as many "
            "different axes"
        )
    placed = dict(zip(ends[1], ends[0], strict=True))
    others = iter(axis for axis in range(rank) if axis not in ends[0])
    order = [placed[at] if at in placed else next(others) for at in range(rank)]
    return transpose(x, order, name)


def rot90(x: Variable, k: int = 1, axes: Any = (0, 1), name: str | None = None) -> Variable:
    """Rotate x k times by 90 degrees, from the first axis to the second (paddle.rot90)."""
    rank = len(arguments.variable(x, "x", "rot90").shape)
    plane = arguments.integers(axes, "axes", "rot90")
    if rank < 2 or len(plane) != 2 or any(not -rank <= axis < rank for axis in plane):
        raise ValueError(f"rot90(): 'axes' {axes} should be two axes of x {list(x.shape)}")
    first, second = (axis % rank for axis in plane)
    if first == second:
        raise ValueError(f"rot90(): 'axes' should differ, but received {axes}")
    turns = arguments.integer(k, "k", "rot90") % 4
    order = list(range(rank))
    order[first], order[second] = order[second], order[first]
    if turns == 0:
        return assign(x)
    if turns == 2:
        return flip(flip(x, first), second, name)
    if turns == 1:
        return transpose(flip(x, second), order, name)
    return flip(transpose(x, order), second, name)


def unflatten(x: Variable, axis: int, shape: Any, name: str | None = None) -> Variable:
    """Split one axis into the dimensions of `shape`, at most one of them -1 (paddle.unflatten).

    Raises ValueError when their product is not the size of the axis.
    """
    own = list(arguments.variable(x, "x", "unflatten").shape)
    at = arguments.integer(axis, "axis", "unflatten")
    if not -len(own) <= at < len(own):
        raise ValueError(f"unflatten(): 'axis' {axis} is out of range for the shape {own}")
    at %= len(own)
    sizes = arguments.shape(shape, "unflatten")
    known = math.prod(size for size in sizes if size != -1)
    fits = own[at] % known == 0 if -1 in sizes and known else own[at] == known
    if sizes.count(-1) > 1 or (own[at] >= 0 and not fits):
        raise ValueError(f"unflatten(): {sizes} does not divide the {own[at]} of axis {axis}")
    if own[at] >= 0 and -1 in sizes:
        sizes[sizes.index(-1)] = own[at] // known
    # 0 copies the input's size, so it is right for unknown sizes before the axis
    before = [size if size >= 0 else 0 for size in own[:at]]
    return reshape(x, [*before, *sizes, *own[at + 1 :]], name)


def view(x: Variable, shape_or_dtype: Any, name: str | None = None) -> Variable:
    """Reshape x, or reinterpret its bytes as another dtype (paddle.view).

    A dtype with a larger or smaller element size makes the last axis shorter or longer. Raises
    ProgramError where the bytes of that axis are no whole number of elements.
    """
    arguments.variable(x, "x", "view")
    if isinstance(shape_or_dtype, (list, tuple)):
        return reshape(x, shape_or_dtype, name)
    dtype = arguments.dtype(shape_or_dtype, "shape_or_dtype", "view")
    return emit("view_dtype", {"input": x}, {"dtype": dtype.code}, out="out", name=name)


def view_as(x: Variable, other: Variable, name: str | None = None) -> Variable:
    """Reshape x to the shape of another tensor (paddle.view_as)."""
    return reshape(x, list(arguments.variable(other, "other", "view_as").shape), name)


def _elements(x: Variable, places: np.ndarray[Any, Any], name: str | None) -> Variable:
    """Gather elements of the flattened tensor at constant positions."""
    taken = gather(flatten(x), assign(places.reshape(-1).astype("int64")))
    return reshape(taken, list(places.shape), name)


def as_strided(
    x: Variable, shape: Any, stride: Any, offset: int = 0, name: str | None = None
) -> Variable:
    """Gather elements at `offset` plus the index times the strides, as a copy (as_strided).

    Raises ValueError when a position is outside x.
    """
    total = math.prod(arguments.variable(x, "x", "as_strided").shape)
    sizes = arguments.integers(shape, "shape", "as_strided")
    steps = arguments.integers(stride, "stride", "as_strided")
    places = np.asarray(arguments.integer(offset, "offset", "as_strided"))
    if len(sizes) != len(steps):
        raise ValueError(f"as_strided(): 'shape' {sizes} and 'stride' {steps} differ in length")
    for size, step in zip(sizes, steps, strict=True):
        places = places[..., None] + np.arange(size) * step
    if places.size and total >= 0 and not 0 <= places.min() <= places.max() < total:
        raise ValueError(f"as_strided(): shape {sizes} with stride {steps} leaves {list(x.shape)}")
    return _elements(x, places, name)


def unfold(x: Variable, axis: int, size: int, step: int, name: str | None = None) -> Variable:
    """Extract the windows of an axis, every `step` elements, to a new last axis (paddle.unfold)."""
    shape = list(arguments.variable(x, "x", "unfold").shape)
    at = arguments.integer(axis, "axis", "unfold")
    if not -len(shape) <= at < len(shape) or shape[at] < 0:
        raise ValueError(f"unfold(): 'axis' {axis} should be an axis of known size of {shape}")
    at %= len(shape)
    if not 0 <= size <= shape[at] or step < 1:
        raise ValueError(f"unfold(): windows of {size} by {step} do not fit the {shape[at]}")
    starts = np.arange(0, shape[at] - size + 1, step)
    places = starts[:, None] + np.arange(size)
    taken = gather(x, assign(places.reshape(-1).astype("int64")), at)
    apart = reshape(
        taken, [*[d if d >= 0 else 0 for d in shape[:at]], *places.shape, *shape[at + 1 :]]
    )
    return moveaxis(apart, at + 1, -1, name)


def block_diag(inputs: Sequence[Variable], name: str | None = None) -> Variable:
    """Put matrices along the diagonal of a larger one, zeros elsewhere (paddle.block_diag)."""
    blocks = [_at_least_2d(x) for x in arguments.variables(inputs, "inputs", "block_diag")]
    if any(len(block.shape) != 2 for block in blocks):
        raise ValueError("block_diag(): the tensors should have rank 2 at most")
    widths = [block.shape[1] for block in blocks]
    rows: list[Variable] = []
    for at, block in enumerate(blocks):
        height = block.shape[0]
        sides = [(sum(widths[:at]), 0), (sum(widths[at + 1 :]), 2)]
        parts: list[tuple[int, Variable]] = [(1, block)]
        for width, place in sides:
            if width:
                parts.append((place, full([height, width], 0, block.dtype)))
        ordered = [part for _, part in sorted(parts, key=lambda pair: pair[0])]
        rows.append(concat(ordered, 1) if len(ordered) > 1 else block)
    return concat(rows, 0, name)


def cartesian_prod(x: Sequence[Variable], name: str | None = None) -> Variable:
    """List all ways to take one element of each vector, as rows (paddle.cartesian_prod)."""
    vectors = arguments.variables(x, "x", "cartesian_prod")
    if any(len(vector.shape) != 1 for vector in vectors):
        raise ValueError("cartesian_prod(): the tensors should be 1-D")
    if len(vectors) == 1:
        return vectors[0]
    return stack([flatten(grid) for grid in meshgrid(vectors)], 1, name)


def combinations(
    x: Variable, r: int = 2, with_replacement: bool = False, name: str | None = None
) -> Variable:
    """List all ways to take r elements of a vector of known size, as rows (combinations)."""
    shape = arguments.variable(x, "x", "combinations").shape
    if len(shape) != 1 or shape[0] < 0:
        raise ValueError(f"combinations(): 'x' should be 1-D of known size, found {list(shape)}")
    count = arguments.integer(r, "r", "combinations")
    if count < 0:
        raise ValueError(f"combinations(): 'r' should not be negative, but received {r}")
    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(pick(range(shape[0]), count)), "int64").reshape(-1, count)
    if not count or not places.size:
        return full([0], 0, x.dtype)
    return _elements(x, places, name)


def broadcast_shape(x_shape: Any, y_shape: Any) -> list[int]:
    """Compute the shape that two shapes broadcast to, as a list (paddle.broadcast_shape)."""
    return list(broadcast_shapes(tuple(x_shape), tuple(y_shape)))
