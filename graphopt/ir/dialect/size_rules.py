"""Infer result sizes from operand sizes.

A rule states only what holds in every run that succeeds: where two sizes may broadcast, neither is
assumed equal to the other, and the result has a size composed of both. One fact holds only for
tensors with elements: that a 0 in a reshape copies a size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.op import PdOp, class_of
from graphopt.ir.dialect.ops.creation import Arange, Full
from graphopt.ir.dialect.ops.dynamic import Dynamic, decode_properties
from graphopt.ir.dialect.ops.index import Embedding, Gather
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.norm import LayerNorm
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.rearrange import RepeatInterleave, Tile, TriangleOf, Unbind
from graphopt.ir.dialect.ops.shape import (
    Concat,
    Expand,
    Flatten,
    Reshape,
    ReshapeLike,
    Slice,
    Split,
    Squeeze,
    Stack,
    Transpose,
    Unsqueeze,
)
from graphopt.ir.dialect.sums import (
    Amount,
    SymbolicSum,
    broadcast,
    is_at_least,
    product,
    quotient,
    size_of,
)
from graphopt.ir.dialect.traits import AlongAxis, Elementwise, Reduction, Rowwise
from graphopt.ir.dialect.types import UNKNOWN, normalize_axes, normalize_axis, shape_of

Sizes = tuple[Amount, ...]
# An array of numbers, or of Python objects: numbers, sums of sizes, and None if unknown.
Elements = np.ndarray[Any, Any]
# None for a size that only the op itself determines
Found = Sequence[Amount | None]
Rule = Callable[[PdOp, Sequence[Sizes]], Found | None]
Attrs = Mapping[str, Any]


def own_sizes(value: SSAValue) -> Sizes:
    """Return the sizes of a value's type, with a symbol for each unknown axis."""
    return tuple(
        size_of(value, axis) if dim == UNKNOWN else dim
        for axis, dim in enumerate(shape_of(value.type))
    )


def result_sizes(
    op: PdOp, sizes: Callable[[SSAValue], Sizes], elements: Callable[[SSAValue], Elements | None]
) -> Mapping[SSAValue, Sizes]:
    """Infer the result sizes of an op where more is known than the result types state."""
    given = [sizes(value) for value in op.operands]
    if isinstance(op, Dynamic):
        found = _dynamic(op, given, elements)
    else:
        rule = _rule(op)
        found = None if rule is None else rule(op, given)
    if found is None:
        return {}
    results = op.results if isinstance(op, (Split, Unbind)) else op.results[:1]
    return {result: _refine_sizes(own_sizes(result), found) for result in results}


def _refine_sizes(own: Sizes, found: Found) -> Sizes:
    """Replace the open sizes of a value by inferred ones; a size that the type knows stays."""
    if len(own) != len(found):
        return own
    pairs = zip(own, found, strict=True)
    return tuple(mine if isinstance(mine, int) or its is None else its for mine, its in pairs)


def _rule(op: PdOp) -> Rule | None:
    """Select the size rule of an op, by its class or else by its traits."""
    if type(op) in _RULES:
        return _RULES[type(op)]
    if op.has_trait(Elementwise):
        return _elementwise
    along = op.get_trait(AlongAxis)
    if along is not None and along.kept_axis(op) is not None:
        return _first
    if op.has_trait(Reduction) and "keepdim" in attr_kinds(type(op)):
        return _reduce_sizes
    rowwise = op.get_trait(Rowwise)
    return _rows if rowwise is not None and rowwise.when(op) else None


def _first(op: PdOp, given: Sequence[Sizes]) -> Found:
    return given[0]


def _rows(op: PdOp, given: Sequence[Sizes]) -> Found:
    rank = len(shape_of(op.results[0].type))
    return (*given[0][:1], *(None,) * (rank - 1))


def _reduce_sizes(op: PdOp, given: Sequence[Sizes]) -> Found:
    reduction = op.get_trait(Reduction)
    assert reduction is not None
    gone, keeps = reduction.axes(op), op.attr("keepdim")
    sizes = enumerate(given[0])
    return [1 if axis in gone else size for axis, size in sizes if keeps or axis not in gone]


def _elementwise(op: PdOp, given: Sequence[Sizes]) -> Found:
    return _together(given, len(shape_of(op.results[0].type)))


def _together(given: Sequence[Sizes], rank: int) -> Found:
    """Broadcast sizes, aligned at the last axis."""
    return [
        broadcast(sizes[axis] for sizes in given if -axis <= len(sizes)) for axis in range(-rank, 0)
    ]


