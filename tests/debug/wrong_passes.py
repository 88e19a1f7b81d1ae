"""Passes that are wrong on purpose, for `--import`; each has a test in test_bisect.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Relu
from graphopt.ir.dialect.ops.fused import FusedElemwiseAddActivation
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Abs, Add, Log, Subtract
from graphopt.passes.engine.fusion import Fusion, FusionPass, Match, Node, Outcome, Reason, Value
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, replace
from graphopt.passes.table.registry import register_pass


class AddRelu(Fusion):
    """relu(x + y), which is fused wrongly where the result has a certain name."""

    x, y = Value(), Value()
    add = Node(Add, x, y)
    root = relu = Node(Relu, add)

    def __init__(self, at: str, how: str) -> None:
        self.at, self.how = at, how

    def is_at(self, match: Match) -> bool:
        """Return whether the fusion is wrong here."""
        return match[self.relu].results[0].name_hint == self.at

    def check(self, match: Match) -> Reason | None:
        if self.is_at(match) and self.how == "raise-early":
            raise KeyError("no such thing")
        return None

    def build(self, match: Match) -> PdOp:
        x, y = match.value(self.x), match.value(self.y)
        how = self.how if self.is_at(match) else ""
        if how == "raise":
            raise TypeError("cannot build this")
        if how == "invalid":  # its operand comes later
            (use, *_) = match[self.relu].results[0].uses
            return Relu.make(use.operation.results[0])
        if how == "nan":
            return Log.make(y)
        if how == "no-rule":
            return FusedElemwiseAddActivation.make(
                x, y, functor_list=["no_such_function", "elementwise_add"]
            )
        function = "sigmoid" if how == "number" else "relu"
        return FusedElemwiseAddActivation.make(x, y, functor_list=[function, "elementwise_add"])


@register_pass
@dataclass(frozen=True)
class WrongAddRelu(FusionPass):
    """relu(x + y) -> one op, wrongly at one place."""

    name = "wrong-add-relu"
    at: str = ""
    how: str = "number"

    @property
    def RULES(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return (AddRelu(self.at, self.how),)


@register_pass
@dataclass(frozen=True)
class WrongAdd(RewritePass):
    """Rewrites x + y to x - y where the result has a certain name; unasked without `asks`."""

    name = "wrong-add"
    numerics = Numerics.BIT_EXACT
    at: str = ""
    asks: bool = True

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name)
        for op in list(module.walk()):
            if isinstance(op, Add) and op.results[0].name_hint in self.at.split("+"):
                if self.asks and not log.allow(op):
                    continue
                log.applied(op)
                other = Subtract.make(op.operands[0], op.operands[1])
                other.location = op.location
                assert op.parent is not None
                op.parent.insert_op_before(other, op)
                replace(op, {op.results[0]: other.results[0]})
        return log.outcomes


@register_pass
@dataclass(frozen=True)
class WrongMatmul(ModulePass):
    """Takes the absolute value of the left operand of every matmul; reports no rewrites."""

    name = "wrong-matmul"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for each in list(op.walk()):
            if isinstance(each, Matmul):
                made = Abs.make(each.operands[0])
                assert each.parent is not None
                each.parent.insert_op_before(made, each)
                each.operands[0] = made.results[0]
