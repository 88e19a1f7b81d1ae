"""Fusion groups: the cut, the choice of stored values, the order of ops, and whole programs."""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import graphopt as paddle
from graphopt import static
from graphopt.debug.compare import assert_same_results, interpret_module
from graphopt.errors import NotFiniteError
from graphopt.ir.dialect.differentiated import is_kept
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Sigmoid, Tanh
from graphopt.ir.dialect.ops.control import FusionGroup
from graphopt.ir.dialect.verify_ssa import verify_ssa
from graphopt.passes.engine.fusion import (
    Applied,
    Declined,
    Fusion,
    Match,
    Node,
    Outcome,
    Value,
)
from graphopt.passes.engine.min_cut import UNCUT, source_side
from graphopt.passes.fusions.fuse_gemm_epilogue import FuseGemmEpilogue
from graphopt.passes.target.fusion_groups import GroupElementwise, GroupOps, GroupReductions
from graphopt.testing import check_pass, parse, programs
from graphopt.testing.programs import Generated
from graphopt_tests.example_counts import examples
from graphopt_tests.frontend.programs import fresh
from graphopt_tests.passes.flags import nets
from graphopt_tests.passes.flags.nets import ops_of, run, strategy

Edges = dict[tuple[int, int], int]
NODES = range(5)


def cost_of(edges: Edges, side: set[int]) -> int:
    """Sum the capacities of the edges that leave a side."""
    return sum(c for (start, end), c in edges.items() if start in side and end not in side)


@settings(max_examples=examples(60), deadline=None)
@given(st.dictionaries(st.tuples(*[st.sampled_from(NODES)] * 2), st.integers(0, 9), max_size=14))
def test_no_cut_is_cheaper(edges: Edges) -> None:
    """The cut is minimal over all sides with the source and without the sink."""
    edges = {(a, b): c for (a, b), c in edges.items() if a != b}
    source, sink, *inner = NODES
    found = source_side(edges, source, sink)
    assert source in found and sink not in found
    subsets = chain.from_iterable(combinations(inner, n) for n in range(len(inner) + 1))
    assert cost_of(edges, found) == min(cost_of(edges, {source, *some}) for some in subsets)


def test_a_cut_that_is_not_there() -> None:
    """Without a finite cut there is an error, not an endless flow."""
    with pytest.raises(ValueError, match="no cut separates 0 from 1"):
        source_side({(0, 2): UNCUT, (2, 1): UNCUT}, 0, 1)


def test_the_smallest_side_of_equal_cuts() -> None:
    """Of equal cuts, the side that is nearest to the source is chosen."""
    assert source_side({(0, 2): 3, (2, 3): 3, (3, 1): 3}, 0, 1) == {0}


class Functions(Fusion):
    """A pattern to plant: elementwise functions of each other."""

    x = Value()
    inner = Node(Sigmoid, x)
    root = Node(Tanh, inner)

    def build(self, match: Match) -> PdOp:
        """Nothing replaces it; the pattern is only planted."""
        raise AssertionError


PLANTED = (Functions(), FuseGemmEpilogue.RULES[0])
BOTH = pytest.mark.parametrize("made", [GroupReductions(least=0), GroupElementwise(least=0)])


