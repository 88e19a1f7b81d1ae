"""Attention by the kernels of libraries, on GPUs and TPUs: `attention_kernels.py` says which.

The property `algorithm` that this sets is obeyed by the lowering; on other devices, where a dumped
program may run, attention is computed as without it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from graphopt.ir.dialect.differentiated import active_values, ops_before, path_of
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.transformer import FusedDotProductAttention
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, change
from graphopt.passes.fusions.attention_kernels import KERNELS, Asked, drops, keys_of, refusal_by


@dataclass(frozen=True)
class ChooseAttention(RewritePass):
    """Let a library's kernel compute the attention that it takes."""

    name = "choose-attention"
    numerics = Numerics.REASSOCIATING
    kernel: str = "cudnn"

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log, twice = RewriteLog(self.name, self.numerics), set(_differentiated_twice(module))
        for op in list(module.walk()):
            if isinstance(op, FusedDotProductAttention) and not op.attr("algorithm"):
                reason = self._refusal(op, op in twice)
                if reason is not None:
                    log.declined(op, reason)
                else:
                    change(op, {"algorithm": self.kernel}, log)
        return log.outcomes

    def _refusal(self, op: FusedDotProductAttention, twice: bool) -> Reason | None:
        if twice:
            text = f"the kernel of {self.kernel} has a first derivative only"
            return Reason("second-derivative", text)
        asked = Asked(
            op.q.type,
            keys_of(op.k.type, op.attr("transpose_k")),
            op.v.type,
            None if op.mask is None else op.mask.type,
            op.attr("fill"),
            drops(op, "dropout_probability", "dropout_implementation"),
        )
        return refusal_by(KERNELS[self.kernel], asked)


def _differentiated_twice(module: ModuleOp) -> Iterator[Operation]:
    """The ops that a derivative of a derivative goes through."""
    for op in module.walk():
        if isinstance(op, Grad):
            region = ops_before(op)
            path = path_of(op, region, active_values(op, region))
            if any(isinstance(inner, Grad) for inner in path):
                yield from region
