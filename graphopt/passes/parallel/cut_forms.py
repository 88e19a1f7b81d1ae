"""The forms in which an op computes with pieces of values, one piece on each device of a replica.

A form says along which axis each operand and each result is cut (None: whole on each device). Most
forms follow from the traits of an op (`traits.py`); products, lookups and ops that move axes have
rules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.ir import Attribute

from graphopt.errors import ProgramError
from graphopt.ir.dialect.definition import attr_kinds
from graphopt.ir.dialect.op import PdOp, infer_types
from graphopt.ir.dialect.ops.comm import CEmbedding, cut_shape
from graphopt.ir.dialect.ops.index import Embedding
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.reduce import SquaredL2Norm, Sum
from graphopt.ir.dialect.ops.shape import Concat, Reshape, Slice, Split, Transpose
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.traits import (
    AlongAxis,
    Reduction,
    keeps_order,
    takes_any_order,
)
from graphopt.ir.dialect.types import (
    UNKNOWN,
    Shape,
    like,
    normalize_axes,
    normalize_axis,
    product,
    rank_of,
    shape_of,
)
from graphopt.passes.parallel.shard_updates import spread_operands

Axes = tuple["int | None", ...]


@dataclass(frozen=True)
class CutForm:
    """A form of an op: the axes along which its operands and results are cut.

    With `partial` the results are terms of sums over the devices. `attrs` replaces properties of
    the op, and `kind` its class.
    """

    operands: Axes
    results: Axes
    partial: bool = False
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    kind: type[PdOp] | None = None

    def call_of(self, op: PdOp) -> tuple[type[PdOp], dict[str, Any]]:
        """Return the class and the properties of the op that computes with pieces."""
        kind = self.kind or type(op)
        known = attr_kinds(kind)
        kept = {name: value for name, value in op.attr_values().items() if name in known}
        return kind, kept | dict(self.attrs)


def cut_forms(op: PdOp, degree: int) -> list[CutForm]:
    """List the forms of an op with `degree` pieces; empty for an op that needs whole values."""
    if op.regions:
        return []
    forms = _propose_forms(op)
    if isinstance(op, Reshape):
        forms = (_with_piece_sizes(op, form, degree) for form in forms)
    return [form for form in forms if _fits(op, form, degree)]


def _propose_forms(op: PdOp) -> Iterator[CutForm]:
    """Yield forms that hold if the sizes are right."""
    for kind, propose in _BY_KIND.items():
        if isinstance(op, kind):
            yield from propose(op)
            return
    if takes_any_order(op):
        yield from _elementwise(op)
    elif len(op.operands) == 1:
        if keeps_order(op) and len(op.results) == 1:
            yield from _in_order(op)
        elif (along := op.get_trait(AlongAxis)) is not None:
            yield from _beside(op, {along.kept_axis(op)})
        elif (reduction := op.get_trait(Reduction)) is not None:
            yield from _reduction(op, reduction.axes(op))


def _fits(op: PdOp, form: CutForm, degree: int) -> bool:
    """True when sizes divide and the op gives pieces of its results for pieces of its operands."""
    try:
        operands = [
            piece_type(value.type, axis, degree)
            for value, axis in zip(op.operands, form.operands, strict=True)
        ]
        wanted = [
            piece_type(value.type, axis, degree)
            for value, axis in zip(op.results, form.results, strict=True)
        ]
        groups = [[operands.pop(0) for _ in group] for group in op.operand_groups()]
        kind, attrs = form.call_of(op)
        found = infer_types(kind, groups, attrs)
    except ProgramError:
        return False
    return [shape_of(type_) for type_ in found] == [shape_of(type_) for type_ in wanted]


def piece_type(type_: Attribute, axis: int | None, degree: int) -> Any:
    """Compute the type of a piece; raise ProgramError where the axis has no equal pieces."""
    if axis is None:
        return type_
    return like(type_, shape=cut_shape(shape_of(type_), axis, degree))  # pyright: ignore


# -- kinds of ops ----------------------------------------------------------------------------------


def _matmul(op: PdOp) -> Iterator[CutForm]:
    """Cut by columns, by rows (the results are terms of a sum), by rows of x, or by the batch."""
    x, y = (rank_of(value.type) for value in op.operands)
    if min(x, y) < 2:
        return
    rank = rank_of(op.results[0].type)
    rows, inner_x = (x - 1, x - 2) if op.attr("transpose_x") else (x - 2, x - 1)
    inner_y, columns = (y - 1, y - 2) if op.attr("transpose_y") else (y - 2, y - 1)
    yield CutForm((None, columns), (rank - 1,))
    yield CutForm((inner_x, inner_y), (None,), partial=True)
    yield CutForm((rows, None), (rank - 2,))
    for axis in range(rank - 2):
        yield CutForm(_align_axes(op, axis), (axis,))


def _align_axes(op: PdOp, axis: int) -> Axes:
    """Find the operand axes that broadcast to an axis of the result; None where they repeat."""
    rank, size = rank_of(op.results[0].type), shape_of(op.results[0].type)[axis]
    found: list[int | None] = []
    for value in op.operands:
        own = axis - rank + rank_of(value.type)
        found.append(own if own >= 0 and shape_of(value.type)[own] == size != 1 else None)
    return tuple(found)


def _elementwise(op: PdOp) -> Iterator[CutForm]:
    if not op.results or not op.operands:
        return
    for axis in range(rank_of(op.results[0].type)):
        operands = _align_axes(op, axis)
        if any(each is not None for each in operands):
            yield CutForm(operands, (axis,) * len(op.results))


def _dropout(op: PdOp) -> Iterator[CutForm]:
    draws = not op.attr("is_test") and 0 < op.attr("p") < 1
    if op.attr("cut") is None:
        for axis in range(rank_of(op.operands[0].type)):
            yield CutForm((axis,), (axis,), attrs={"cut": axis} if draws else {})


def _embedding(op: PdOp) -> Iterator[CutForm]:
    yield CutForm((None, 1), (rank_of(op.results[0].type) - 1,))
    yield CutForm((None, 0), (None,), partial=True, kind=CEmbedding)


def _beside(op: PdOp, axes: set[int | None]) -> Iterator[CutForm]:
    """Cut along any axis not in `axes`: each line along `axes` is computed by itself."""
    rank = rank_of(op.operands[0].type)
    for axis in set(range(rank)) - axes if None not in axes else ():
        yield CutForm((axis,) * len(op.operands), (axis,) * len(op.results))


def _reduction(op: PdOp, axes: frozenset[int]) -> Iterator[CutForm]:
    rank = rank_of(op.operands[0].type)
    keeps = rank_of(op.results[0].type) == rank
    for axis in range(rank):
        if axis not in axes:
            at = axis if keeps else axis - sum(each < axis for each in axes)
            yield CutForm((axis,), (at,) * len(op.results))
        elif isinstance(op, (Sum, SquaredL2Norm)):
            yield CutForm((axis,), (None,), partial=True)


def _in_order(op: PdOp) -> Iterator[CutForm]:
    """Pair axes with equally many elements before them, so that they begin at the same element."""
    old, new = shape_of(op.operands[0].type), shape_of(op.results[0].type)
    for at in range(len(old)):
        for to in range(len(new)):
            if _count(old[:at]) == _count(new[:to]) and 1 not in (old[at], new[to]):
                yield CutForm((at,), (to,))


def _count(sizes: Shape) -> tuple[int, int]:
    """Return the product of the known sizes, and the number of open sizes."""
    known = [size for size in sizes if size != UNKNOWN]
    return product(known), len(sizes) - len(known)


def _with_piece_sizes(op: Reshape, form: CutForm, degree: int) -> CutForm:
    """Replace the sizes in a reshape's form by the sizes of pieces."""
    (at,), (to,) = form.operands, form.results
    shape: list[int] = list(op.attr("shape"))
    for index, size in enumerate(shape_of(op.results[0].type)):
        if shape[index] == 0 and index == at != to:
            shape[index] = size  # 0 copies the operand's size, which is now the size of a piece
        elif index == to and at != to and shape[index] >= 0:
            shape[index] = size // degree
        elif index == to and shape[index] > 0:
            shape[index] //= degree
    return replace(form, attrs={"shape": shape})


