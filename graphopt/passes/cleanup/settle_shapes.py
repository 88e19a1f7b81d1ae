"""A reshape or expand to sizes read off a tensor -> a plain op that copies the sizes.

Models whose batch and length are open write `reshape(x, [shape(x)[0], shape(x)[1], heads, size])`.
Where each size is a number, or provably the size of x at the same axis, a plain op is equivalent: 0
copies a size, and one -1 is inferred from the other sizes. The same elements move, and a wrong
element count is an error as before. In an expand, -1 keeps a size. If the sizes come from one other
tensor, at the same axes, the op becomes a `reshape_like`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.definition import default_attrs, encode_attrs
from graphopt.ir.dialect.known import KnownValues
from graphopt.ir.dialect.op import PdOp, infer_types
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.shape import Expand, Reshape, ReshapeLike, ShapeOf, Slice
from graphopt.ir.dialect.size_rules import Sizes, amounts
from graphopt.ir.dialect.sums import Amount, Size, SymbolicSum, product
from graphopt.ir.dialect.types import compatible
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, differentiated_values, replace


@dataclass(frozen=True)
class SettleShapes(RewritePass):
    """Replace reshapes and expands to sizes of their operand by ops that copy these sizes."""

    name = "settle-shapes"
    numerics = Numerics.BIT_EXACT
    has_elements: bool = False
    """True if no tensor is empty: then a 0 always copies a size, and a -1 takes the rest."""

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log, known = RewriteLog(self.name, self.numerics), KnownValues()
        if not any(isinstance(op, Dynamic) for op in module.walk()):
            return []
        kept = differentiated_values(module)
        for op in list(module.walk()):
            if not isinstance(op, PdOp):
                continue
            if isinstance(op, Slice) and _read_from_source(op, known, log):
                continue
            made = (
                _settle_op(op, known, log, self.has_elements) if isinstance(op, Dynamic) else None
            )
            if made is None or op.results[0] in kept or not log.allow(op):
                known.see(op)
                continue
            log.applied(op)
            settled = made.op.create(
                operands=made.operands,
                result_types=[op.results[0].type],
                properties=encode_attrs(made.op, {"shape": made.shape}),
            )
            settled.location = op.location
            assert op.parent is not None
            op.parent.insert_op_before(settled, op)
            done = replace(op, {op.results[0]: settled.results[0]}, log)
            known.see(settled if done else op)
        return log.outcomes


def _read_from_source(op: Slice, known: KnownValues, log: RewriteLog) -> bool:
    """Read a size directly off its source tensor, so that no tensor in between must be kept."""
    source, elements = op.input.owner, known.elements(op.out)
    if not isinstance(source, ShapeOf) or elements is None or elements.size != 1:
        return False
    (size,) = amounts(elements)
    only = size.only if isinstance(size, SymbolicSum) else None
    if not isinstance(only, Size) or only.value is source.input or not log.allow(op):
        return False
    log.applied(op)
    shape = ShapeOf.make(only.value)
    bounds = {"starts": (only.axis,), "ends": (only.axis + 1,)}
    read = Slice.make(shape.results[0], **{**op.attr_values(), **bounds})
    for made in (shape, read):
        made.location = op.location
        assert op.parent is not None
        op.parent.insert_op_before(made, op)
    replace(op, {op.results[0]: read.results[0]}, log)
    return True


class _Plain(NamedTuple):
    """The op with its shape as a property, and its operands."""

    op: type[PdOp]
    shape: Sequence[int | None]
    operands: Sequence[SSAValue]


def _settle_op(
    op: Dynamic, known: KnownValues, log: RewriteLog, has_elements: bool
) -> _Plain | None:
    """Build the plain op for a dynamic reshape or expand of known sizes; None for any other op.

    A reshape with a size that the plain op cannot express is logged as declined.
    """
    made = {kind.name: kind for kind in (Reshape, Expand)}.get(op.attr("op"))
    if made is None or op.attr("dynamic") != ("shape",) or len(op.inputs) != 1:
        return None
    elements = known.elements(op.values[0])
    wanted = [] if elements is None else amounts(elements)
    if all(size is None for size in wanted):
        return None
    own, x = known.sizes(op.inputs[0]), op.inputs[0]
    shape = _copying(own, wanted, has_elements) if made is Reshape else _keeping(own, wanted)
    found = _Plain(made, shape, (x,))
    if None in found.shape:
        like = _likeness(wanted) if made is Reshape else None
        if like is None:
            _decline(op, found, log)
            return None
        found = _Plain(ReshapeLike, like[1], (x, like[0]))
    groups = [[value.type] for value in found.operands]
    attrs = {**default_attrs(found.op), "shape": found.shape}
    (inferred,) = infer_types(found.op, groups, attrs)
    return found if compatible(inferred, op.results[0].type) else None


def _decline(op: Dynamic, found: _Plain, log: RewriteLog) -> None:
    if found.op is not Reshape:
        return  # most expands enlarge sizes
    at = found.shape.index(None)
    log.declined(
        op,
        Reason(
            "other-size",
            f"size {at} of the new shape is not known to equal size {at} of the operand",
            f"take this size from the operand itself, as shape(x)[{at}], or write -1",
        ),
    )


def _keeping(own: Sizes, wanted: Sequence[Amount | None]) -> list[int | None]:
    """Build the shape of a plain expand; None for a size that is not the operand's."""
    aligned = (None,) * (len(wanted) - len(own)) + own
    return [
        size if isinstance(size, int) else -1 if size is not None and size == mine else None
        for mine, size in zip(aligned, wanted, strict=True)
    ]


def _copying(own: Sizes, wanted: Sequence[Amount | None], has_elements: bool) -> list[int | None]:
    """Build the shape of a plain reshape; None for a size that it cannot express."""
    shape = [
        size if isinstance(size, int) else 0 if own[at : at + 1] == (size,) else None
        for at, size in enumerate(wanted)
    ]
    copied = own if has_elements else ()
    sizes = [
        copied[at] if size == 0 and at < len(copied) else size
        for at, size in enumerate(wanted)
        if size is not None
    ]
    if shape.count(None) == 1 and len(sizes) == len(wanted) and product(sizes) == product(own):
        at = shape.index(None)
        # if another size may be 0, a -1 determines nothing
        others = (*shape[:at], *shape[at + 1 :])
        if has_elements or all(size is not None and size > 0 for size in others):
            shape[at] = -1
    return shape


def _likeness(wanted: Sequence[Amount | None]) -> tuple[SSAValue, list[int]] | None:
    """Find the one tensor whose sizes the shape copies, and the shape with a 0 for each of them."""
    shape, measured = list[int](), set[SSAValue]()
    for at, size in enumerate(wanted):
        only = size.only if isinstance(size, SymbolicSum) else None
        if isinstance(only, Size) and only.axis == at:
            measured.add(only.value)
            shape.append(0)
        elif isinstance(size, int) and size != 0:
            shape.append(size)
        else:
            return None
    return (measured.pop(), shape) if len(measured) == 1 else None
