"""Tensors that get their size from another one, before masks are written.

The initial states of a saved recurrent network are `full([4, shape(x)[0], 12], 0)`, or an expand to
that shape. Where x has rows to spare so must they, and a size that is a value would be that of the
data. So they get their rows from x itself: from a `where` whose condition is a row of x, all true.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from graphopt.ir.dialect.known import KnownValues
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.creation import Full, FullLike
from graphopt.ir.dialect.ops.dynamic import Dynamic, decode_properties
from graphopt.ir.dialect.ops.math import Where
from graphopt.ir.dialect.ops.shape import Expand, Slice, Unsqueeze
from graphopt.ir.dialect.signature import main_function
from graphopt.ir.dialect.size_rules import amounts
from graphopt.ir.dialect.sums import Amount, Size, SymbolicSum
from graphopt.ir.dialect.types import dtype_of, rank_of
from graphopt.passes.engine.inserting import Before
from graphopt.passes.engine.rewrite import replace


def size_by_tensor(module: ModuleOp) -> None:
    """Rewrite the fills and expands in `@main` whose open sizes are those of one tensor, in order.

    No tensor may be empty.
    """
    block, known = main_function(module).body.block, KnownValues()
    for op in list(block.ops):
        if isinstance(op, Dynamic) and (made := _make_sized(op, block, known)) is not None:
            replace(op, {op.results[0]: made})
        elif isinstance(op, PdOp):
            known.see(op)


def _make_sized(op: Dynamic, block: Block, known: KnownValues) -> SSAValue | None:
    """The same tensor with sizes of another one; None where there is no such."""
    if op.attr("op") not in (Full.name, Expand.name) or op.attr("dynamic") != ("shape",):
        return None
    elements = known.elements(op.values[0])
    wanted = [] if elements is None else amounts(elements)
    source = _source(wanted)
    if source is None or not _is_in(source[0], block):
        return None
    open_ = [at for at, size in enumerate(wanted) if isinstance(size, SymbolicSum)]
    if op.inputs and not _has_ones(known.sizes(op.inputs[0]), open_, len(wanted)):
        return None
    new = Before(op)
    if op.inputs:
        value = op.inputs[0]
    else:
        number = decode_properties(Full, op.attr("attrs"))["value"]
        dtype = dtype_of(op.results[0].type)
        value = new(Full.make(shape=[], value=number, dtype=dtype))
    rows = _rows(*source, [at for at in range(len(wanted)) if at not in open_], new)
    made = new(Where.make(rows, value, value))
    return new(Expand.make(made, shape=[s if isinstance(s, int) else -1 for s in wanted]))


def _source(wanted: Sequence[Amount | None]) -> tuple[SSAValue, list[int]] | None:
    """The tensor with the sizes that are no numbers, and its axes that have them."""
    found: list[Size] = []
    for size in wanted:
        if isinstance(size, int) and size > 0:
            continue
        only = size.only if isinstance(size, SymbolicSum) else None
        if not isinstance(only, Size):
            return None
        found.append(only)
    axes = [size.axis for size in found]
    is_one = len({size.value for size in found}) == 1
    return (found[0].value, axes) if is_one and axes == sorted(set(axes)) else None


def _is_in(value: SSAValue, block: Block) -> bool:
    owner = value.owner
    return (owner if isinstance(owner, Block) else owner.parent) is block


def _has_ones(sizes: Sequence[Amount], open_: Sequence[int], rank: int) -> bool:
    """True when an operand of these sizes has no axis, or one of size 1, at each open position."""
    offset = rank - len(sizes)
    return all(at < offset or sizes[at - offset] == 1 for at in open_)


def _rows(value: SSAValue, axes: Sequence[int], ones: Sequence[int], new: Before) -> SSAValue:
    """True along these axes of a tensor, with axes of size 1 at `ones`."""
    others = [axis for axis in range(rank_of(value.type)) if axis not in axes]
    if others:
        first = {"starts": [0] * len(others), "ends": [1] * len(others)}
        value = new(Slice.make(value, axes=others, **first, decrease_axis=others))
    rows = new(FullLike.make(value, value=1.0, dtype="bool"))
    return new(Unsqueeze.make(rows, axis=ones)) if ones else rows
