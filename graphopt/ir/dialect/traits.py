"""Statements about op classes that passes query: `op.has_trait(Elementwise)`.

A class declares them with `traits_def`, a family for all of its ops. Every op declares at least
one; `Opaque` stands for no known statement.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation
from xdsl.traits import OpTrait

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.types import normalize_axes, rank_of


@dataclass(frozen=True)
class Statement(OpTrait, ABC):
    """A statement that holds for every op of a class, whatever its operands and properties."""


@dataclass(frozen=True)
class Opaque(Statement):
    """No other statement holds for every op of the class: any element may depend on all.

    Also for an op whose results differ between runs or replicas, and for one with regions.
    """


@dataclass(frozen=True)
class Elementwise(Statement):
    """An element of a result depends on the elements at its place in the operands alone.

    The operands broadcast as in NumPy, and the results have the shape that they broadcast to.
    """


@dataclass(frozen=True)
class Linear(Statement):
    """f(a + b) = f(a) + f(b), where `a` and `b` stand for all operands together."""


@dataclass(frozen=True)
class Movement(Statement):
    """Each element of the results is a copy of an element of the first operand field.

    With `in_order` the one result has all elements of the one operand, in their order.
    """

    in_order: bool = False


@dataclass(frozen=True)
class Shown(Statement):
    """The op shows its operand to the user, and passes it on in its shape and order."""


@dataclass(frozen=True)
class OverAxes(Statement, ABC):
    """Elements of the operands are combined along some axes, and depend on no others.

    `axis` names the property with one axis or several (all axes where it is empty), `flatten` the
    flag with which the axes are joined first. Without `axis` elements are combined along all axes.
    """

    axis: str | None = "axis"
    flatten: str | None = None

    def axes(self, op: PdOp) -> frozenset[int]:
        """Return the axes of the first operand along which elements combine, counted from 0."""
        rank = rank_of(op.operands[0].type)
        everything = frozenset(range(rank))
        if self.axis is None or (self.flatten is not None and op.attr(self.flatten)):
            return everything
        given: int | Sequence[int] | None = op.attr(self.axis)
        axes = [given] if isinstance(given, int) else list(given or ())
        return frozenset(normalize_axes(axes, rank)) if axes and rank else everything


@dataclass(frozen=True)
class AlongAxis(OverAxes):
    """Each line along an axis on its own; the results have the operand's shape or are flat."""

    def kept_axis(self, op: PdOp) -> int | None:
        """Return the axis; None for a flattened operand, whose shape the results do not have."""
        axes = self.axes(op)
        flat = self.flatten is not None and op.attr(self.flatten)
        return None if flat or len(axes) != 1 else next(iter(axes))


@dataclass(frozen=True)
class Reduction(OverAxes):
    """The elements along the axes become one; `keepdim` leaves axes of size 1.

    `neutral` is the number that changes nothing when it is put among them; None if there is none.
    """

    neutral: float | None = None


def always(op: PdOp) -> bool:
    """Accept every op: it treats rows separately, whatever its properties."""
    return True


@dataclass(frozen=True)
class Rowwise(Statement):
    """Row i of each result depends on row i of an operand; a row is an index of the first axis.

    The operand is the first one, and the others, such as weights, are the same for every row; with
    `of_all` every operand has the rows. With `first_result` the statement covers the first result
    only. It holds for the ops that meet the condition `when`.
    """

    when: Callable[[PdOp], bool] = always
    of_all: bool = False
    first_result: bool = False


def keeps_order(op: Operation) -> bool:
    """True for an op that gives all elements of its operand in their order, in some shape."""
    movement = op.get_trait(Movement)
    return movement is not None and movement.in_order


def takes_any_order(op: Operation) -> bool:
    """True for an elementwise op whose elements may come in another order or shape."""
    return op.has_trait(Elementwise) and not op.has_trait(Shown)
