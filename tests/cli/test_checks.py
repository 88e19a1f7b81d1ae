"""--verify-each names the rewrite that broke a program; --opt-bisect-limit counts rewrites."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from graphopt.errors import PassError
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Relu, Tanh
from graphopt.ir.dialect.ops.math import Exp
from graphopt.ir.dialect.signature import main_function
from graphopt.passes.engine import bisect
from graphopt.passes.engine.fusion import Fusion, FusionPass, Match, Node, Value
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.manager import PassRun
from graphopt.testing import parse
from graphopt_tests.cli.test_opt import MODELS, opt

PROGRAM = """
func.func @main(%x: tensor<2x4xf32> {pd.feed = "x"}) -> (tensor<2x4xf32> {pd.fetch = "y"}) {
  %a = pd.exp(%x) : tensor<2x4xf32>
  %b = pd.relu(%a) : tensor<2x4xf32>
  %c = pd.exp(%b) : tensor<2x4xf32>
  %d = pd.relu(%c) : tensor<2x4xf32>
  %e = pd.exp(%d) : tensor<2x4xf32>
  %y = pd.relu(%e) : tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
"""


class Wrong(Fusion):
    """relu(exp(x)) -> tanh of a value that comes later, at one op only."""

    x = Value()
    exp = Node(Exp, x)
    root = Node(Relu, exp)

    def build(self, match: Match) -> PdOp:
        if match[self.root].results[0].name_hint != "d":
            return Tanh.make(match.value(self.x))
        (use,) = match[self.root].results[0].uses
        return Tanh.make(use.operation.results[0])


@dataclass(frozen=True)
class WrongPass(FusionPass):
    """Breaks the second of three patterns."""

    name = "wrong"
    RULES = (Wrong(),)


@dataclass(frozen=True)
class Forgetful(ModulePass):
    """Drops the name of a fetch."""

    name = "forgetful"
    numerics = Numerics.BIT_EXACT

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        function = main_function(op)
        function.res_attrs = parse(PROGRAM.replace('"y"', '"z"')).ops.first.res_attrs  # pyright: ignore


def test_the_wrong_rewrite_is_named() -> None:
    """Of three rewrites in one sweep, the message names the one that makes the IR invalid."""
    run = PassRun(parse(PROGRAM), PassContext({}), verify_each=True)
    with pytest.raises(PassError, match=r"not valid after wrong on pd.relu %d; .*before it is def"):
        run.fuse([("flag", WrongPass())])


def test_a_changed_signature_is_named() -> None:
    """With `verify_each`, a pass that changes the fetches of a program is named."""
    with pytest.raises(PassError, match="not valid after forgetful"):
        PassRun(parse(PROGRAM), PassContext({}), verify_each=True).one("flag", Forgetful())


def test_bisection_counts_rewrites() -> None:
    """The first N rewrites are applied, in a fixed order; afterwards all are."""
    lines: list[str] = []
    for most, tanh in ((0, 0), (2, 2), (-1, 3)):
        module = parse(PROGRAM.replace("%d", "%q"))
        with bisect.limit_rewrites(most, lines.append) as limit:
            PassRun(module, PassContext({})).fuse([("flag", WrongPass())])
        assert (str(module).count("pd.tanh"), limit.asked) == (tanh, 3)
    assert lines[0] == "BISECT: NOT running rewrite (1) wrong on pd.relu %y"
    module = parse(PROGRAM.replace("%d", "%q"))
    PassRun(module, PassContext({})).fuse([("flag", WrongPass())])
    assert str(module).count("pd.tanh") == 3


def test_command_bisects() -> None:
    """--opt-bisect-limit counts over all passes of the call, and reports on stderr."""
    model = str(MODELS / "infer_lenet" / "model.pdmodel")
    given = [model, "--build-strategy", "fuse_gemm_epilogue", "--platform", "none", "--verify-each"]
    _, everything, err = opt(*given, "--opt-bisect-limit", "-1")
    total = err.count("BISECT: running")
    assert total > 2
    assert opt(*given)[1] == everything
    assert opt(*given, "--opt-bisect-limit", str(total))[1] == everything
    _, less, err = opt(*given, "--opt-bisect-limit", "1")
    assert less != everything
    assert err.count("BISECT: NOT running") == total - 1
