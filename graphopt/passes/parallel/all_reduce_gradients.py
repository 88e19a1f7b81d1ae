"""Data parallelism with replicated updates: sum each parameter gradient over the replicas.

The sum goes right after the derivative, before clipping, regularization and the update, and only
gradients of parameters are summed. The sums of the last parameters come first: their gradients are
ready first, so a sum that waits for the previous one runs beside the rest of the derivative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from graphopt.errors import UnsupportedError
from graphopt.ir.dialect.ops.comm import AllReduce
from graphopt.ir.dialect.ops.grad import Grad, Vjp
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.ops.update.plain import Dpsgd
from graphopt.passes.engine.numerics import Numerics


@dataclass(frozen=True)
class AllReduceGradients(ModulePass):
    """Insert a `pd.all_reduce` for every parameter gradient."""

    name = "all-reduce-gradients"
    numerics = Numerics.REASSOCIATING

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for grad in list(op.walk()):
            if isinstance(grad, Vjp) and _reaches_update(grad):
                raise UnsupportedError(
                    f"a parameter is updated by the gradient operator of {grad.attr('op')} by "
                    "itself (pd.vjp), on several devices: its gradient is mixed with others, so it "
                    "is not known what to add up; run the program on one place"
                )
            if isinstance(grad, Grad):
                if grad.attr("parameters") and not isinstance(grad.parent_op(), FuncOp):
                    raise UnsupportedError(
                        "an optimizer inside control flow, on several devices: each device may "
                        "take another branch; minimize outside, or run the program on one place"
                    )
                for position in grad.attr("parameters"):
                    all_reduce(grad, cast(SSAValue, grad.results[position]))


def _reaches_update(vjp: Vjp) -> bool:
    """True when an update depends on these gradients by another op than a `pd.grad`."""
    seen: set[Operation] = set()
    todo: list[Operation] = [vjp]
    while todo:
        op = todo.pop()
        for user in (use.operation for result in op.results for use in result.uses):
            if isinstance(user, (Dpsgd, Update)):
                return True
            if user not in seen and not isinstance(user, Grad):
                seen.add(user)
                todo.append(user)
    return False


def all_reduce(grad: Grad, local: SSAValue) -> None:
    """Replace `local` by its sum over the replicas, for all its readers."""
    total = AllReduce.make(local, location=grad.location)
    block = grad.parent
    assert block is not None
    block.insert_op_after(total, grad)
    total.results[0].name_hint = local.name_hint
    local.replace_uses_with_if(total.results[0], lambda use: use.operation is not total)
