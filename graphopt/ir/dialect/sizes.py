"""Sizes of a program that are the same number: `shape(x)[0]` and the first size of a relu of x.

A size is an integer, or an axis of a value whose own sizes come from nowhere else. Sizes count as
equal only if they are so in every run: where two sizes may broadcast, neither is taken for the
other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.creation import AssignValue, Full
from graphopt.ir.dialect.ops.index import Embedding
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.ops.norm import LayerNorm
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.shape import (
    Concat,
    Reshape,
    ShapeOf,
    Slice,
    Stack,
    Transpose,
    Unsqueeze,
    slice_bounds,
)
from graphopt.ir.dialect.traits import AlongAxis, Elementwise, keeps_order
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, rank_of, shape_of

Size = int | tuple[SSAValue, int]
Sizes = tuple[Size, ...]
# the elements of a small vector of integers, None for those that are not sizes
Elements = tuple[Size | None, ...]


class KnownSizes:
    """The sizes of the values of a module; its ops must be visited in order."""

    def __init__(self) -> None:
        self._sizes: dict[SSAValue, Sizes] = {}
        self._elements: dict[SSAValue, Elements] = {}

    def of(self, value: SSAValue) -> Sizes:
        """The sizes of a value."""
        found = self._sizes.get(value)
        return _own(value) if found is None else found

    def elements(self, value: SSAValue) -> Elements | None:
        """The elements of a vector of sizes, None for any other value."""
        return self._elements.get(value)

    def see(self, op: PdOp) -> None:
        """Enter the sizes of an op's results, or the elements of a vector of sizes."""
        if not op.results:
            return
        out = op.results[0]
        rule = _rule(op)
        given = rule(op, [self.of(value) for value in op.operands]) if rule is not None else None
        if given is not None:
            own = _own(out)
            # the type says more than a size that comes from somewhere else
            self._sizes[out] = tuple(
                mine if isinstance(mine, int) else found
                for mine, found in zip(own, given, strict=True)
            )
        numbers = self._numbers(op)
        if numbers is not None:
            self._elements[out] = numbers

    def _numbers(self, op: PdOp) -> Elements | None:
        """The elements of an op's result, if these are sizes."""
        if isinstance(op, ShapeOf):
            return self.of(op.input)
        out = op.results[0]
        if rank_of(out.type) > 1 or dtype_of(out.type).is_floating:
            return None
        if isinstance(op, Full) and shape_of(out.type) in ((), (1,)):
            return (int(op.attr("value")),)
        if isinstance(op, AssignValue) and len(op.attr("values")) <= _MOST:
            return tuple(int(number) for number in op.attr("values"))
        if isinstance(op, Cast) or keeps_order(op):
            return self.elements(op.operands[0])
        if isinstance(op, Slice) and rank_of(op.input.type) == 1:
            return self._cut(op)
        if isinstance(op, Concat) or (isinstance(op, Stack) and rank_of(out.type) == 1):
            parts = [self.elements(part) for part in op.operands]
            if all(part is not None for part in parts) and len(parts) <= _MOST:
                return tuple(number for part in parts for number in part or ())
        return None

    def _cut(self, op: Slice) -> Elements | None:
        whole = self.elements(op.input)
        if whole is None or len(op.attr("axes")) != 1:
            return None
        low, high = slice_bounds(len(whole), op.attr("starts")[0], op.attr("ends")[0])
        return whole[low:high]


# A tensor has fewer dimensions than that.
_MOST = 16


def _own(value: SSAValue) -> Sizes:
    """The sizes that the type knows, and the value's own axes for the others."""
    return tuple(
        (value, axis) if dim == UNKNOWN else dim for axis, dim in enumerate(shape_of(value.type))
    )


Rule = Callable[[PdOp, Sequence[Sizes]], Sizes | None]


def _first(op: PdOp, given: Sequence[Sizes]) -> Sizes | None:
    return given[0]


def _rule(op: PdOp) -> Rule | None:
    """The rule of the op's class, or that of the class's traits."""
    if op.has_trait(Elementwise):
        return _broadcast
    along = op.get_trait(AlongAxis)
    if along is not None and along.kept_axis(op) is not None:
        return _first
    return _RULES.get(type(op))


def _broadcast(op: PdOp, given: Sequence[Sizes]) -> Sizes | None:
    return _together(given, op.results[0], 0)


def _together(given: Sequence[Sizes], out: SSAValue, own_axes: int) -> Sizes:
    """The leading sizes of operands together; the result has `own_axes` more axes.

    A size is that of all operands but those that have 1 or no axis at its place.
    """
    own = _own(out)
    rank = len(own) - own_axes
    found: list[Size] = []
    for axis in range(rank):
        aligned = ((sizes, axis - rank + len(sizes)) for sizes in given)
        wide = {sizes[at] for sizes, at in aligned if at >= 0 and sizes[at] != 1}
        found.append(wide.pop() if len(wide) == 1 else own[axis] if wide else 1)
    return tuple(found)


def _matmul(op: PdOp, given: Sequence[Sizes]) -> Sizes | None:
    """The rows of x and the columns of y, after their common leading sizes."""
    x, y = given
    if len(x) < 2 or len(y) < 2:
        return None
    rows = x[-1 if op.attr("transpose_x") else -2]
    columns = y[-2 if op.attr("transpose_y") else -1]
    return (*_together((x[:-2], y[:-2]), op.results[0], 2), rows, columns)


def _transpose(op: PdOp, given: Sequence[Sizes]) -> Sizes | None:
    perm: Sequence[int] = op.attr("perm")
    return tuple(given[0][axis] for axis in perm)


def _reshape(op: PdOp, given: Sequence[Sizes]) -> Sizes | None:
    """A 0 copies the size at its place."""
    own, x = _own(op.results[0]), given[0]
    wanted = op.attr("shape")
    if len(wanted) != len(own):
        return None
    return tuple(
        x[axis] if size == 0 and axis < len(x) else mine
        for axis, (size, mine) in enumerate(zip(wanted, own, strict=True))
    )


def _unsqueeze(op: PdOp, given: Sequence[Sizes]) -> Sizes | None:
    sizes = list(given[0])
    for position in op.attr("axis"):
        sizes.insert(position % (len(sizes) + 1), 1)
    return tuple(sizes)


def _embedding(op: PdOp, given: Sequence[Sizes]) -> Sizes | None:
    return (*given[0], given[1][1])


_RULES: Mapping[type[PdOp], Rule] = {
    Dropout: _first,
    Embedding: _embedding,
    LayerNorm: _first,
    Matmul: _matmul,
    Reshape: _reshape,
    Transpose: _transpose,
    Unsqueeze: _unsqueeze,
}
