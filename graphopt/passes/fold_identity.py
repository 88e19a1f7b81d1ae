"""Ops that change nothing: scale by one, dropout in inference, transposes and casts to the same.

Paddle's `save_inference_model` puts a scale by one before every output.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from graphopt.ir.ops.grad import Grad
from graphopt.ir.ops.math import Cast, Scale
from graphopt.ir.ops.random import Dropout
from graphopt.ir.ops.shape import Assign, Transpose
from graphopt.passes.numerics import Numerics

IDENTITIES = (Assign, Cast, Scale, Dropout, Transpose)


@dataclass(frozen=True)
class FoldIdentity(ModulePass):
    """Replace identity ops by their operand."""

    name = "fold-identity"
    numerics = Numerics.BIT_EXACT

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if is_identity(inner):
                inner.results[0].replace_all_uses_with(inner.operands[0])
                inner.detach()
                inner.erase()


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
