"""A reshape to sizes that the program reads off a tensor -> a reshape that copies them.

Models whose batch and length are open write `reshape(x, [shape(x)[0], shape(x)[1], heads, size])`.
Where each size is a number or provably the size of x at that place, the plain op is equivalent: 0
copies a size. The same elements move, and a wrong number of them is an error as before.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.shape import Reshape
from graphopt.ir.dialect.sizes import KnownSizes
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, differentiated_values, replace


@dataclass(frozen=True)
class SettleShapes(RewritePass):
    """Reshapes by sizes that their operand has become reshapes that copy these sizes."""

    name = "settle-shapes"
    numerics = Numerics.BIT_EXACT

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log, known = RewriteLog(self.name, self.numerics), KnownSizes()
        if not any(isinstance(op, Dynamic) for op in module.walk()):
            return []
        kept = differentiated_values(module)
        for op in list(module.walk()):
            if not isinstance(op, PdOp):
                continue
            settled = _settled(op, known, log) if isinstance(op, Dynamic) else None
            if settled is None or op.results[0] in kept or not log.allow(op):
                known.see(op)
                continue
            log.applied(op)
            settled.location = op.location
            assert op.parent is not None
            op.parent.insert_op_before(settled, op)
            done = replace(op, {op.results[0]: settled.results[0]}, log)
            known.see(settled if done else op)
        return log.outcomes


def _settled(op: Dynamic, known: KnownSizes, log: RewriteLog) -> PdOp | None:
    """The plain reshape for one whose sizes are known; None, and noted why, for any other."""
    if op.attr("op") != Reshape.name or op.attr("dynamic") != ("shape",) or len(op.inputs) != 1:
        return None
    wanted, own = known.elements(op.values[0]), known.of(op.inputs[0])
    if wanted is None:
        return None
    shape = [
        size if isinstance(size, int) else 0 if at < len(own) and own[at] == size else None
        for at, size in enumerate(wanted)
    ]
    if None in shape:
        at = shape.index(None)
        log.declined(
            op,
            Reason(
                "other-size",
                f"size {at} of the new shape is not known to be size {at} of the operand",
                f"read it off the operand itself, as shape(x)[{at}], or write -1 for it",
            ),
        )
        return None
    settled = Reshape.make(op.inputs[0], shape=shape)
    return settled if settled.results[0].type == op.results[0].type else None