def _transpose(op: PdOp) -> Iterator[CutForm]:
    rank = rank_of(op.operands[0].type)
    for to, at in enumerate(op.attr("perm")):
        yield CutForm((at % rank,), (to,))


def _along(op: PdOp) -> Iterator[CutForm]:
    """Cut a concat or split along any axis but its own."""
    rank = rank_of(op.operands[0].type)
    if len(op.operand_groups()[0]) == len(op.operands) and rank:
        yield from _beside(op, {normalize_axis(op.attr("axis"), rank)})


def _slice(op: PdOp) -> Iterator[CutForm]:
    rank = rank_of(op.operands[0].type)
    if len(op.operands) == 1:
        moved, dropped = (
            set(normalize_axes(op.attr(name), rank)) for name in ("axes", "decrease_axis")
        )
        for axis in set(range(rank)) - moved - dropped:
            yield CutForm((axis,), (axis - sum(each < axis for each in dropped),))


def _update(op: PdOp) -> Iterator[CutForm]:
    """Cut parameter, gradient and state alike, unless the update needs the norm of the whole."""
    assert isinstance(op, Update)
    singles = op.singles()
    if len(singles) != 1 or "in_parts" in attr_kinds(type(op)):
        return
    single = singles[0]
    spread = spread_operands(op, single)
    for axis in range(rank_of(op.operands[single.operands["param"]].type)):
        results: list[int | None] = [None] * len(op.results)
        for name, at in single.results.items():
            results[at] = axis if single.operands[name] in spread else None
        operands = tuple(axis if at in spread else None for at in range(len(op.operands)))
        yield CutForm(operands, tuple(results))


_BY_KIND: Mapping[type[PdOp], Callable[[PdOp], Iterator[CutForm]]] = {
    Matmul: _matmul,
    Embedding: _embedding,
    Dropout: _dropout,
    Transpose: _transpose,
    Concat: _along,
    Split: _along,
    Slice: _slice,
    Update: _update,
}
