"""enable_addto: the parts of a gradient are accumulated as they are computed.

A parameter that several ops read has a gradient of several parts. XLA would keep them all and add
them at the end; with `addto` it keeps the sum so far and one part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.data_sized import data_sized
from graphopt.ir.dialect.definition import encode_attrs
from graphopt.ir.dialect.differentiated import active_values, ops_before, path_of
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.regions import values_read
from graphopt.passes.engine.fusion import Outcome
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass
from graphopt.passes.target.recompute_activations import OP_BY_OP, SECOND


@dataclass(frozen=True)
class AddTo(RewritePass):
    """Set `addto` on each `pd.grad` with a gradient of several parts."""

    name = "add-to"
    numerics = Numerics.BIT_EXACT

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name)
        by_op = next(data_sized(module), None) is not None
        for grad in [op for op in module.walk() if isinstance(op, Grad)]:
            region = ops_before(grad)
            path = path_of(grad, region, active_values(grad, region))
            if grad.attr("addto") or not _has_several_parts(grad, path):
                continue
            if by_op or any(isinstance(op, Grad) for op in path):
                log.declined(grad, OP_BY_OP if by_op else SECOND)
            elif log.allow(grad):
                log.applied(grad)
                grad.properties |= encode_attrs(Grad, {"addto": True})
        return log.outcomes


def _has_several_parts(grad: Grad, path: Sequence[PdOp]) -> bool:
    """True when several ops contribute to one of the gradients."""
    readers: Counter[SSAValue] = Counter()
    for op in path:
        readers.update(set(values_read(op)))
    return any(readers[value] > 1 for value in grad.wrt)