@BOTH
def test_planted_groups(made: GroupOps) -> None:
    """Outputs, gradients and state are preserved, and a second run makes no change."""
    fired = 0

    @settings(max_examples=examples(24), deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore
    @given(programs(plant=PLANTED))
    def check(generated: Generated) -> None:
        nonlocal fired
        changed = generated.module.clone()
        fired += applied(made.rewrite(changed))
        changed.verify()
        verify_ssa(changed)
        assert_same_results(generated.module, changed, run=interpret_module)
        assert not applied(made.rewrite(changed))

    check()
    assert fired >= 3


@pytest.mark.exhaustive
@BOTH
def test_planted_groups_by_xla(made: GroupOps) -> None:
    """XLA agrees, bit by bit for programs without a derivative."""
    check_pass(made, plant=PLANTED, examples=20, must_fire=6)


def applied(outcomes: list[Outcome]) -> int:
    return sum(isinstance(outcome, Applied) for outcome in outcomes)


PROGRAM = """
func.func @main(feed %x: tensor<64x64xf32>, state %w: tensor<64x64xf32>) -> (
  fetch "g": tensor<64x64xf32>
) {{
  %a = pd.matmul(%x, %w)
{lines}
  %loss = pd.assign(%b)
  %one = pd.full_like(%loss) {{value = 1.0}}
  %g = pd.grad(of = [%loss], wrt = [%w], cotangents = [%one])
  func.return %g : tensor<64x64xf32>
}}
"""


def kept_in(*lines: str) -> list[set[str]]:
    """Return the names of the stored ops in each group of a program with these ops."""
    module = parse(PROGRAM.format(lines="\n".join(lines)))
    GroupReductions(least=0).rewrite(module)
    return [
        {str(op.results[0].name_hint) for op in group.body.block.ops if is_kept(op)}
        for group in module.walk()
        if isinstance(group, FusionGroup)
    ]


def test_cheap_ops_are_computed_again() -> None:
    """A relu and a norm are recomputed, as storing them costs more."""
    lines = "%n, %m, %v = pd.layer_norm(%a)", "%r = pd.relu(%n)", "%b = pd.matmul(%r, %w)"
    assert kept_in(*lines) == [set()]


def test_dear_ops_are_kept() -> None:
    """A power is stored, as recomputing it costs more."""
    lines = "%p = pd.pow(%a) {factor = 1.7}", "%b = pd.matmul(%p, %w)"
    assert kept_in(*lines) == [{"p"}]


def test_products_are_kept() -> None:
    """A product in a group is stored, as the derivative of later ops starts from it."""
    lines = "%n = pd.relu(%a)", "%c = pd.matmul(%n, %w)", "%b = pd.exp(%c)"
    assert kept_in(*lines) == [{"c"}]


def notes(text: str) -> list[str]:
    """List the notes on the groups of a program."""
    outcomes = GroupReductions(least=0).rewrite(parse(text))
    return [outcome.note for outcome in outcomes if isinstance(outcome, Applied)]


def test_what_is_told_of_a_group() -> None:
    """The note has the bytes that the derivative saves, if one passes through the group."""
    text = PROGRAM.format(lines="%e = pd.softmax(%a)\n%b = pd.matmul(%e, %w)")
    held = "the group holds softmax, matmul, assign; 32768 bytes stay inside"
    assert notes(text) == [f"{held}; the derivative keeps 10978 bytes less"]
    without = text.replace("%g = pd.grad(of = [%loss], wrt = [%w], cotangents = [%one])", "")
    assert notes(without.replace("%g :", "%loss :")) == [held]


def reasons(found: list[Any]) -> set[str]:
    return {outcome.reason.name for outcome in found if isinstance(outcome, Declined)}


def test_both_products_of_a_common_reader() -> None:
    """Products that do not depend on each other may be in one group."""
    module = parse(PROGRAM.format(lines="%c = pd.matmul(%w, %x)\n%b = pd.multiply(%a, %c)"))
    outcomes = GroupReductions(least=0).rewrite(module)
    assert applied(outcomes) == 1
    assert "second-product" not in reasons(outcomes)
    (group,) = (op for op in module.walk() if isinstance(op, FusionGroup))
    assert ops_of(module)["matmul"] == 2 == [op.name for op in group.body.walk()].count("pd.matmul")


def grouped(text: str) -> list[list[str]]:
    """Group the ops of a program, and list the names in each group."""
    module = parse(text)
    GroupReductions(least=0).rewrite(module)
    return [
        [op.name.removeprefix("pd.") for op in group.body.block.ops][:-1]
        for group in module.walk()
        if isinstance(group, FusionGroup)
    ]


def test_a_differentiated_value_is_not_inside() -> None:
    """Groups that a common producer could join stay two, so that one reads the value."""
    outcomes = GroupReductions(least=0).rewrite(
        parse("""
func.func @main(feed %x: tensor<4x4xf32>) -> (fetch "g": tensor<4x4xf32>) {
  %r = pd.softmax(%x)
  %a = pd.exp(%r)
  %b = pd.sin(%r)
  %y = pd.multiply(%a, %b)
  %one = pd.full_like(%y) {value = 1.0}
  %g, %h = pd.grad(of = [%y], wrt = [%a, %x], cotangents = [%one])
  func.return %g : tensor<4x4xf32>
}""")
    )
    assert reasons(outcomes) >= {"differentiated", "differentiated-inside"}


COPIED = """
func.func @main(feed %x: tensor<3x1xf32>, state %c: tensor<3x1xf32>, state %w: tensor<1x1xf32>) -> (
  fetch "y": tensor<3x1xf32>,
  fetch "z": tensor<3x1xf32>
) {
  %s = pd.add(%x, %c)
  %m = pd.matmul(%s, %w)
  %o = pd.subtract(%m, %s)
  %y = pd.tanh(%o)
  %q = pd.square(%s)
  %z = pd.exp(%q)
  func.return %y, %z : tensor<3x1xf32>, tensor<3x1xf32>
}"""


def test_a_copied_op_that_another_group_yields() -> None:
    """Each group that copies an op computes it, in whatever order groups are formed."""
    module = parse(COPIED)
    changed = module.clone()
    assert applied(GroupElementwise(least=0).rewrite(changed)) == 2
    changed.verify()
    assert_same_results(module, changed, run=interpret_module)


def test_a_group_of_whole_numbers_has_no_derivative() -> None:
    """Consumers of an integer group are on no path of derivatives, before and after grouping."""
    module = parse("""
func.func @main(feed %x: tensor<4x4xf32>, state %w: tensor<f32>) -> (
  fetch "f": tensor<4x4xf32>,
  fetch "g": tensor<f32>
) {
  %i = pd.cast(%x) {dtype = i32}
  %j = pd.multiply(%i, %i)
  %f = pd.cast(%j) {dtype = f32}
  %m = pd.mean(%f)
  %y = pd.add(%m, %w)
  %one = pd.full_like(%y) {value = 1.0}
  %dx, %g = pd.grad(of = [%y], wrt = [%x, %w], cotangents = [%one])
  func.return %f, %g : tensor<4x4xf32>, tensor<f32>
}""")
    made = GroupReductions(least=0)
    assert applied(made.rewrite(module)) == 1
    assert not applied(made.rewrite(module))


def test_what_is_computed_from_more_than_arguments_is_not_copied() -> None:
    """An op with computed operands is not copied, as each copy would keep the operands."""
    text = """
func.func @main(feed %x: tensor<4x4xf32>) -> (fetch "y": tensor<4x4xf32>) {
  %s = pd.cumsum(%x) {axis = 0}
  %r = pd.relu(%s)
  %b = pd.exp(%r)
  %c = pd.cumsum(%b) {axis = 0}
  %d = pd.tanh(%c)
  %y = pd.multiply(%d, %r)
  func.return %y : tensor<4x4xf32>
}
"""
    assert grouped(text) == [["relu", "exp"], ["tanh", "multiply"]]
    arguments = text.replace("pd.relu(%s)", "pd.relu(%x)")
    assert grouped(arguments) == [["relu", "exp"], ["relu", "tanh", "multiply"]]


def test_what_is_fetched_is_not_copied() -> None:
    """A fetched op is not copied: it is stored in any case, and a copy would compute it twice."""
    text = """
func.func @main(feed %x: tensor<4x4xf32>) -> (
  fetch "r": tensor<4x4xf32>, fetch "y": tensor<4x4xf32>
) {
  %r = pd.relu(%x)
  %d = pd.tanh(%x)
  %y = pd.multiply(%d, %r)
  func.return %r, %y : tensor<4x4xf32>, tensor<4x4xf32>
}
"""
    assert grouped(text) == [["tanh", "multiply"]]


def norm() -> Any:
    return nets.norms(1)


@pytest.mark.exhaustive
def test_several_devices() -> None:
    """Two replicas train as without groups."""
    losses, state, (module, _) = run(norm, devices=2, rows=8, build_cinn_pass=True)
    plain_losses, plain_state, _ = run(norm, devices=2, rows=8)
    assert ops_of(module)["fusion_group"] == 1
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-5)
    for a, b in zip(state, plain_state, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_not_finite_inside_of_a_group() -> None:
    """FLAGS_check_nan_inf names the op in the group that made an infinity."""
    with fresh() as (main, _):
        x = static.data("x", [64, 512], "float32")
        loss = paddle.mean(paddle.tanh(paddle.exp(paddle.exp(x) * 1e9)))
        executor = static.Executor(paddle.CPUPlace())
        program = static.CompiledProgram(main, strategy(build_cinn_pass=True))
        feed = {"x": np.ones((64, 512), "float32")}
        paddle.set_flags({"FLAGS_check_nan_inf": True})
        try:
            with pytest.raises(NotFiniteError, match="exp"):
                executor.run(program, feed, [loss])
            assert ops_of(nets.compiled_of(program).module)["fusion_group"] == 1
        finally:
            paddle.set_flags({"FLAGS_check_nan_inf": False})
