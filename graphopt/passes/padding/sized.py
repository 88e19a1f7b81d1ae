"""Tensors that get their size from another one, rewritten before masks are added.

The initial states of a saved recurrent network are `full([4, shape(x)[0], 12], 0)`, or an expand to
that shape. Positions are `arange(shape(x)[1])`, and masks of sequences have as many columns. If x
has spare rows, these tensors need them too, but a size read off x is the size of the data. So they
get their rows from x itself: from a `where` whose condition has the rows of x, all true, or from
the running sum of such rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from graphopt.ir.dialect.known import KnownValues
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.creation import Arange, Full, FullLike
from graphopt.ir.dialect.ops.dynamic import Dynamic, decode_properties
from graphopt.ir.dialect.ops.math import Cast, LessThan, LogicalAnd, Subtract, Where
from graphopt.ir.dialect.ops.reduce import Cumsum
from graphopt.ir.dialect.ops.sequence.alignment import SequenceMask
from graphopt.ir.dialect.ops.shape import Expand, Slice, Unsqueeze
from graphopt.ir.dialect.signature import main_function
from graphopt.ir.dialect.size_rules import amounts
from graphopt.ir.dialect.sums import Amount, Size, SymbolicSum
from graphopt.ir.dialect.types import dtype_of, rank_of
from graphopt.passes.engine.inserting import Before
from graphopt.passes.engine.rewrite import replace

# op -> its properties that are sizes
_SIZED = {
    Full.name: ("shape",),
    Expand.name: ("shape",),
    Arange.name: ("end",),
    SequenceMask.name: ("max_len",),
}


def size_by_tensor(module: ModuleOp) -> None:
    """Rewrite ops of `@main` that make tensors whose open sizes are sizes of other tensors.

    No tensor may be empty.
    """
    block, known = main_function(module).body.block, KnownValues()
    for op in list(block.ops):
        before, after = op.prev_op, op.next_op
        if isinstance(op, Dynamic) and (made := _make_sized(op, block, known)) is not None:
            replace(op, {op.results[0]: made})
            new = block.first_op if before is None else before.next_op
            while isinstance(new, PdOp) and new is not after:
                known.see(new)
                new = new.next_op
        elif isinstance(op, PdOp):
            known.see(op)


def _make_sized(op: Dynamic, block: Block, known: KnownValues) -> SSAValue | None:
    """Build the tensor with rows taken from other tensors; None if no size comes from one."""
    if _SIZED.get(op.attr("op")) != op.attr("dynamic"):
        return None
    given = op.values[0]
    if isinstance(given.owner, Cast):  # the end of a range in float32
        given = given.owner.operands[0]
    elements = known.elements(given)
    wanted = [] if elements is None else amounts(elements)
    sources = _find_sources(wanted)
    if not sources or not all(_is_in(size.value, block) for size in sources.values()):
        return None
    if op.attr("op") == Arange.name:
        return _make_positions(op, sources)
    if op.attr("op") == SequenceMask.name:
        return _make_mask(op, sources)
    open_ = list(sources)
    if op.inputs and not _fits(known.sizes(op.inputs[0]), wanted, open_):
        return None
    new = Before(op)
    if op.inputs:
        value = op.inputs[0]
    else:
        number = decode_properties(Full, op.attr("attrs"))["value"]
        dtype = dtype_of(op.results[0].type)
        value = new(Full.make(shape=[], value=number, dtype=dtype))
    rows = [_make_rows(size, at, len(wanted), new) for at, size in sources.items()]
    all_ = reduce(lambda one, other: new(LogicalAnd.make(one, other)), rows)
    made = new(Where.make(all_, value, value))
    return new(Expand.make(made, shape=[s if isinstance(s, int) else -1 for s in wanted]))


def _make_positions(op: Dynamic, sources: Mapping[int, Size]) -> SSAValue | None:
    """Build a range from 0 by 1; None for another range."""
    attrs, new = decode_properties(Arange, op.attr("attrs")), Before(op)
    if (attrs["start"], attrs["step"]) != (0, 1):
        return None
    return _number_rows(sources[0], dtype_of(op.results[0].type), new)


def _make_mask(op: Dynamic, sources: Mapping[int, Size]) -> SSAValue:
    """Build the sequence mask: for each length, true at the positions below it."""
    new, lengths, result = Before(op), op.inputs[0], op.results[0].type
    positions = _number_rows(sources[0], dtype_of(lengths.type), new)
    last = new(Unsqueeze.make(lengths, axis=[rank_of(lengths.type)]))
    return new(Cast.make(new(LessThan.make(positions, last)), dtype=dtype_of(result)))


def _number_rows(size: Size, dtype: str, new: Before) -> SSAValue:
    """Build the numbers 0, 1 and so on, one for each row of this size."""
    ones = new(FullLike.make(_make_rows(size, 0, 1, new), value=1.0, dtype="int64"))
    one = new(Full.make(shape=[], value=1.0, dtype="int64"))
    numbers = new(Subtract.make(new(Cumsum.make(ones, axis=0)), one))
    return numbers if dtype == "int64" else new(Cast.make(numbers, dtype=dtype))


def _find_sources(wanted: Sequence[Amount | None]) -> dict[int, Size]:
    """Map each open axis to its size; empty when one of them is another amount."""
    found: dict[int, Size] = {}
    for at, size in enumerate(wanted):
        if isinstance(size, int) and size > 0:
            continue
        only = size.only if isinstance(size, SymbolicSum) else None
        if not isinstance(only, Size):
            return {}
        found[at] = only
    return found


def _is_in(value: SSAValue, block: Block) -> bool:
    owner = value.owner
    return (owner if isinstance(owner, Block) else owner.parent) is block


def _fits(sizes: Sequence[Amount], wanted: Sequence[Amount | None], open_: Sequence[int]) -> bool:
    """True when an operand of these sizes has no axis, one row or all at each open position."""
    offset = len(wanted) - len(sizes)
    return all(at < offset or sizes[at - offset] in (1, wanted[at]) for at in open_)


def _make_rows(size: Size, at: int, rank: int, new: Before) -> SSAValue:
    """Build a bool tensor of this rank: true along axis `at`, with size 1 on other axes."""
    value, others = size.value, [a for a in range(rank_of(size.value.type)) if a != size.axis]
    if others:
        first = {"starts": [0] * len(others), "ends": [1] * len(others)}
        value = new(Slice.make(value, axes=others, **first, decrease_axis=others))
    rows = new(FullLike.make(value, value=1.0, dtype="bool"))
    ones = [axis for axis in range(rank) if axis != at]
    return new(Unsqueeze.make(rows, axis=ones)) if ones else rows
