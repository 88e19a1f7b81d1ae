"""Bounds of integers that ops look up or divide by, and the inputs that hold such integers.

Paddle raises for an id that names no row, and for an integer division by 0. A compiled step cannot,
so feeds are checked before the step, and so are divisors in state that no step writes. For ids that
a step computes there are optional asserts; for computed divisors there are asserts where they may
be 0.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from graphopt.errors import CheckError
from graphopt.ir.dialect.index_bound import IndexBound as IndexBound
from graphopt.ir.dialect.known import KnownValues, known_numbers
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.callback import Assert
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.index import Embedding, Gather, OneHot
from graphopt.ir.dialect.ops.loss import CrossEntropyWithSoftmax, NllLoss
from graphopt.ir.dialect.ops.math import (
    Cast,
    Clip,
    Divide,
    Equal,
    FloorDivide,
    GreaterEqual,
    LessThan,
    LogicalAnd,
    LogicalOr,
    Maximum,
    NotEqual,
    Remainder,
    Where,
)
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
from graphopt.ir.dialect.signature import FEED, STATE, Port, function_signature, main_function
from graphopt.ir.dialect.size_rules import Elements
from graphopt.ir.dialect.sums import SymbolicSum, size_of
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, normalize_axis, rank_of, shape_of

# ops whose result has exactly the elements of the operand
_MOVING = (Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Assign)


def bound_of(op: Operation) -> tuple[SSAValue, IndexBound] | None:
    """Find the index operand of `op` and its bound; None when `op` looks nothing up.

    Paddle 2.6 raises for negative indices. They count from the end in the ops that indexing a
    Variable creates (`pd.gather_nd`, `pd.take_along_axis`, `pd.put_along_axis`). A size unknown at
    compile time gives no bound.
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
    return ids, IndexBound(-size if negative else 0, size, allowed, _reader(op))


def _reader(op: PdOp) -> str:
    result = op.results[0].name_hint
    reader = f"{op.name} -> {result}" if result else op.name
    if isinstance(op.location, FileLineColLoc):
        reader += f", at {op.location.filename.data}:{op.location.line.data}"
    return reader


def divisor_of(op: Operation) -> tuple[SSAValue, IndexBound] | None:
    """Find the integer divisor of `op`, with a bound that excludes 0; None for any other op."""
    if not isinstance(op, (Divide, FloorDivide, Remainder)):
        return None
    if dtype_of(op.y.type).is_differentiable:
        return None
    return op.y, IndexBound(0, 0, None, _reader(op), divides=True)


def fed_bounds(module: ModuleOp, sizes: Collection[str] = ()) -> dict[str, tuple[IndexBound, ...]]:
    """Collect the bounds of feeds that are looked up or divided by unchanged, by name.

    `sizes` are feeds that hold sizes, which are not 0. Ops in branches and loops are left out,
    because they may not run.
    """
    found: dict[str, dict[tuple[int, int, int | None], IndexBound]] = {}
    for op in main_function(module).body.block.ops:
        checked = bound_of(op) or divisor_of(op)
        if checked and (feed := _feed_of(module, checked[0])):
            bound = checked[1]
            if bound.divides and feed in sizes:
                continue
            key = bound.low, bound.high, bound.allowed
            found.setdefault(feed, {}).setdefault(key, bound)
    return {name: tuple(bounds.values()) for name, bounds in found.items()}


def kept_divisors(module: ModuleOp) -> dict[str, tuple[IndexBound, ...]]:
    """Collect the bounds of integer divisors in state that no step writes, by name.

    Ops in branches and loops are left out, as for `fed_bounds`.
    """
    found: dict[str, tuple[IndexBound, ...]] = {}
    for op in main_function(module).body.block.ops:
        checked = divisor_of(op)
        if checked and (name := _kept_state(module, checked[0])):
            found[name] = (*found.get(name, ()), checked[1])
    return found


def assert_bounds(module: ModuleOp) -> None:
    """Insert a `pd.assert` before each op that looks up computed numbers."""
    for op in list(main_function(module).body.block.ops):
        checked = bound_of(op)
        if checked is None or _feed_of(module, checked[0]) is not None:
            continue
        rewriter = Rewriter()
        rewriter.insert_op(_assertion(*checked), InsertPoint.before(op))


