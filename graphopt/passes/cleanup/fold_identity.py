"""Ops that change nothing: scale by one, dropout in inference, transposes and casts to the same.

Paddle's `save_inference_model` puts a scale by one before every output.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.math import Cast, Scale
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.shape import Assign, Transpose
from graphopt.passes.engine.fusion import Outcome
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, replace

IDENTITIES = (Assign, Cast, Scale, Dropout, Transpose)


@dataclass(frozen=True)
class FoldIdentity(RewritePass):
    """Replace identity ops by their operand."""

    name = "fold-identity"
    numerics = Numerics.BIT_EXACT

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        for op in list(module.walk()):
            if is_identity(op) and log.allow(op):
                log.applied(op)
                replace(op, {op.results[0]: op.operands[0]}, log)
        return log.outcomes


def is_identity(op: Operation) -> bool:
    """True when the op's result is its first operand, with the same type and gradient."""
    if not isinstance(op, IDENTITIES) or op.results[0].type != op.operands[0].type:
        return False
    if any(isinstance(use.operation, Grad) for use in op.results[0].uses):
        return False  # a derivative with respect to a copy is not one with respect to the original
    match op:
        case Scale():
            return op.attr("scale") == 1 and op.attr("bias") == 0
        case Dropout():
            inference = op.attr("is_test") and op.attr("mode") == "upscale_in_train"
            return inference or (op.attr("p") == 0)
        case Transpose():
            return list(op.attr("perm")) == list(range(len(op.attr("perm"))))
        case _:
            return True  # a copy, or a cast to the same dtype
