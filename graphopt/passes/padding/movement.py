"""Padded axes in ops that move, join or look up elements without computing on them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.index import Embedding, Gather, OneHot, WriteRows
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.ops.rearrange import ExpandAs, Tile, Unbind
from graphopt.ir.dialect.ops.shape import (
    Concat,
    Expand,
    Flatten,
    Reshape,
    ShapeOf,
    Slice,
    Split,
    Squeeze,
    Stack,
    Transpose,
    Unsqueeze,
)
from graphopt.ir.dialect.ops.sort import Topk
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, normalize_axes, normalize_axis, shape_of
from graphopt.passes.engine.inserting import Before
from graphopt.passes.engine.rewrite import insert
from graphopt.passes.padding.dims import (
    Axes,
    CannotPad,
    Dim,
    factors_of,
    grow_dim,
    join_factors,
    reshape_axes,
    scale_dim,
)
from graphopt.passes.padding.rules import (
    Carried,
    Padded,
    RealRows,
    broadcast,
    carry,
    check_free,
    same,
    sizes_of,
)


@carry.register(Embedding)
def _(op: Embedding, padded: Padded) -> Carried:
    numbers, weight = op.operands[:2]
    check_free(padded.of(weight), (0, 1), "the table")
    return Carried(((*padded.of(numbers), None),))


@carry.register(OneHot)
def _(op: OneHot, padded: Padded) -> Carried:
    return Carried(((*padded.of(op.operands[0]), None),))


@carry.register(Gather)
def _(op: Gather, padded: Padded) -> Carried:
    x, index = (padded.of(value) for value in op.operands[:2])
    at = normalize_axis(op.attr("axis"), len(x))
    check_free(x, (at,), "the axis that the op looks up in")
    check_free(index, range(1, len(index)), "the second axis of the index")
    return Carried(((*x[:at], *index[:1], *x[at + 1 :]),))


@carry.register(Topk)
def _(op: Topk, padded: Padded) -> Carried:
    axes = padded.of(op.operands[0])
    check_free(axes, (normalize_axis(op.attr("axis"), len(axes)),), "the axis that the op sorts")
    return same(op, axes)


@carry.register(Reshape)
def _(op: Reshape, padded: Padded) -> Carried:
    value = op.operands[0]
    return Carried((reshape_axes(sizes_of(value, padded), padded.of(value), op.attr("shape")),))


@carry.register(Flatten)
def _(op: Flatten, padded: Padded) -> Carried:
    value = op.operands[0]
    axes, shape = padded.of(value), sizes_of(value, padded)
    start = normalize_axis(op.attr("start_axis"), len(axes))
    stop = normalize_axis(op.attr("stop_axis"), len(axes)) + 1
    pairs = zip(shape[start:stop], axes[start:stop], strict=True)
    inside: Dim | None = None
    if any(axes[start:stop]):
        inside = join_factors(factor for size, dim in pairs for factor in factors_of(size, dim))
    return Carried(((*axes[:start], inside, *axes[stop:]),))


@carry.register(Transpose)
def _(op: Transpose, padded: Padded) -> Carried:
    axes, perm = padded.of(op.operands[0]), list[int](op.attr("perm"))
    return Carried((tuple(axes[axis] for axis in perm),))


@carry.register(ShapeOf)
def _(op: ShapeOf, padded: Padded) -> Carried:
    """Replace padded sizes by the sizes of the data, which the program computes with."""
    axes = padded.of(op.input)
    if not any(axes):
        return Carried(((None,),))
    if _sets_sizes(op.out):
        raise CannotPad("size-of-tensor", "a tensor gets its size from the result of the op")
    return Carried(((None,),), write=partial(_true_sizes, axes))


def _sets_sizes(value: SSAValue) -> bool:
    """True when a value reaches an op whose attributes are values, such as a reshape's shape."""
    left, seen = [value], {value}
    while left:
        for use in left.pop().uses:
            if isinstance(use.operation, Dynamic):
                return True
            new = set(use.operation.results) - seen
            seen |= new
            left += new
    return False


def _true_sizes(axes: Axes, op: ShapeOf, real: RealRows) -> Sequence[SSAValue]:
    dtype, own = dtype_of(op.out.type), op.input
    whole = insert(ShapeOf.make(own), op)
    parts: list[SSAValue] = []
    for at, dim in enumerate(axes):
        if dim is None:
            bounds = {"axes": (0,), "starts": (at,), "ends": (at + 1,)}
            parts.append(insert(Slice.make(whole, **bounds), op))
            continue
        size = insert(Cast.make(real.count(dim), dtype=dtype), op)
        parts.append(insert(Reshape.make(size, shape=(1,)), op))
    return (insert(Concat.make(parts, axis=0), op),)


@carry.register(ExpandAs)
def _(op: ExpandAs, padded: Padded) -> Carried:
    return same(op, broadcast(op.operands, padded))


