"""enable_backward_optimizer_op_deps: no parameter is updated before all gradients are computed.

As in Paddle this is for several trainers, where an update that starts early would compete with the
sums of later gradients.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from graphopt.ir.dialect.definition import operand_names
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import Fence
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.signature import main_function
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass


@dataclass(frozen=True)
class FenceUpdates(RewritePass):
    """Insert one `pd.fence` between the gradients and the updates that read them."""

    name = "fence-updates"
    numerics = Numerics.BIT_EXACT

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name)
        block = main_function(module).body.block
        updates = [op for op in block.ops if isinstance(op, Update)]
        gradients = list(dict.fromkeys(v for op in updates for v in gradients_of(op)))
        if not updates or _is_fenced(gradients):
            return log.outcomes
        first = updates[0]
        late = _made_behind(first, gradients)
        if late is not None:
            reason = Reason("several-phases", f"`{late.name}` computes a gradient after an update")
            log.declined(first, reason)
            return log.outcomes
        if not log.allow(first):
            return log.outcomes
        log.applied(first, *updates[1:])
        fence = Fence.make(gradients, [], location=first.location)
        block.insert_op_before(fence, first)
        held = dict(zip(gradients, fence.results, strict=True))
        for old, new in held.items():
            new.name_hint = old.name_hint
            old.replace_uses_with_if(new, lambda use: isinstance(use.operation, Update))
        return log.outcomes


def gradients_of(update: Update) -> list[SSAValue]:
    """List the gradients that an update reads, of one parameter or of several."""
    groups = zip(operand_names(type(update)), update.operand_groups(), strict=True)
    return [value for name, group in groups if name in ("grad", "grads") for value in group]


def _is_fenced(gradients: list[SSAValue]) -> bool:
    return bool(gradients) and all(isinstance(value.owner, Fence) for value in gradients)


def _made_behind(first: PdOp, gradients: list[SSAValue]) -> Operation | None:
    """Find an op after `first` that computes one of the gradients; None if there is none."""
    makers = {value.owner for value in gradients}
    op = first.next_op
    while op is not None:
        if op in makers:
            return op
        op = op.next_op
    return None
