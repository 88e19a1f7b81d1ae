"""mask-padding: a program on feeds with rows to spare gives the results of the feeds without them.

Rows beyond the data become a neutral element where an op would let them into its result: 0 before
a sum, minus infinity before a softmax. A mean divides by the number of rows that count. Masks and
counts are new feeds, `<axis>@real` and `<axis>@count`. Derivatives need nothing more: a masked row
has a derivative of 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from graphopt.ir.op import PdOp
from graphopt.ir.ops.creation import Full
from graphopt.ir.ops.math import Cast, Divide, Multiply, Where
from graphopt.ir.ops.reduce import Mean, Sum
from graphopt.ir.ops.shape import Reshape
from graphopt.ir.regions import captured_values
from graphopt.ir.signature import FEED, STATE, add_feed, main_function, signature_of
from graphopt.ir.types import UNKNOWN, dtype_of, normalize_axes, rank_of, shape_of, tensor
from graphopt.passes.naming import show_op
from graphopt.passes.padding.carrying import Carried, Padded, carry, fill_of
from graphopt.passes.padding.dims import Axes, CannotPad, Dim
from graphopt.passes.rewrite import insert


def mask_name(dim: Dim) -> str:
    """The feed that says which rows of a dimension count, bool [rows]."""
    return "*".join(map(str, dim)) + "@real"


def count_name(dim: Dim) -> str:
    """The feed that says how many rows of a dimension count, int64 []."""
    return "*".join(map(str, dim)) + "@count"


@dataclass(frozen=True)
class Masked:
    """What a module needs besides its feeds: dimensions by mask and by count; its fetches' axes."""

    masks: tuple[Dim, ...]
    counts: tuple[Dim, ...]
    fetches: Mapping[str, Axes]


def mask_padding(module: ModuleOp, feeds: Mapping[str, Axes]) -> Masked:
    """Rewrite `@main` in place for feeds with these padded axes.

    Raises CannotPad, with the op and a named reason, when some op cannot do with padded rows; the
    module is then as it was.
    """
    function = main_function(module)
    arguments = zip(function.body.block.args, signature_of(module).arguments, strict=True)
    known: dict[SSAValue, Axes] = {
        value: feeds[port.name]
        for value, port in arguments
        if port.kind == FEED and any(feeds.get(port.name, ()))
    }
    carried = _carry_all(function, known)
    fetches = _fetched(module, Padded(known))
    writer = _Writer(function)
    for op, (found, operands) in carried.items():
        writer.rewrite(op, found, operands)
    return Masked(tuple(writer.masks), tuple(writer.counts), fetches)


def _carry_all(
    function: FuncOp, known: dict[SSAValue, Axes]
) -> dict[PdOp, tuple[Carried, tuple[Axes, ...]]]:
    """What each op that padded values reach does with them, and the axes of its operands.

    The results enter `known`.
    """
    found: dict[PdOp, tuple[Carried, tuple[Axes, ...]]] = {}
    for op in function.body.block.ops:
        if any(value in known for value in captured_values(op)):
            raise _at(op, CannotPad("in-a-region", "a branch or loop reads a padded value"))
        if isinstance(op, ReturnOp) or not any(value in known for value in op.operands):
            continue
        assert isinstance(op, PdOp)
        try:
            carried = _carry(op, Padded(known))
        except CannotPad as error:
            raise _at(op, error) from None
        found[op] = carried, tuple(Padded(known).of(value) for value in op.operands)
        for value, axes in zip(op.results, carried.results, strict=True):
            if any(axes):
                known[value] = axes
    return found


def _carry(op: PdOp, padded: Padded) -> Carried:
    """The rule of one op, and whether its masks can be written."""
    carried = carry(op, padded)
    for mask in carried.masks:
        fill_of(mask.fill, op.operands[mask.operand])
    if isinstance(op, Mean):
        _check_count(op, padded)
    for value, axes in zip(op.results, carried.results, strict=True):
        if len(axes) != rank_of(value.type):
            raise CannotPad("no-rule", "its results have other ranks")
    return carried


def _at(op: Operation, error: CannotPad) -> CannotPad:
    return CannotPad(error.reason.name, f"{show_op(op)}: {error.reason.text}")


def _fetched(module: ModuleOp, padded: Padded) -> dict[str, Axes]:
    """The padded axes of the fetches; CannotPad when state would be padded."""
    found: dict[str, Axes] = {}
    (end,) = (op for op in main_function(module).body.block.ops if isinstance(op, ReturnOp))
    for port, value in zip(signature_of(module).results, end.operands, strict=True):
        axes = padded.of(value)
        if not any(axes):
            continue
        if port.kind == STATE:
            raise CannotPad("padded-state", f"the state '{port.name}' would have padded rows")
        found[port.name] = axes
    return found


