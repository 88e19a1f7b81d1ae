"""mask-padding: a program on padded feeds returns the results of the feeds without padding.

Rows beyond the data become a neutral element where an op would let them into its result: 0 before a
sum, minus infinity before a softmax. A mean divides by the number of rows that count. Masks and
counts are new feeds, `<axis>@real` and `<axis>@count`. Derivatives need no other change: a masked
row has a derivative of 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.math import Where
from graphopt.ir.dialect.ops.shape import Reshape
from graphopt.ir.dialect.signature import FEED, STATE, main_function, signature_of
from graphopt.ir.dialect.signature_edit import add_feed
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, tensor
from graphopt.passes.engine.rewrite import insert, replace

# imported for their effect: the rules register themselves
from graphopt.passes.padding import computing as computing
from graphopt.passes.padding import images as images
from graphopt.passes.padding import movement as movement
from graphopt.passes.padding import ordered as ordered
from graphopt.passes.padding import recurrent as recurrent
from graphopt.passes.padding import sequences as sequences
from graphopt.passes.padding import statistics as statistics
from graphopt.passes.padding.dims import Axes, CannotPad, Dim, Extent
from graphopt.passes.padding.masked import Masked, count_name, mask_name
from graphopt.passes.padding.regions import carry_block
from graphopt.passes.padding.rules import Carried, Padded, fill_of


def mask_padding(
    module: ModuleOp,
    feeds: Mapping[str, Axes],
    lengths: Mapping[str, str] | None = None,
    *,
    are_buffers: bool = False,
) -> Masked:
    """Rewrite `@main` in place for feeds with these padded axes.

    `lengths` maps feeds with lengths of sequences to the feeds that have their rows. Feeds that
    `are_buffers` are 0 beyond the data, and have room there for the rows that are joined to them.

    Raise CannotPad, with the op and a named reason, when some op cannot handle padded rows; the
    module is then unchanged.
    """
    function = main_function(module)
    arguments = list(zip(function.body.block.args, signature_of(module).arguments, strict=True))
    known: dict[SSAValue, Axes] = {
        value: feeds[port.name]
        for value, port in arguments
        if port.kind == FEED and any(feeds.get(port.name, ()))
    }
    equal: set[tuple[Dim, Dim]] = set()
    lengths = lengths or {}
    rows_of: dict[SSAValue, Dim] = {
        value: rows
        for value, port in arguments
        if (rows := feeds.get(lengths.get(port.name, ""), (None,))[0]) is not None
    }
    zero = set(known) if are_buffers else set[SSAValue]()
    carried = carry_block(function.body.block, Padded(known, equal, rows_of, zero), known)
    fetches = _fetched_axes(module, Padded(known))
    writer = _MaskWriter(function)
    uncleared = _not_zero(function, Padded(known, zero=zero)) if are_buffers else {}
    for op, (found, operands) in carried.items():
        writer.rewrite(op, found, operands)
    writer.clear_fetches(uncleared)
    factors = {factor for axes in known.values() for dim in axes if dim for factor in dim}
    extents = frozenset(factor for factor in factors if isinstance(factor, Extent))
    masks, counts = tuple(writer.masks), tuple(writer.counts)
    return Masked(masks, counts, fetches, extents, frozenset(equal))


def _fetched_axes(module: ModuleOp, padded: Padded) -> dict[str, Axes]:
    """Collect the padded axes of the fetches; raise CannotPad when state would be padded."""
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


def _not_zero(function: FuncOp, padded: Padded) -> dict[int, Axes]:
    """Find the results, by position, that are not 0 beyond the data, as fed buffers must be."""
    end = function.body.block.last_op
    assert end is not None
    return {
        at: padded.of(value)
        for at, value in enumerate(end.operands)
        if any(padded.of(value)) and not padded.is_zero(value)
    }


@dataclass
class _MaskWriter:
    """A writer of masks into a function; each mask is made once for each rank and axis."""

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
        if carried.after:
            self._mask_result(op, carried)
        if carried.write is not None:
            values = carried.write(op, self)
            for old, new in zip(op.results, values, strict=True):
                new.name_hint = new.name_hint or old.name_hint
            replace(op, dict(zip(op.results, values, strict=True)))

    def clear_fetches(self, fetches: Mapping[int, Axes]) -> None:
        """Set these fetches, by position, to 0 beyond the data."""
        end = self.function.body.block.last_op
        assert end is not None
        for at, axes in fetches.items():
            masked = [position for position, dim in enumerate(axes) if dim is not None]
            end.operands[at] = self._where(end.operands[at], axes, masked, 0.0, before=end)

    def _where(
        self, value: SSAValue, axes: Axes, masked: Sequence[int], fill: float, *, before: Operation
    ) -> SSAValue:
        dtype = dtype_of(value.type)
        constant = insert(Full.make(shape=[], value=fill, dtype=dtype), before)
        for at in masked:
            dim = axes[at]
            assert dim is not None
            real = self.mask(dim, len(axes), at)
            value = insert(Where.make(real, value, constant), before)
        return value

    def _mask_result(self, op: PdOp, carried: Carried) -> None:
        """Set the first result to 0 beyond the data for all its readers."""
        result, following = op.results[0], op.next_op
        assert isinstance(following, Operation)
        uses = list(result.uses)
        new = self._where(result, carried.results[0], carried.after, 0.0, before=following)
        for use in uses:
            use.operation.operands[use.index] = new

    def mask(self, dim: Dim, rank: int, at: int) -> SSAValue:
        """Return the mask of a dimension along one axis of a tensor of this rank."""
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

    def count(self, dim: Dim) -> SSAValue:
        """Return the number of data rows of a dimension."""
        if dim not in self.counts:
            self.counts[dim] = add_feed(self.function, count_name(dim), tensor((), "int64"))
        return self.counts[dim]