def _matmul(op: PdOp, given: Sequence[Sizes]) -> Found | None:
    """Infer the broadcast batch sizes, the rows of x and the columns of y; None for vectors."""
    x, y = given
    if len(x) < 2 or len(y) < 2:
        return None
    rows = x[-1 if op.attr("transpose_x") else -2]
    columns = y[-2 if op.attr("transpose_y") else -1]
    return (*_together((x[:-2], y[:-2]), max(len(x), len(y)) - 2), rows, columns)


def _transpose(op: PdOp, given: Sequence[Sizes]) -> Found:
    perm: Sequence[int] = op.attr("perm")
    return [given[0][axis] for axis in perm]


def _reshape(op: PdOp, given: Sequence[Sizes]) -> Found | None:
    return _reshape_sizes(given[0], op.attr("shape"))


def _reshape_sizes(x: Sizes, wanted: Found) -> Found | None:
    """Resolve a target shape: 0 copies the size at its place, -1 takes the rest."""
    if 0 in x:
        return None  # a 0 in the shape may then be a size of the result
    found = [x[at] if size == 0 and at < len(x) else size for at, size in enumerate(wanted)]
    if -1 in found:
        at = found.index(-1)
        others = [size for size in found if size is not None and size != -1]
        is_known = len(others) == len(found) - 1
        found[at] = quotient(product(x), product(others)) if is_known else None
    known = [size for size in found if size is not None]
    if len(known) == len(found) and product(known) == product(x):
        return found
    # a size that is 0 in some run would be read as "copy", so only copies of it are kept
    copied = [isinstance(size, int) or x[at : at + 1] == (size,) for at, size in enumerate(found)]
    return [size if kept else None for size, kept in zip(found, copied, strict=True)]


def _reshape_like(op: PdOp, given: Sequence[Sizes]) -> Found:
    x, like = given
    wanted: Sequence[int] = op.attr("shape")
    sizes = {at: size or like[at] for at, size in enumerate(wanted) if size != -1}
    left = quotient(product(x), product(sizes.values()))
    return [sizes.get(at, left) for at in range(len(wanted))]


def _flatten(op: PdOp, given: Sequence[Sizes]) -> Found | None:
    x = given[0]
    if not x:
        return None
    start = normalize_axis(op.attr("start_axis"), len(x))
    stop = normalize_axis(op.attr("stop_axis"), len(x)) + 1
    return (*x[:start], product(x[start:stop]), *x[stop:])


def _squeeze(op: PdOp, given: Sequence[Sizes]) -> Found:
    axes, shape = op.attr("axis"), shape_of(op.operands[0].type)
    among = normalize_axes(axes, len(shape)) if axes else range(len(shape))
    # the type rule assumes that a named axis of open size is 1
    dropped = {at for at in among if shape[at] == 1 or (axes and shape[at] == UNKNOWN)}
    return [size for at, size in enumerate(given[0]) if at not in dropped]


def _unsqueeze(op: PdOp, given: Sequence[Sizes]) -> Found:
    sizes = list(given[0])
    for position in op.attr("axis"):
        sizes.insert(normalize_axis(position, len(sizes) + 1), 1)
    return sizes


def _concat(op: PdOp, given: Sequence[Sizes]) -> Found:
    """Add up the sizes along the axis; take the others from the first operand."""
    at = normalize_axis(op.attr("axis"), len(given[0]))
    return (*given[0][:at], sum(sizes[at] for sizes in given), *given[0][at + 1 :])


def _stack(op: PdOp, given: Sequence[Sizes]) -> Found:
    at = normalize_axis(op.attr("axis"), len(given[0]) + 1)
    return (*given[0][:at], len(given), *given[0][at:])


def _tile(op: PdOp, given: Sequence[Sizes]) -> Found:
    times: Sequence[int] = op.attr("repeat_times")
    rank = max(len(times), len(given[0]))
    sizes, counts = ((1,) * (rank - len(row)) + tuple(row) for row in (given[0], times))
    return [size * count for size, count in zip(sizes, counts, strict=True)]


def _repeat(op: PdOp, given: Sequence[Sizes]) -> Found:
    at = normalize_axis(op.attr("axis"), len(given[0]))
    return (*given[0][:at], given[0][at] * op.attr("repeats"), *given[0][at + 1 :])


def _replace(op: PdOp, given: Sequence[Sizes], *sizes: Amount | None) -> Found:
    """Put sizes, or none, in place of the size along the axis."""
    at = normalize_axis(op.attr("axis"), len(given[0]))
    return (*given[0][:at], *sizes, *given[0][at + 1 :])


def _slice(op: PdOp, given: Sequence[Sizes]) -> Found:
    return _slice_sizes(given[0], op.attr_values())


