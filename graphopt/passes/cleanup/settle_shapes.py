"""A reshape to sizes that the program reads off a tensor -> a reshape that copies them.

Models whose batch and length are open write `reshape(x, [shape(x)[0], shape(x)[1], heads, size])`.
Where each size is a number or provably the size of x at that place, the plain op says the same:
0 copies a size, and one -1 takes what the others leave. The same elements move, and a wrong number
of them is an error as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from graphopt.ir.dialect.definition import default_attrs, encode_attrs
from graphopt.ir.dialect.known import Known
from graphopt.ir.dialect.op import PdOp, infer_types
from graphopt.ir.dialect.ops.dynamic import Dynamic
from graphopt.ir.dialect.ops.shape import Reshape
from graphopt.ir.dialect.size_rules import Sizes, amounts
from graphopt.ir.dialect.sums import Amount, product
from graphopt.ir.dialect.types import compatible
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, differentiated_values, replace


@dataclass(frozen=True)
class SettleShapes(RewritePass):
    """Reshapes by sizes that their operand has become reshapes that copy these sizes."""

    name = "settle-shapes"
    numerics = Numerics.BIT_EXACT

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log, known = RewriteLog(self.name, self.numerics), Known()
        if not any(isinstance(op, Dynamic) for op in module.walk()):
            return []
        kept = differentiated_values(module)
        for op in list(module.walk()):
            if not isinstance(op, PdOp):
                continue
            shape = _settled(op, known, log) if isinstance(op, Dynamic) else None
            if shape is None or op.results[0] in kept or not log.allow(op):
                known.see(op)
                continue
            log.applied(op)
            settled = Reshape.create(
                operands=op.operands[:1],
                result_types=[op.results[0].type],
                properties=encode_attrs(Reshape, {"shape": shape}),
            )
            settled.location = op.location
            assert op.parent is not None
            op.parent.insert_op_before(settled, op)
            done = replace(op, {op.results[0]: settled.results[0]}, log)
            known.see(settled if done else op)
        return log.outcomes


def _settled(op: Dynamic, known: Known, log: RewriteLog) -> list[int | None] | None:
    """The shape of a plain reshape for one with known sizes; None, and a reason, for any other."""
    if op.attr("op") != Reshape.name or op.attr("dynamic") != ("shape",) or len(op.inputs) != 1:
        return None
    x, declared = op.inputs[0], op.results[0].type
    elements = known.elements(op.values[0])
    wanted = [] if elements is None else amounts(elements)
    if all(size is None for size in wanted):
        return None
    shape = _copying(known.sizes(x), wanted)
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
    attrs = {**default_attrs(Reshape), "shape": shape}
    (inferred,) = infer_types(Reshape, [[x.type]], attrs)
    return shape if compatible(inferred, declared) else None


def _copying(own: Sizes, wanted: Sequence[Amount | None]) -> list[int | None]:
    """The shape that a plain reshape takes; None for a size that it cannot say."""
    shape = [
        size if isinstance(size, int) else 0 if own[at : at + 1] == (size,) else None
        for at, size in enumerate(wanted)
    ]
    sizes = [size for size in wanted if size is not None]
    if shape.count(None) == 1 and len(sizes) == len(wanted) and product(sizes) == product(own):
        at = shape.index(None)
        # where another size may be 0, a -1 says nothing
        if all(size is not None and size > 0 for size in (*shape[:at], *shape[at + 1 :])):
            shape[at] = -1
    return shape
