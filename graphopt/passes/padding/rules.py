"""The records that a rule for padded axes returns, and the helpers that rules share.

`carry` returns the axes of an op's results and the masks that the op needs: the operands whose rows
beyond the data must become a neutral element first. An op without a rule, or one that would let
those rows into its results, raises CannotPad. The rules are in the other files of this folder.

Padding repeats the last row of the data. So whatever an op computes on such a row is as ordinary as
its other results: no infinity or NaN comes from padding, not even in derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from math import isfinite
from typing import Any, Protocol

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.index import Gather
from graphopt.ir.dialect.ops.math import Cast, Scale
from graphopt.ir.dialect.ops.shape import Slice
from graphopt.ir.dialect.traits import Elementwise, Movement, Rowwise
from graphopt.ir.dialect.types import dtype_of, normalize_axes, rank_of, shape_of
from graphopt.passes.padding.dims import Axes, CannotPad, Dim, Extent, Grown


@dataclass(frozen=True)
class Mask:
    """A mask: before the op runs, operand `operand` becomes `fill` beyond the data of `axes`."""

    operand: int
    axes: tuple[int, ...]
    fill: float


# an end past the end of any axis
FAR = 2**31 - 1


class RealRows(Protocol):
    """The masks and counts of data rows, for a rule that replaces an op."""

    def mask(self, dim: Dim, rank: int, at: int) -> SSAValue:
        """Return the bool mask of data rows, to broadcast along axis `at` of this rank."""
        ...

    def count(self, dim: Dim) -> SSAValue:
        """Return the number of data rows, int64 []."""
        ...


# writes ops before an op with masked operands; returns the replacements of its results
Write = Callable[[Any, RealRows], Sequence[SSAValue]]


@dataclass(frozen=True)
class Carried:
    """The axes of an op's results, the masks of its operands and of its first result.

    With `write`, other ops replace the op once its operands are masked.
    """

    results: tuple[Axes, ...]
    masks: tuple[Mask, ...] = ()
    after: tuple[int, ...] = ()
    """The axes along which the first result is set to 0 beyond the data."""
    write: Write | None = None


@dataclass(frozen=True)
class Padded:
    """The axes of the values of a module; a value that is absent has no padded axis.

    `equal` has pairs of dimensions that must have one size, which each run checks in its feeds.
    `lengths` maps fed lengths of sequences to the dimension of their rows. `zero` has the values
    that are 0 beyond the data: buffers that rows may be written into.
    """

    known: Mapping[SSAValue, Axes]
    equal: set[tuple[Dim, Dim]] = field(default_factory=set[tuple[Dim, Dim]])
    lengths: Mapping[SSAValue, Dim] = field(default_factory=dict[SSAValue, Dim])
    zero: set[SSAValue] = field(default_factory=set[SSAValue])

    def meet(self, one: Dim | None, other: Dim | None) -> bool:
        """Return whether the axes of two operands may meet, and note sizes that must be equal.

        Images that reach an op on two paths, scaled down and up again, mostly have the same size
        there, though not for each size of the feeds.
        """
        if one == other:
            return True
        if one is None or other is None or len(one) != 1 or len(other) != 1:
            return False
        (a,), (b,) = one, other
        if isinstance(a, Grown) or isinstance(b, Grown):
            return False  # one has more rows than the other
        names = {x.name if isinstance(x, Extent) else x for x in (a, b)}
        if len(names) != 1:
            return False
        self.equal.add((one, other))
        return True

    def of(self, value: SSAValue) -> Axes:
        """Return the dimension of each axis of the value; None where an axis is not padded."""
        return self.known.get(value) or (None,) * rank_of(value.type)

    def is_zero(self, value: SSAValue) -> bool:
        """True for a value that is 0 beyond the data: a buffer, or copies of its elements."""
        op = value.owner
        if value in self.zero:
            return True
        if not isinstance(op, PdOp) or not (op.has_trait(Movement) or _keeps_zero(op)):
            return False
        return all(map(self.is_zero, op.operand_groups()[0]))


def _keeps_zero(op: PdOp) -> bool:
    """True for an op that keeps or scales the elements of its first operand: 0 stays 0."""
    if isinstance(op, Scale):
        return op.attr("bias") == 0 and isfinite(op.attr("scale"))
    return isinstance(op, Cast | Gather)


class MeetsOther(CannotPad):
    """A padded axis meets an unpadded axis of `value`, which would have to be `dim`."""

    def __init__(self, value: SSAValue, at: int, dim: Dim) -> None:
        super().__init__("meets-other-size", f"a padded axis meets an unpadded axis, axis {at}")
        self.value, self.at, self.dim = value, at, dim


@singledispatch
def carry(op: PdOp, padded: Padded) -> Carried:
    """Apply the rule of an op's class, else the rule of the class's traits.

    Raise CannotPad without a rule, or when the rule does not allow padding.
    """
    if op.has_trait(Elementwise):
        return same(op, broadcast(op.operands, padded))
    rowwise = op.get_trait(Rowwise)
    if rowwise is not None and rowwise.when(op):
        return _rows(op, rowwise, padded)
    raise CannotPad("no-rule", "the op may let rows depend on each other")


def _rows(op: PdOp, rowwise: Rowwise, padded: Padded) -> Carried:
    """Give all results the rows of the first operand, whose other axes may not be padded."""
    if rowwise.of_all or rowwise.first_result:
        raise CannotPad("no-rule", "another operand has rows, or a result has none")
    axes = input_axes(op, padded)
    check_only_rows(axes)
    return Carried(tuple((axes[0], *(None,) * (rank_of(r.type) - 1)) for r in op.results))


def same(op: PdOp, axes: Axes) -> Carried:
    """Give all results the axes of the operand; they must have its rank."""
    return Carried(tuple(axes for _ in op.results))


def takes_one(start: int, end: int) -> bool:
    """True when a slice from start to end is the first row or the last one, whatever the size."""
    return (start, end) == (0, 1) or (start == -1 and end >= FAR)


def sizes_of(value: SSAValue, padded: Padded) -> tuple[int, ...]:
    """Return the shape; a slice of one row has size 1 there, as padded axes are never empty."""
    op, shape = value.owner, list(shape_of(value.type))
    if isinstance(op, FullLike):
        return sizes_of(op.operands[0], padded)
    if isinstance(op, Slice) and not op.attr("decrease_axis"):
        axes = padded.of(op.operands[0])
        cut = normalize_axes(op.attr("axes"), len(axes))
        for at, start, end in zip(cut, op.attr("starts"), op.attr("ends"), strict=True):
            if axes[at] is not None and takes_one(start, end):
                shape[at] = 1
    return tuple(shape)


def check_free(axes: Axes, positions: Sequence[int], what: str) -> None:
    """Raise CannotPad when one of these axes is padded."""
    for position in positions:
        if axes[position] is not None:
            raise CannotPad("padded-axis", f"{what} (axis {position}) is padded")


def check_only_rows(axes: Axes) -> None:
    """Raise CannotPad when an axis other than the first is padded."""
    check_free(axes, range(1, len(axes)), "an axis that the op computes along")


def input_axes(op: PdOp, padded: Padded) -> Axes:
    """Return the first operand's axes; raise CannotPad if another one (a weight) is padded."""
    if any(any(padded.of(value)) for value in op.operands[1:]):
        raise CannotPad("padded-weight", "a weight is padded")
    return padded.of(op.operands[0])


