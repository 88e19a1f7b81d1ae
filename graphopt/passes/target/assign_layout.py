"""Images with the channels last (NHWC) around convolutions that have them first (NCHW).

XLA's convolutions on CPUs need the channels last, and transpose every image and every filter there
and back. Here a convolution becomes one of transposed images, between two transposes. The ops
around it that do not depend on the layout follow, and transposes that meet cancel. So transposes
are left only where the order of the axes is read: feeds, fetches, reshapes, gradients of images.
Filters that no step writes are transposed, too, once, by prepare-weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.shape import Reshape, Transpose
from graphopt.ir.dialect.types import rank_of, shape_of
from graphopt.passes.engine.fixed_values import fixed_values
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, insert, replace
from graphopt.passes.target.layout_rules import (
    FIRST,
    LAST,
    RANK,
    ChannelsLast,
    channels_last,
    is_anchor,
)

# from [out, in / groups, height, width] to [height, width, in / groups, out]
FILTER = (2, 3, 1, 0)


@dataclass(frozen=True)
class AssignLayout(RewritePass):
    """Transpose images so that their channels are last, where convolutions read them."""

    name = "assign-layout"
    numerics = Numerics.REASSOCIATING

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        ops = [op for op in module.walk() if isinstance(op, PdOp)]
        if any(map(is_anchor, ops)):
            layouts = _Layouts(fixed_values(module), log)
            for op in ops:
                layouts.visit(op)
            layouts.clean()
        return log.outcomes


class _Layouts:
    """The values that have a transposed form, and the transposes between the two forms."""

    def __init__(self, fixed: set[SSAValue], log: RewriteLog) -> None:
        self.fixed, self.log = fixed, log
        self.transposed: dict[SSAValue, SSAValue] = {}
        """The result of a transpose back to NCHW -> the operand of that transpose."""
        self.made: dict[tuple[Block, SSAValue, Sequence[int]], SSAValue] = {}

    def visit(self, op: PdOp) -> None:
        """Give an op its form with the channels last, or note why it keeps its own."""
        if not is_anchor(op) and not any(value in self.transposed for value in op.operands):
            return
        form = channels_last(op)
        reason = self._reason(op, form)
        if reason is not None:
            self.log.declined(op, reason)
        elif form is not None and self.log.allow(op):
            self.log.applied(op)
            self._turn(op, form)

    def _reason(self, op: PdOp, form: ChannelsLast | None) -> Reason | None:
        if isinstance(op, Grad):
            return Reason("differentiated", "a gradient is taken with respect to an image")
        if form is None:
            if is_anchor(op):
                return Reason("other-layout", f"the data_format is {op.attr('data_format')}")
            return Reason(
                "layout-dependent", "the result of the op depends on the order of the axes"
            )
        if not is_anchor(op) and not any(self._follows(op.operands[i]) for i in form.images):
            return Reason(
                "image-kept", "the image that the op reads keeps its layout for a gradient"
            )
        return None

    def _follows(self, value: SSAValue) -> bool:
        """True when the value may be read in its transposed form.

        A value that a derivative names has to be read itself: gradients go through it.
        """
        named = any(isinstance(use.operation, Grad) for use in value.uses)
        return value in self.transposed and not named

    def _turn(self, op: PdOp, form: ChannelsLast) -> None:
        operands = list(op.operands)
        for index in form.few:
            shape = shape_of(operands[index].type)
            wide = Reshape.make(operands[index], shape=(1,) * (RANK - len(shape)) + shape)
            operands[index] = self._move(insert(wide, op), LAST, op)
        for index in form.images:
            value = operands[index]
            follows = self._follows(value)
            operands[index] = self.transposed[value] if follows else self._move(value, LAST, op)
        attrs = {**op.attr_values(), **form.attrs}
        if is_anchor(op) and op.operands[1] in self.fixed and attrs["filter_format"] == "OIHW":
            operands[1] = self._move(operands[1], FILTER, op)
            attrs["filter_format"] = "HWIO"
        groups = iter(operands)
        grouped = [[next(groups) for _ in group] for group in op.operand_groups()]
        new = type(op).make(*grouped, location=op.location, **attrs)
        insert(new, op)
        self._replace(op, new, form)

    def _replace(self, op: PdOp, new: PdOp, form: ChannelsLast) -> None:
        values: dict[SSAValue, SSAValue] = {}
        for index, (old, result) in enumerate(zip(op.results, new.results, strict=True)):
            values[old] = result
            if index in form.results and rank_of(result.type) == RANK:
                result.name_hint = old.name_hint
                values[old] = insert(Transpose.make(result, perm=FIRST), op)
                self.transposed[values[old]] = result
        if not replace(op, values, self.log):
            self.made.clear()  # a validator has undone the new ops

    def _move(self, value: SSAValue, perm: Sequence[int], op: PdOp) -> SSAValue:
        """Permute the axes of a value, for `op` and later ops of its block."""
        assert op.parent is not None
        key = (op.parent, value, perm)
        if key not in self.made:
            self.made[key] = insert(Transpose.make(value, perm=perm), op)
        return self.made[key]

    def clean(self) -> None:
        """Erase the transposes that nothing reads."""
        for back in (value.owner for value in self.transposed if not value.uses):
            if isinstance(back, Transpose) and back.parent is not None:
                back.detach()
                back.erase()