def assert_divisors(module: ModuleOp, sizes: Collection[str] = ()) -> bool:
    """Insert a `pd.assert` before integer divisions by computed divisors; False if none.

    A divisor known to be non-zero needs none. Nor does a size, as the feeds `sizes` hold: it is 0
    only for tensors without elements. Raises CheckError for a constant divisor with a 0.
    """
    main = main_function(module).body.block
    divided = [(op, *found) for op in module.walk() if (found := divisor_of(op))]
    if not divided:
        return False
    known, inserted = _sizes_known(module, sizes), False
    for op, divisor, bound in divided:
        is_checked = op.parent is main and (
            _feed_of(module, divisor) or _kept_state(module, divisor)
        )
        if is_checked or _is_positive(divisor) or _are_sizes(known.elements(divisor)):
            continue
        if op.parent is main and known.array(divisor) is not None:
            raise CheckError(
                f"{bound.division}: the divisor is a constant with a 0; give it other numbers"
            )
        Rewriter().insert_op(_division_check(divisor, bound), InsertPoint.before(op))
        inserted = True
    return inserted


def _sizes_known(module: ModuleOp, fed: Collection[str]) -> KnownValues:
    """Compute the known values of a module whose feeds `fed` hold sizes."""
    main = main_function(module)
    ports = zip(main.body.block.args, function_signature(main).arguments, strict=True)
    sizes: dict[SSAValue, Elements | None] = {
        argument: np.full(shape_of(argument.type), size_of(argument, 0), object)
        for argument, port in ports
        if port.name in fed and UNKNOWN not in shape_of(argument.type)
    }
    known = KnownValues(sizes)
    for op in module.walk():
        if isinstance(op, PdOp):
            known.see(op)
    return known


def _are_sizes(elements: Elements | None) -> bool:
    """True for non-zero numbers and for sums of sizes with positive factors."""
    return elements is not None and all(
        all(factor > 0 for _, factor in element.terms)
        if isinstance(element, SymbolicSum)
        else element is not None and element != 0
        for element in elements.ravel().tolist()
    )


def _is_positive(value: SSAValue) -> bool:
    """Return whether the producer keeps a value above 0, or replaces its zeros."""
    owner = value.owner
    if isinstance(owner, FullLike):
        return owner.attr("value") >= 1
    if isinstance(owner, Clip):
        return owner.attr("min") >= 1
    if isinstance(owner, Maximum):
        return any(map(_is_positive, owner.operands))
    if isinstance(owner, Where) and isinstance(test := owner.condition.owner, Equal):
        # where(d == 0, 1, d)
        return test.x is owner.y and known_numbers(test.y) == (0,) and _is_positive(owner.x)
    if isinstance(owner, _MOVING):
        return _is_positive(owner.operands[0])
    numbers = known_numbers(value)
    return numbers is not None and min(numbers, default=1) > 0


def _division_check(divisor: SSAValue, bound: IndexBound) -> list[PdOp]:
    """Build the ops that stop a step in which a divisor is 0."""
    zero = FullLike.make(divisor, value=0.0)
    inside = NotEqual.make(divisor, zero.results[0])
    held = All.make(inside.results[0])
    name = divisor.name_hint or "a computed divisor"
    message = f"{bound.division}: '{name}' holds a 0; keep it off with paddle.clip or paddle.where"
    check = Assert.make(held.results[0], [], variables=(name,), message=message)
    return [zero, inside, held, check]


def _assertion(ids: SSAValue, bound: IndexBound) -> list[PdOp]:
    """Build the ops that stop a step in which an id is out of bounds."""
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
    """Find the feed whose elements a value holds, maybe in another shape or dtype."""
    port = _port_of(module, value)
    return port.name if port is not None and port.kind == FEED else None


def _kept_state(module: ModuleOp, value: SSAValue) -> str | None:
    """Find the state, written by no step, whose elements a value holds, as `_feed_of` does."""
    port = _port_of(module, value)
    if port is None or port.kind != STATE or port.stack_of:
        return None
    written = (result.name for result in function_signature(main_function(module)).results)
    return None if port.name in written else port.name


def _port_of(module: ModuleOp, value: SSAValue) -> Port | None:
    source, main = _source(value), main_function(module)
    if not isinstance(source, BlockArgument) or source.owner is not main.body.block:
        return None
    return function_signature(main).arguments[source.index]


def _source(value: SSAValue) -> SSAValue:
    """Trace a value back through reshapes, transposes and casts of integers."""
    while isinstance(owner := value.owner, Operation):
        whole = isinstance(owner, Cast) and dtype_of(owner.operands[0].type).startswith("int")
        if not (whole or isinstance(owner, _MOVING)):
            break
        value = owner.operands[0]
    return value
