"""Passes with one right and one wrong rewrite, each with a program for both.

tests/passes/test_validation.py checks that the right one stays and the wrong one is undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.bulk import replace_uses
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Softmax
from graphopt.ir.dialect.ops.math import Abs, Add, Scale
from graphopt.passes.engine.fusion import Fusion, FusionPass, Match, Node, Outcome, Value
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, replace
from graphopt_tests.passes.wrong_rewrites import (
    F23,
    FUSED_CASES,
    AlphaLost,
    X,
    attrs_with,
    before,
    program,
)


@dataclass(frozen=True)
class RightFirst(RewritePass):
    """Rewrites 2 x to x + x, and then softmax to softmax over another axis.

    `by_hand` inserts the sum without `replace`; `meddles` inserts an op before the wrong change.
    """

    name = "right-first"
    numerics = Numerics.REASSOCIATING
    by_hand: bool = False
    meddles: bool = False

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        for op in list(module.walk()):
            if not isinstance(op, (Scale, Softmax)):
                continue
            if isinstance(op, Softmax) and self.meddles:
                before(op, Abs.make(op.operands[0]))
            if log.allow(op):
                log.applied(op)
                self._replace(op, log)
        return log.outcomes

    def _replace(self, op: Scale | Softmax, log: RewriteLog) -> None:
        if isinstance(op, Softmax):
            other = Softmax.make(op.operands[0], **attrs_with(op, axis=0))
            replace(op, {op.results[0]: before(op, other)}, log)
            return
        values: dict[SSAValue, SSAValue] = {op.results[0]: before(op, doubled(op.operands[0]))}
        if not self.by_hand:
            replace(op, values, log)
        elif not log.undo_if_wrong([op], values):
            replace_uses(values)
            op.detach()
            op.erase()


def doubled(x: SSAValue) -> PdOp:
    return Add.make(x, x)


class Doubled(Fusion):
    """Rewrites 2 x to x + x."""

    x = Value()
    root = scale = Node(Scale, x)

    def build(self, match: Match) -> PdOp:
        return doubled(match.value(self.x))


@dataclass(frozen=True)
class LargerIsWrong(FusionPass):
    """Two patterns with the same end, of which the larger is wrong."""

    name = "larger-is-wrong"
    RULES: ClassVar[tuple[Fusion, ...]] = (AlphaLost(), Doubled())
    numerics = Numerics.REASSOCIATING


TWICE_AND_SOFT = program(
    X,
    F23,
    f"%s = pd.scale(%x) {{scale = 2.0}} : {F23}",
    f"%out = pd.softmax(%s) : {F23}",
)
CASES: dict[str, tuple[str, RewritePass | FusionPass]] = {
    "one after the other": (TWICE_AND_SOFT, RightFirst()),
    "one after the other, the first by hand": (TWICE_AND_SOFT, RightFirst(by_hand=True)),
    "another op between the two": (TWICE_AND_SOFT, RightFirst(meddles=True)),
    "a smaller pattern after a larger one": (
        FUSED_CASES["alpha is lost on the bias"].replace("scale = 0.5", "scale = 2.0"),
        LargerIsWrong(),
    ),
}