@carry.register(Squeeze)
def _(op: Squeeze, padded: Padded) -> Carried:
    value = op.operands[0]
    axes, shape = padded.of(value), sizes_of(value, padded)
    given = op.attr("axis")
    dropped = set(normalize_axes(given, len(axes)) if given else range(len(axes)))
    check_free(axes, sorted(dropped), "an axis that the op may drop")
    # the type rule assumes that a named axis of unknown size has size 1
    ones = (1, UNKNOWN) if given else (1,)
    gone = {position for position in dropped if shape[position] in ones}
    return Carried((tuple(dim for position, dim in enumerate(axes) if position not in gone),))


@carry.register(Unsqueeze)
def _(op: Unsqueeze, padded: Padded) -> Carried:
    axes = list(padded.of(op.operands[0]))
    for position in op.attr("axis"):
        axes.insert(normalize_axis(position, len(axes) + 1), None)
    return Carried((tuple(axes),))


@carry.register(Tile)
def _(op: Tile, padded: Padded) -> Carried:
    axes, times = padded.of(op.operands[0]), list[int](op.attr("repeat_times"))
    extra = max(len(times) - len(axes), 0)
    times = [1] * (len(axes) + extra - len(times)) + times
    repeated = [at for at, dim in enumerate(axes) if times[extra + at] != 1 and dim is not None]
    check_free(axes, repeated, "an axis that the op repeats")
    return Carried((((None,) * extra) + axes,))


@carry.register(Concat)
def _(op: Concat, padded: Padded) -> Carried:
    every = [padded.of(value) for value in op.operands]
    at = normalize_axis(op.attr("axis"), len(every[0]))
    if (found := _append_rows(op, padded, every, at)) is not None:
        return found
    joined = every[-1][at]
    if joined is not None and not any(axes[at] for axes in every[:-1]):
        # rows without padding come before the padded ones
        sizes = [sizes_of(value, padded)[at] for value in op.operands[:-1]]
        if UNKNOWN in sizes:
            raise CannotPad(
                "unknown-growth", "the number of added rows is known only when the program runs"
            )
        joined = scale_dim(joined, 1, sum(sizes))
        every = [(*axes[:at], None, *axes[at + 1 :]) for axes in every]
    else:
        check_free(every[0], (at,), "the axis that the op joins")
        joined = None
    if not all(padded.meet(*pair) for axes in every for pair in zip(every[0], axes, strict=True)):
        raise CannotPad("different-padding", "the parts are padded differently")
    return Carried(((*every[0][:at], joined, *every[0][at + 1 :]),))


def _append_rows(op: Concat, padded: Padded, every: Sequence[Axes], at: int) -> Carried | None:
    """Write rows after the rows of a buffer that has room for them; None for another concat."""
    buffer, *rows = op.operands
    dim = every[0][at]
    if dim is None or not padded.zero:
        if padded.zero and any(axes[at] for axes in every):
            raise CannotPad(
                "grows-in-front", "the rows of a buffer are not the first part of the result"
            )
        return None
    if any(axes[at] is not None for axes in every[1:]):
        raise CannotPad("two-buffers", "the op joins two buffers, and the end of one is not known")
    others = [[*axes[:at], *axes[at + 1 :]] for axes in every]
    if any(axes != others[0] for axes in others):
        raise CannotPad("different-padding", "the parts are padded differently")
    counts = [shape_of(value.type)[at] for value in rows]
    if UNKNOWN in counts:
        raise CannotPad(
            "unknown-growth", "the number of added rows is known only when the program runs"
        )
    result = (*every[0][:at], grow_dim(dim, sum(counts)), *every[0][at + 1 :])
    if padded.is_zero(buffer):
        padded.zero.add(op.results[0])

    def write(op: Concat, real: RealRows) -> Sequence[SSAValue]:
        new, (buffer, *rows) = Before(op), op.operands
        added = rows[0] if len(rows) == 1 else new(Concat.make(rows, axis=at))
        return [new(WriteRows.make(buffer, added, real.count(dim), axis=at))]

    return Carried((result,), write=write)


@carry.register(Stack)
def _(op: Stack, padded: Padded) -> Carried:
    every = [padded.of(value) for value in op.operands]
    if any(axes != every[0] for axes in every):
        raise CannotPad("different-padding", "the parts are padded differently")
    at = normalize_axis(op.attr("axis"), len(every[0]) + 1)
    return Carried(((*every[0][:at], None, *every[0][at:]),))


@carry.register(Split)
def _(op: Split, padded: Padded) -> Carried:
    axes = padded.of(op.operands[0])
    check_free(axes, (normalize_axis(op.attr("axis"), len(axes)),), "the axis that the op splits")
    return same(op, axes)


@carry.register(Unbind)
def _(op: Unbind, padded: Padded) -> Carried:
    axes = padded.of(op.operands[0])
    at = normalize_axis(op.attr("axis"), len(axes))
    check_free(axes, (at,), "the axis that the op takes apart")
    return same(op, (*axes[:at], *axes[at + 1 :]))


@carry.register(Expand)
def _(op: Expand, padded: Padded) -> Carried:
    axes, wanted = padded.of(op.operands[0]), op.attr("shape")
    extra = len(wanted) - len(axes)
    for dim, size in zip(axes, wanted[extra:], strict=True):
        if dim is not None and size != -1:
            raise CannotPad("meets-other-size", f"the op expands a padded axis to {size}")
    return Carried((((None,) * extra) + axes,))
