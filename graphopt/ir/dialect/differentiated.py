"""The path of a `pd.grad`: the values that depend on `wrt`, and the ops up to `of`.

The derivative may recompute some of these ops, marked in segments: their forward results are then
not kept. In a `pd.fusion_group`, marks name the ops with kept results instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.dialects.builtin import IntegerAttr, IntegerType, ModuleOp, UnitAttr, i64
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.base import PureOp
from graphopt.ir.dialect.ops.comm import AllGather, Collective
from graphopt.ir.dialect.ops.control import Fence, FusionGroup
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.shape import StopGradient
from graphopt.ir.dialect.regions import values_read
from graphopt.ir.dialect.types import dtype_of

RECOMPUTE, KEPT = "pd.recompute", "pd.kept"


def ops_before(op: Grad) -> list[PdOp]:
    """List the ops before `op` in its block."""
    before: list[PdOp] = []
    block = op.parent
    assert block is not None
    for other in block.ops:
        if other is op:
            break
        if isinstance(other, PdOp):
            before.append(other)
    return before


def active_values(op: Grad, region: Iterable[PdOp]) -> set[SSAValue]:
    """Find the values that depend on `wrt` and through which gradients may flow."""
    blocked = set(op.no_grad)
    active: set[SSAValue] = set(op.wrt)
    for inner in region:
        active.update(result for result in _active_results(inner, active) if result not in blocked)
    return active


def _active_results(op: PdOp, active: set[SSAValue]) -> list[SSAValue]:
    """List the results that depend on active values; for a group, through its inner ops."""
    if not any(value in active for value in values_read(op)):
        return []
    results: list[SSAValue] = list(op.results)
    if isinstance(op, Fence):
        # a fence orders values and passes each through: a result depends on its own operand only
        results = [r for r, value in zip(results, op.values, strict=True) if value in active]
    if isinstance(op, FusionGroup):
        inside = set(active)
        for inner in op.body.block.ops:
            if isinstance(inner, PdOp):
                inside.update(_active_results(inner, inside))
        results = [
            r for r, value in zip(results, op.yielded_values(), strict=True) if value in inside
        ]
    return [result for result in results if dtype_of(result.type).is_differentiable]


def path_of(op: Grad, region: Sequence[PdOp], active: set[SSAValue]) -> list[PdOp]:
    """List the ops between `wrt` and `of`, in program order."""
    wanted: set[SSAValue] = {value for value in op.of if value in active}
    path: list[PdOp] = []
    for inner in reversed(region):
        if any(result in wanted for result in inner.results):
            inputs = [value for value in values_read(inner) if value in active]
            if inputs:
                wanted.update(inputs)
                path.append(inner)
    return path[::-1]


def differentiated_ops(module: ModuleOp) -> set[Operation]:
    """Collect the ops on the path of some `pd.grad`."""
    found: set[Operation] = set()
    for op in module.walk():
        if isinstance(op, Grad):
            region = ops_before(op)
            found.update(path_of(op, region, active_values(op, region)))
    return found


def gathered_again(ops: Iterable[Operation]) -> dict[SSAValue, PdOp]:
    """Map values that derivatives gather again, or compute from such alone, to their ops."""
    found: dict[SSAValue, PdOp] = {}
    for op in ops:
        if isinstance(op, AllGather) and op.attr("again"):
            found |= dict.fromkeys(op.results, op)
        elif found and isinstance(op, PureOp) and not isinstance(op, Collective):
            read = values_read(op)
            if read and all(value in found for value in read):
                found |= dict.fromkeys(op.results, op)
    return found


def readers_of(value: SSAValue, grad: Grad) -> list[PdOp]:
    """Find the users that contribute to a value's gradient; `grad` is one if it is a target."""
    region = ops_before(grad)
    wanted: set[SSAValue] = set(grad.of)
    found: list[PdOp] = [grad] if value in wanted else []
    for op in reversed(path_of(grad, region, active_values(grad, region))):
        if isinstance(op, StopGradient) or wanted.isdisjoint(op.results):
            continue
        read = values_read(op)
        wanted.update(read)
        if value in read:
            found.append(op)
    return found[::-1]


def segment_of(op: Operation) -> int | None:
    """Return the number of the op's recompute segment; None for an op that is kept."""
    attribute = op.attributes.get(RECOMPUTE)
    if attribute is None:
        return None
    return cast("IntegerAttr[IntegerType]", attribute).value.data


def mark_segment(op: Operation, number: int) -> None:
    """Mark `op` for recomputation by the derivative, in the segment `number`."""
    op.attributes[RECOMPUTE] = IntegerAttr(number, i64)


def is_kept(op: Operation) -> bool:
    """Return whether the derivative of a fusion group keeps the results of this op in it."""
    return KEPT in op.attributes


def mark_kept(op: Operation) -> None:
    """Mark an op in a fusion group: the group's derivative keeps its results."""
    op.attributes[KEPT] = UnitAttr()
