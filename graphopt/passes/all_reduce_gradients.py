"""Data parallelism with replicated updates: sum each parameter gradient over the replicas.

(SEMANTICS 4.8.) The sum goes right behind the derivative, before clipping, regularisation and the
update, and only gradients of parameters are summed.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from graphopt.ir.ops.comm import AllReduce
from graphopt.ir.ops.grad import Grad


@dataclass(frozen=True)
class AllReduceGradients(ModulePass):
    """Insert a `pd.all_reduce` for every parameter gradient."""

    name = "all-reduce-gradients"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for grad in list(op.walk()):
            if not isinstance(grad, Grad):
                continue
            last = grad
            for position in grad.attr("parameters"):
                local = grad.results[position]
                total = AllReduce.make(local, location=grad.location)
                grad.parent.insert_op_after(total, last)
                last = total
                local.replace_uses_with_if(
                    total.results[0], lambda use, t=total: use.operation is not t
                )
                total.results[0].name_hint = local.name_hint
