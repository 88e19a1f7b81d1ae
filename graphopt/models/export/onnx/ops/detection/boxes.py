"""Boxes that depend on sizes alone, as constants from the lowering, and shared box functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.op import PdOp, call_rule
from graphopt.ir.dialect.ops.detection import boxes as ops
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.lowering import rules as rules  # registers every rule
from graphopt.lowering.registry import RULES
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.registry import exports


def _of_sizes(op_class: type[PdOp]) -> None:
    @exports(op_class)
    def rule(emit: Nodes, **values: Any) -> tuple[Value, ...]:
        given = dict(values)
        for name, value in values.items():
            if isinstance(value, Value):
                if UNKNOWN in sizes_of(value)[2:]:
                    raise NotInOnnx("the boxes depend on open sizes")
                shape = [max(size, 1) for size in sizes_of(value)]
                given[name] = np.zeros(shape, dtype_of(value).numpy)
        return tuple(emit.constant(np.array(each)) for each in call_rule(RULES[op_class], given))


_of_sizes(ops.PriorBox)
_of_sizes(ops.DensityPriorBox)
_of_sizes(ops.AnchorGenerator)


def _to_centres(emit: Nodes, boxes: Value, extra: float) -> list[tuple[Value, Value]]:
    """Compute the center and the side [..., 1] of boxes along both axes."""
    found = list[tuple[Value, Value]]()
    for axis in (0, 1):
        low, high = (emit.cut(boxes, [-1], [at], [at + 1]) for at in (axis, axis + 2))
        side = emit("Sub", high, low)
        side = emit("Add", side, emit.number(extra, boxes)) if extra else side
        centre = emit("Add", low, emit("Mul", side, emit.number(0.5, boxes)))
        found.append((centre, side))
    return found


@exports(ops.BoxCoder, wide=True)
def box_coder(
    emit: Nodes,
    prior_box: Value,
    prior_box_var: Value | None,
    target_box: Value,
    code_type: str,
    box_normalized: bool,
    axis: int,
    variance: tuple[float, ...],
) -> Value:
    extra = 0.0 if box_normalized else 1.0
    encodes = code_type.startswith("encode")
    along = 0 if encodes else axis
    priors = _to_centres(emit, emit.unsqueeze(prior_box, along), extra)
    if prior_box_var is not None:
        spread = emit.unsqueeze(prior_box_var, along)
    else:
        numbers = np.asarray(variance or (1.0,) * 4, dtype_of(prior_box).numpy)
        spread = emit.constant(numbers)
    if encodes:
        boxes, half = emit.unsqueeze(target_box, 1), emit.number(0.5, target_box)
        shifts, growths = list[Value](), list[Value]()
        for at, (centre, side) in enumerate(priors):
            low, high = (emit.cut(boxes, [-1], [i], [i + 1]) for i in (at, at + 2))
            own = emit("Mul", emit("Add", low, high), half)
            length = emit("Sub", high, low)
            length = emit("Add", length, emit.number(extra, boxes)) if extra else length
            shifts.append(emit("Div", emit("Sub", own, centre), side))
            growths.append(emit("Log", emit("Abs", emit("Div", length, side))))
        return emit("Div", emit("Concat", *shifts, *growths, axis=-1), spread)
    code = emit("Mul", target_box, spread)
    lows, highs = list[Value](), list[Value]()
    for at, (centre, side) in enumerate(priors):
        shift, growth = (emit.cut(code, [-1], [i], [i + 1]) for i in (at, at + 2))
        middle = emit("Add", emit("Mul", shift, side), centre)
        half = emit("Mul", emit("Mul", emit("Exp", growth), side), emit.number(0.5, code))
        lows.append(emit("Sub", middle, half))
        high = emit("Add", middle, half)
        highs.append(emit("Sub", high, emit.number(extra, code)) if extra else high)
    return emit("Concat", *lows, *highs, axis=-1)


def overlaps(
    emit: Nodes, x: Value, y: Value, extra: float, apart: bool = False
) -> tuple[Value, Value]:
    """Compute the intersection and the union area of boxes that broadcast.

    With `apart` boxes that do not overlap without the `extra` pixel have no intersection.
    """

    def sides(high: Value, low: Value) -> Value:
        side = emit("Sub", high, low)
        return emit("Add", side, emit.number(extra, x)) if extra else side

    def area(side: Value) -> Value:
        return emit("ReduceProd", side, emit.ints([-1]), keepdims=0)

    (low, high), (other_low, other_high) = (
        (emit.cut(v, [-1], [0], [2]), emit.cut(v, [-1], [2], [4])) for v in (x, y)
    )
    start, end, zero = emit("Max", low, other_low), emit("Min", high, other_high), emit.number(0, x)
    common = emit("Max", sides(end, start), zero)
    if apart and extra:
        common = emit("Where", emit("Less", end, start), zero, common)
    common = area(common)
    both = emit("Add", area(sides(high, low)), area(sides(other_high, other_low)))
    return common, emit("Sub", both, common)


@exports(ops.IouSimilarity, wide=True)
def iou_similarity(emit: Nodes, x: Value, y: Value, box_normalized: bool) -> Value:
    extra = 0.0 if box_normalized else 1.0
    common, union = overlaps(emit, emit.unsqueeze(x, 1), emit.unsqueeze(y, 0), extra)
    # boxes without an area have IoU 0
    return emit("Div", common, emit("Add", union, emit.number(1e-10, x)))