def broadcast(operands: Sequence[SSAValue], padded: Padded) -> Axes:
    """Compute the axes of an elementwise result."""
    rank = max(rank_of(value.type) for value in operands)
    found: list[Dim | None] = [None] * rank
    for value in operands:
        for position, dim in enumerate(padded.of(value), rank - rank_of(value.type)):
            if dim is not None:
                if found[position] is not None and not padded.meet(found[position], dim):
                    raise CannotPad(
                        "different-padding",
                        f"two operands are padded differently on axis {position}",
                    )
                found[position] = found[position] or dim
    for value in operands:
        offset = rank - rank_of(value.type)
        pairs = zip(padded.of(value), sizes_of(value, padded), strict=True)
        for position, (dim, size) in enumerate(pairs, offset):
            if (wanted := found[position]) is not None and dim is None and size != 1:
                raise MeetsOther(value, position - offset, wanted)
    return tuple(found)


def fill_of(fill: float, value: SSAValue) -> float:
    """Convert the fill to the value's dtype; raise CannotPad where the dtype has no such limit."""
    dtype = dtype_of(value.type)
    if dtype.is_differentiable or fill in (0.0, 1.0) or dtype == "bool":
        return fill
    if fill == -1.0 and not dtype.startswith("u"):
        return fill
    limit = dtype.ends[fill > 0]
    if limit != -(2**63) and not -(2**31) <= limit < 2**32:
        # float64, the type of constants in the IR, does not hold it
        raise CannotPad(
            "no-neutral-element",
            f"no padding value of dtype {dtype} leaves the reduction unchanged",
        )
    return limit