def _slice_sizes(x: Sizes, attrs: Attrs) -> Found:
    sizes: list[Amount | None] = list(x)
    for axis, start, end in zip(attrs["axes"], attrs["starts"], attrs["ends"], strict=True):
        at = normalize_axis(axis, len(sizes))
        sizes[at] = None if start is None or end is None else _cut(x[at], start, end)
    dropped = normalize_axes(attrs["decrease_axis"], len(sizes))
    return [size for axis, size in enumerate(sizes) if axis not in dropped]


# An end of at least this means the end of the axis, whose size is an int32.
_OPEN = 2**31 - 1


def _cut(size: Amount, start: Amount, end: Amount) -> Amount | None:
    """Compute the size of a range; None if only the run decides whether the axis contains it."""
    low, high = _from_front(start, size), _from_front(end, size)
    if high is None or low is None:
        return None
    inside = is_at_least(low, 0) and is_at_least(high - low, 0) and is_at_least(size - high, 0)
    return high - low if inside else None


def _from_front(bound: Amount, size: Amount) -> Amount | None:
    """Count a bound from the front, a negative one from the end; None if its sign is open."""
    if isinstance(bound, SymbolicSum):
        return bound if is_at_least(bound, 0) else None
    return size if bound >= _OPEN else size + bound if bound < 0 else bound


def _expand(op: PdOp, given: Sequence[Sizes]) -> Found:
    return _expand_sizes(given[0], op.attr("shape"))


def _expand_sizes(x: Sizes, wanted: Found) -> Found:
    """Resolve a target shape in which -1 keeps the operand's size."""
    own = (1,) * (len(wanted) - len(x)) + x
    return [mine if size == -1 else size for size, mine in zip(wanted, own, strict=True)]


def _embedding(op: PdOp, given: Sequence[Sizes]) -> Found:
    return (*given[0], given[1][1])


def _dynamic(
    op: Dynamic, given: Sequence[Sizes], elements: Callable[[SSAValue], Elements | None]
) -> Found | None:
    """Infer sizes where operands stand for properties and their elements are known."""
    rule = _DYNAMIC.get(op.attr("op"))
    found = [elements(value) for value in op.values]
    known = [_numbers(each) for each in found if each is not None]
    if rule is None or len(known) < len(found):
        return None
    attrs = decode_properties(class_of(op.attr("op")), op.attr("attrs"))
    return rule(given, {**attrs, **dict(zip(op.attr("dynamic"), known, strict=True))})


def amounts(elements: Elements) -> list[Amount | None]:
    """List the elements of a shape in order; None for one that may be negative, so no size."""
    return _as_sizes(_numbers(elements))


def _numbers(elements: Elements) -> list[Amount | None]:
    return [_whole(element) for element in elements.ravel()]


def _whole(number: Any) -> Amount | None:
    if number is None or isinstance(number, SymbolicSum):
        return number
    return int(number) if float(number).is_integer() else None


def _as_sizes(numbers: Iterable[Amount | None]) -> list[Amount | None]:
    return [None if isinstance(n, SymbolicSum) and not is_at_least(n, 0) else n for n in numbers]


def _in_steps_of_one(attrs: Attrs) -> Found | None:
    """Infer the length of an integer range with step 1; None for other ranges."""
    given: list[Any] = [attrs[name] for name in ("start", "end", "step")]
    start, end, step = (_whole(*bound if isinstance(bound, list) else (bound,)) for bound in given)
    if start is None or end is None or step != 1:
        return None
    return [end - start] if is_at_least(end - start, 0) else None


_DYNAMIC: Mapping[str, Callable[[Sequence[Sizes], Attrs], Found | None]] = {
    Arange.name: lambda given, attrs: _in_steps_of_one(attrs),
    Expand.name: lambda given, attrs: _expand_sizes(given[0], _as_sizes(attrs["shape"])),
    Full.name: lambda given, attrs: _as_sizes(attrs["shape"]),
    Reshape.name: lambda given, attrs: _reshape_sizes(given[0], _as_sizes(attrs["shape"])),
    Slice.name: lambda given, attrs: _slice_sizes(given[0], attrs),
}
_RULES: Mapping[type[PdOp], Rule] = {
    Concat: _concat,
    Dropout: _first,
    Embedding: _embedding,
    Expand: _expand,
    Flatten: _flatten,
    # one slice along the axis for each element of the index, whatever its shape
    Gather: lambda op, given: _replace(op, given, product(given[1])),
    LayerNorm: _first,
    Matmul: _matmul,
    RepeatInterleave: _repeat,
    Reshape: _reshape,
    ReshapeLike: _reshape_like,
    Slice: _slice,
    # the result type has the size along the split axis
    Split: lambda op, given: _replace(op, given, None),
    Squeeze: _squeeze,
    Stack: _stack,
    Tile: _tile,
    Transpose: _transpose,
    TriangleOf: _first,
    Unbind: lambda op, given: _replace(op, given),
    Unsqueeze: _unsqueeze,
}