def _reduced(op: Mean) -> list[int]:
    rank = rank_of(op.operands[0].type)
    return sorted(normalize_axes(op.attr("axis"), rank) if op.attr("axis") else range(rank))


def _check_count(op: Mean, padded: Padded) -> None:
    axes, shape = padded.of(op.operands[0]), shape_of(op.operands[0].type)
    reduced = _reduced(op)
    if any(axes[at] for at in reduced) and any(
        shape[at] == UNKNOWN and axes[at] is None for at in reduced
    ):
        raise CannotPad("unknown-axis", "it averages over an axis of unknown size as well")


@dataclass
class _Writer:
    """Writes the masks into a function; each mask is made once for each rank and axis."""

    function: FuncOp
    masks: dict[Dim, SSAValue] = field(default_factory=dict)
    counts: dict[Dim, SSAValue] = field(default_factory=dict)
    aligned: dict[tuple[Dim, int, int], SSAValue] = field(default_factory=dict)

    def rewrite(self, op: PdOp, carried: Carried, operands: Sequence[Axes]) -> None:
        """Mask the operands of an op, and its result where it must be."""
        for mask in carried.masks:
            value = op.operands[mask.operand]
            fill = fill_of(mask.fill, value)
            new = self._where(value, operands[mask.operand], mask.axes, fill, before=op)
            op.operands[mask.operand] = new
        if isinstance(op, Mean) and carried.masks:
            self._divide(op, operands[0])
        if carried.after:
            self._mask_result(op, carried)

    def _where(
        self, value: SSAValue, axes: Axes, masked: Sequence[int], fill: float, *, before: Operation
    ) -> SSAValue:
        dtype = dtype_of(value.type)
        constant = insert(Full.make(shape=[], value=fill, dtype=dtype), before)
        for at in masked:
            dim = axes[at]
            assert dim is not None
            real = self._mask(dim, len(axes), at)
            value = insert(Where.make(real, value, constant), before)
        return value

    def _mask_result(self, op: PdOp, carried: Carried) -> None:
        """The first result is 0 beyond the data for all that read it."""
        result, following = op.results[0], op.next_op
        assert isinstance(following, Operation)
        uses = list(result.uses)
        new = self._where(result, carried.results[0], carried.after, 0.0, before=following)
        for use in uses:
            use.operation.operands[use.index] = new

    def _divide(self, op: Mean, axes: Axes) -> None:
        """A mean becomes a sum, divided by how many elements count."""
        value = op.operands[0]
        shape, dtype = shape_of(value.type), dtype_of(value.type)
        wide = "float64" if dtype == "float64" else "float32"
        size, count = 1, None
        for at in _reduced(op):
            dim = axes[at]
            if dim is None:
                size *= shape[at]
                continue
            number = insert(Cast.make(self._count(dim), dtype=wide), op)
            count = number if count is None else insert(Multiply.make(count, number), op)
        assert count is not None
        if size != 1:
            factor = insert(Full.make(shape=[], value=float(size), dtype=wide), op)
            count = insert(Multiply.make(count, factor), op)
        summand = value if dtype == wide else insert(Cast.make(value, dtype=wide), op)
        total = Sum.make(summand, axis=op.attr("axis"), keepdim=op.attr("keepdim"))
        mean = insert(Divide.make(insert(total, op), count), op)
        if dtype != wide:
            mean = insert(Cast.make(mean, dtype=dtype), op)
        mean.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(mean)
        op.detach()
        op.erase()

    def _mask(self, dim: Dim, rank: int, at: int) -> SSAValue:
        """The mask of a dimension along one axis of a tensor of this rank."""
        key = (dim, rank, at)
        if key not in self.aligned:
            mask = self.masks.get(dim)
            if mask is None:
                mask = self.masks[dim] = add_feed(
                    self.function, mask_name(dim), tensor((UNKNOWN,), "bool")
                )
            if rank > 1:
                first = self.function.body.block.first_op
                assert first is not None
                shape = [-1 if position == at else 1 for position in range(rank)]
                mask = insert(Reshape.make(mask, shape=shape), first)
            self.aligned[key] = mask
        return self.aligned[key]

    def _count(self, dim: Dim) -> SSAValue:
        if dim not in self.counts:
            self.counts[dim] = add_feed(self.function, count_name(dim), tensor((), "int64"))
        return self.counts[dim]
