"""The numbers that an op may look up, and the feeds that hold such numbers.

Paddle raises for an id that names no row. A compiled step cannot, so fed ids are checked before it.
For ids that a step computes there are optional asserts.
"""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from graphopt.ir.dialect.index_bound import IndexBound as IndexBound
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.callback import Assert
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.index import Embedding, Gather, OneHot
from graphopt.ir.dialect.ops.loss import CrossEntropyWithSoftmax, NllLoss
from graphopt.ir.dialect.ops.math import Cast, Equal, GreaterEqual, LessThan, LogicalAnd, LogicalOr
from graphopt.ir.dialect.ops.reduce import All, Max, Min
from graphopt.ir.dialect.ops.scatter import (
    GatherNd,
    IndexSample,
    PutAlongAxis,
    Scatter,
    ScatterNdAdd,
    TakeAlongAxis,
)
from graphopt.ir.dialect.ops.shape import Assign, Flatten, Reshape, Squeeze, Transpose, Unsqueeze
from graphopt.ir.dialect.signature import FEED, function_signature, main_function
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, normalize_axis, rank_of, shape_of

# ops whose result has the elements of the operand and no others
_MOVING = (Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Assign)


def bound_of(op: Operation) -> tuple[SSAValue, IndexBound] | None:
    """The operand of `op` that holds numbers, and its bound; None when nothing is looked up.

    Paddle 2.6 raises for negative numbers; where indexing a Variable makes the op (`pd.gather_nd`,
    `pd.take_along_axis`, `pd.put_along_axis`) they count from the end. A size that is not known
    when the program is compiled bounds nothing.
    """
    if not isinstance(op, PdOp):
        return None
    operands = op.operands
    allowed: int | None = None
    negative = False
    match op:
        case Embedding():
            ids, size = operands[0], shape_of(operands[1].type)[0]
            allowed = op.attr("padding_idx")
            allowed = None if allowed == -1 else allowed
        case OneHot():
            ids, size = operands[0], op.attr("depth")
            if op.attr("allow_out_of_range"):
                return None
        case Gather():
            axis = normalize_axis(op.attr("axis"), rank_of(operands[0].type))
            ids, size = operands[1], shape_of(operands[0].type)[axis]
        case Scatter():
            ids, size = operands[1], shape_of(operands[0].type)[0]
        case IndexSample():
            ids, size = operands[1], shape_of(operands[0].type)[1]
        case TakeAlongAxis() | PutAlongAxis():
            axis = normalize_axis(op.attr("axis"), rank_of(operands[0].type))
            ids, size, negative = operands[1], shape_of(operands[0].type)[axis], True
        case GatherNd() | ScatterNdAdd():
            ids, negative = operands[1], isinstance(op, GatherNd)
            depth = shape_of(ids.type)[-1]
            # one bound for all coordinates: the largest size
            sizes = shape_of(operands[0].type)[: max(depth, 0)]
            size = UNKNOWN if UNKNOWN in sizes or not sizes else max(sizes)
        case CrossEntropyWithSoftmax():
            if op.attr("soft_label"):
                return None
            axis = normalize_axis(op.attr("axis"), rank_of(operands[0].type))
            ids, size = operands[1], shape_of(operands[0].type)[axis]
            allowed = op.attr("ignore_index")
        case NllLoss():
            ids, size = operands[1], shape_of(operands[0].type)[1]
            allowed = op.attr("ignore_index")
        case _:
            return None
    if size == UNKNOWN:
        return None
    result = op.results[0].name_hint
    reader = f"{op.name} -> {result}" if result else op.name
    if isinstance(op.location, FileLineColLoc):
        reader += f", at {op.location.filename.data}:{op.location.line.data}"
    return ids, IndexBound(-size if negative else 0, size, allowed, reader)


def fed_bounds(module: ModuleOp) -> dict[str, tuple[IndexBound, ...]]:
    """The bounds of the feeds whose elements are looked up unchanged, by name.

    Ops in branches and loops are left out, because they may not run.
    """
    found: dict[str, dict[tuple[int, int, int | None], IndexBound]] = {}
    for op in main_function(module).body.block.ops:
        if (checked := bound_of(op)) and (feed := _feed_of(module, checked[0])):
            bound = checked[1]
            key = bound.low, bound.high, bound.allowed
            found.setdefault(feed, {}).setdefault(key, bound)
    return {name: tuple(bounds.values()) for name, bounds in found.items()}


def assert_bounds(module: ModuleOp) -> None:
    """Insert a `pd.assert` before each op that looks up computed numbers."""
    for op in list(main_function(module).body.block.ops):
        checked = bound_of(op)
        if checked is None or _feed_of(module, checked[0]) is not None:
            continue
        rewriter = Rewriter()
        rewriter.insert_op(_assertion(*checked), InsertPoint.before(op))


def _assertion(ids: SSAValue, bound: IndexBound) -> list[PdOp]:
    """The ops that stop a step whose ids are out of bounds."""
    made: list[PdOp] = []

    def add(op_class: type[PdOp], *operands: Any, **attrs: Any) -> PdOp:
        made.append(op_class.make(*operands, **attrs))
        return made[-1]

    def same(number: int) -> PdOp:
        return add(FullLike, ids, value=float(number))

    above = add(GreaterEqual, ids, same(bound.low))
    inside = add(LogicalAnd, above, add(LessThan, ids, same(bound.high)))
    if bound.allowed is not None:
        inside = add(LogicalOr, inside, add(Equal, ids, same(bound.allowed)))
    what = f"numbers from {bound.low} to {bound.high - 1} for {bound.reader}"
    extremes = [add(Min, ids), add(Max, ids)]
    add(Assert, add(All, inside), extremes, variables=(what, "the smallest", "the largest"))
    return made


def _feed_of(module: ModuleOp, value: SSAValue) -> str | None:
    """The feed whose elements a value has, in another shape or dtype at most."""
    source = _source(value)
    if not isinstance(source, BlockArgument):
        return None
    port = function_signature(main_function(module)).arguments[source.index]
    return port.name if port.kind == FEED else None


def _source(value: SSAValue) -> SSAValue:
    """The value whose elements this one has, in another shape or dtype at most."""
    while isinstance(owner := value.owner, Operation):
        whole = isinstance(owner, Cast) and dtype_of(owner.operands[0].type).startswith("int")
        if not (whole or isinstance(owner, _MOVING)):
            break
        value = owner.operands[0]
    return value
