"""A pass from outside of graphopt: x * sigmoid(x) becomes silu(x), one op with one derivative.

After `pip install .`, `graphopt-opt -p fuse-silu` finds it by its entry point.
`graphopt.testing.check_pass(FuseSilu)` tests it; see test_custom_pass.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Sigmoid, Silu
from graphopt.ir.dialect.ops.math import Multiply
from graphopt.ir.dialect.types import dtype_of
from graphopt.passes.engine.fusion import Fusion, FusionPass, Match, Node, Reason, Value
from graphopt.passes.engine.numerics import Numerics


class SiluByHand(Fusion):
    """The pattern x * sigmoid(x), in either order."""

    x = Value()
    sigmoid = Node(Sigmoid, x)
    root = product = Node(Multiply, x, sigmoid, commutes=True)

    def check(self, match: Match) -> Reason | None:
        if dtype_of(match.value(self.x).type) != "float64":
            return None
        return Reason("double", "`x` is float64, which this pass leaves alone", "cast it first")

    def build(self, match: Match) -> PdOp:
        return Silu.make(match.value(self.x))


@dataclass(frozen=True)
class FuseSilu(FusionPass):
    """Fuses x * sigmoid(x) to silu(x)."""

    name = "fuse-silu"
    RULES = (SiluByHand(),)
    numerics = Numerics.REASSOCIATING
