"""Passes that a user adds to those of the table, and pipelines as text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.passes import ModulePass

import graphopt as paddle
from graphopt import static
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Relu, Tanh
from graphopt.passes.cleanup.cse import ShareCommon
from graphopt.passes.engine.fusion import Fusion, FusionPass, Match, Node, Value
from graphopt.passes.fusions.fuse_elewise_add_act import FuseElewiseAddAct
from graphopt.passes.table.added import GivenPass, adding
from graphopt.passes.table.pipeline import passes_of


def program() -> tuple[static.Program, str]:
    """Build relu(exp(x) + exp(x)); return it with the name of its result."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        x = static.data("x", [-1, 4], "float32")
        y = paddle.nn.functional.relu(paddle.add(paddle.exp(x), paddle.exp(x)))
    return main, y.name


@pytest.mark.parametrize(
    "given", ["fuse-elewise-add-act", FuseElewiseAddAct, FuseElewiseAddAct()], ids=str
)
def test_a_compiled_program_takes_passes(given: GivenPass) -> None:
    """Passes are given as names, classes or instances; the report calls them added."""
    main, y = program()
    compiled = static.CompiledProgram(main, passes=[given])
    feed = {"x": np.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)}
    (got,) = static.Executor().run(compiled, feed, [y])
    assert compiled.text().count("pd.fused_elemwise_add_activation(") == 1
    rows = [row for row in compiled.explanations()[0].table() if row.flag == "added pass"]
    assert [(row.pass_name, row.fired) for row in rows] == [("fuse-elewise-add-act", 1)]
    np.testing.assert_allclose(got, 2 * np.exp(feed["x"]), rtol=1e-6)


def test_a_block_adds_passes() -> None:
    """Programs made in the block have its passes, inner blocks' last; other programs do not."""
    main, y = program()
    with adding("fuse-elewise-add-act"):
        with adding(ShareCommon):
            inner = static.CompiledProgram(main, passes=["dce"])
        outer = static.CompiledProgram(main)
    plain = static.CompiledProgram(main)
    for compiled, names in (
        (inner, ["fuse-elewise-add-act", "cse", "dce"]),
        (outer, ["fuse-elewise-add-act"]),
        (plain, []),
    ):
        ran = compiled._compilation(("x",), (y,)).optimize().report.ran
        assert [each.pass_name for each in ran if each.flag == "added pass"] == names


def test_what_is_no_pass_is_refused() -> None:
    """The constructor refuses other objects, and suggests the nearest name."""
    main, _ = program()
    for given in ("cse", [3], [int]):
        with pytest.raises(TypeError, match="pass"):
            static.CompiledProgram(main, passes=given)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="no pass is named 'csee'; did you mean cse"):
        static.CompiledProgram(main, passes=["csee"])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("cse,dce", ["cse", "dce"]),
        ("builtin.module(cse,roll-layers{fewest=3})", ["cse", "roll-layers"]),
    ],
)
def test_pipelines(text: str, names: list[str]) -> None:
    """Pipelines have the syntax of xDSL or of mlir-opt."""
    made: tuple[ModulePass, ...] = passes_of(text)
    assert [each.name for each in made] == names


@pytest.mark.parametrize("text", ["cse,,dce", "cse{", "no-such", "cse{x=1}"])
def test_wrong_pipelines(text: str) -> None:
    """A wrong pipeline is a ValueError with a message."""
    with pytest.raises(ValueError, match=r"."):
        passes_of(text)


class TanhToRelu(Fusion):
    """Rewrites tanh to relu, which validation refutes."""

    x = Value()
    root = Node(Tanh, x)

    def build(self, match: Match) -> PdOp:
        return Relu.make(match.value(self.x))


@dataclass(frozen=True)
class Wrong(FusionPass):
    """A wrong pass."""

    name = "tanh-to-relu"
    RULES = (TanhToRelu(),)


def test_explain_validates_added_passes() -> None:
    """`explain` validates passes of `passes=`, of blocks and of a CompiledProgram."""
    main = static.Program()
    with static.program_guard(main, static.Program()):
        y = paddle.tanh(static.data("x", [2, 4], "float32"))
    compiled, strategy = static.CompiledProgram(main, passes=[Wrong]), static.BuildStrategy()
    with adding(Wrong):
        in_block = paddle.explain(main, strategy, [y], validate=True)
    for found in (
        in_block,
        paddle.explain(main, fetch_list=[y], passes=[Wrong], validate=True),
        paddle.explain(compiled, fetch_list=[y], validate=True),
        paddle.explain(compiled, strategy, [y], validate=True),
    ):
        assert "1 failed and undone" in found.text(), found.text()
    assert "0 failed" in paddle.explain(main, fetch_list=[y], validate=True).text()
    static.Executor().run(compiled, {"x": np.zeros((2, 4), "float32")}, [y])
    assert "1 failed" in paddle.explain(compiled, strategy, [y], validate=True).text()
    both = paddle.explain(compiled, fetch_list=[y], passes=["dce"]).report.ran
    assert [each.pass_name for each in both if each.flag == "added pass"] == [Wrong.name, "dce"]
    with pytest.raises(ValueError, match="did you mean"):
        paddle.explain(main, fetch_list=[y], passes=["dcee"])
