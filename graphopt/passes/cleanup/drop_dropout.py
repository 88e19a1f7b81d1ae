"""Dropout that drops nothing: in test programs, and with p = 0.

`upscale_in_train` leaves the values alone in tests; `downgrade_in_infer` multiplies them by
1 - p, which a `pd.scale` does with the same bits. The result draws no random numbers, so a test
program needs no generator.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.ops.math import Scale
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, differentiated_values, replace


@dataclass(frozen=True)
class DropDropout(RewritePass):
    """Replace dropouts that drop nothing by their operand, or by a scale."""

    name = "drop-dropout"
    numerics = Numerics.BIT_EXACT

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log, kept = RewriteLog(self.name, self.numerics), differentiated_values(module)
        for op in list(module.walk()):
            if isinstance(op, Dropout):
                _drop(op, log, keep=op.results[0] in kept)
        return log.outcomes


def _drop(op: Dropout, log: RewriteLog, *, keep: bool) -> None:
    testing, p = op.attr("is_test"), op.attr("p")
    if not testing and p != 0:
        text = f"the dropout drops {p:g} of the elements in training"
        log.declined(op, Reason("drops-elements", text, "clone the program with for_test=True"))
        return
    factor = 1 - p if testing and op.attr("mode") == "downgrade_in_infer" else 1
    if factor == 1 and keep:
        text = "a gradient is taken with respect to the result of the dropout"
        log.declined(
            op, Reason("differentiated", text, "take the gradient with respect to the operand")
        )
        return
    if not log.allow(op):
        return
    log.applied(op)
    if factor == 1:
        replace(op, {op.results[0]: op.operands[0]}, log)
        return
    scale = Scale.make(op.operands[0], scale=factor, location=op.location)
    assert op.parent is not None
    op.parent.insert_op_before(scale, op)
    replace(op, {op.results[0]: scale.results[0]}, log)
