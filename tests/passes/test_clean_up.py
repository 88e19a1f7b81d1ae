"""Clean-up passes: properties on generated programs, numerics classes, cost, effects."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import graphopt as paddle
from graphopt import static
from graphopt.ir.dialect.context import new_context
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Exp, Scale
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.shape import Reshape, Transpose
from graphopt.ir.dialect.types import shape_of
from graphopt.passes.engine.fusion import Applied, Fusion, FusionPass, Match, Node, Value
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.table.manager import optimize
from graphopt.passes.table.order import ROWS, Phase
from graphopt.passes.table.registry import all_passes, own_passes
from graphopt.passes.target.reassociate_matmul import ReassociateMatmul
from graphopt.testing import assert_same_bits, check_pass, check_preserves_meaning, parse
from graphopt.testing.cleanup_patterns import Einsums, Gelus
from graphopt_tests.frontend.programs import fresh
from graphopt_tests.passes.test_passes import FUSIONS


def chain(*types: type[PdOp]) -> Fusion:
    """Make a pattern to plant: a chain of ops, first to last."""

    class Chain(Fusion):
        root = Node(types[0], Value())

        def build(self, match: Match) -> PdOp:
            raise AssertionError

    for kind in types[1:]:
        Chain.root = Node(kind, Chain.root)
    return Chain()


PLANTED = {
    "fold-identity": [chain(Scale)],
    "drop-dropout": [chain(Dropout)],
    "simplify": [chain(Transpose, Transpose), chain(Reshape, Reshape), chain(Scale)],
    "cse": [chain(Exp)],
    "recognise-gelu": [Gelus()],
    "einsum-to-matmul": [Einsums()],
}


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.slow
def test_pass_keeps_its_promises(name: str) -> None:
    """Results and numerics class hold, and a second run makes no change."""
    least = 1 if name == "cse" else 4
    check_pass(own_passes()[name](), plant=PLANTED[name], examples=12, must_fire=least)


@pytest.mark.exhaustive
def test_matrix_chains() -> None:
    """Chains of random sizes and nesting keep numbers and gradients, at no higher cost."""
    generator = np.random.default_rng(0)
    changed = 0
    for _ in range(6):
        sizes = generator.integers(1, 9, size=6)
        before = matrix_chain([int(size) for size in sizes], generator)

        def cheaper(module: ModuleOp) -> int:
            costs = multiplications(module)
            outcomes = ReassociateMatmul().rewrite(module)
            assert multiplications(module) <= costs
            assert not any(isinstance(o, Applied) for o in ReassociateMatmul().rewrite(module))
            return sum(isinstance(o, Applied) for o in outcomes)

        changed += check_preserves_meaning(before, cheaper)
    assert changed >= 4


@pytest.mark.parametrize(("gain", "fires"), [(1.0, True), (2.0, True), (30.0, False)])
def test_a_chain_needs_a_gain(gain: float, fires: bool) -> None:
    """The default pipeline leaves chains with little gain unchanged."""
    module = parse(
        """
        func.func @main(%a: tensor<50x40xf32> {pd.feed = "a"}, %b: tensor<40x60xf32> {pd.feed =
        "b"}, %v: tensor<60x1xf32> {pd.feed = "v"}) -> (tensor<50x1xf32> {pd.fetch = "y"}) {
          %p = pd.matmul(%a, %b) : (tensor<50x40xf32>, tensor<40x60xf32>) -> tensor<50x60xf32>
          %y = pd.matmul(%p, %v) : (tensor<50x60xf32>, tensor<60x1xf32>) -> tensor<50x1xf32>
          func.return %y : tensor<50x1xf32>
        }
        """
    )
    (outcome,) = ReassociateMatmul(least_gain=gain).rewrite(module)
    assert isinstance(outcome, Applied) is fires
    assert fires or outcome.reason.name == "little-gain"  # pyright: ignore


def multiplications(module: ModuleOp) -> int:
    """Count the multiplications of all matrix products in a module."""
    return sum(
        int(np.prod([*shape_of(op.results[0].type), shape_of(op.operands[0].type)[1]]))
        for op in module.walk()
        if isinstance(op, Matmul)
    )


def matrix_chain(sizes: list[int], generator: np.random.Generator) -> ModuleOp:
    """Build a product of matrices in some order, and its gradients."""
    parts = [(f"%m{i}", pair) for i, pair in enumerate(pairwise(sizes))]
    kind = "tensor<{}x{}xf32>".format
    arguments = ", ".join(f'{n}: {kind(*s)} {{pd.feed = "{n[1:]}"}}' for n, s in parts)
    names, types = [n for n, _ in parts], [kind(*s) for _, s in parts]
    lines: list[str] = []
    while len(parts) > 1:
        at = int(generator.integers(len(parts) - 1))
        (a, (rows, inner)), (b, (_, columns)) = parts[at : at + 2]
        name = f"%p{len(parts)}"
        types_ = f"({kind(rows, inner)}, {kind(inner, columns)}) -> {kind(rows, columns)}"
        lines.append(f"{name} = pd.matmul({a}, {b}) : {types_}")
        parts[at : at + 2] = [(name, (rows, columns))]
    ((last, size),) = parts
    out, grads = kind(*size), [f"%g{i}" for i in range(len(names))]
    lines += [
        f"%one = pd.full_like({last}) {{value = 1.0}} : {out}",
        f"{', '.join(grads)} = pd.grad(of = [{last}], wrt = [{', '.join(names)}], "
        f"cotangents = [%one]) : ({out}, {', '.join(types)}, {out}) -> ({', '.join(types)})",
        f"func.return {last}, {', '.join(grads)} : {out}, {', '.join(types)}",
    ]
    results = [(last, out), *zip(grads, types, strict=True)]
    ends = ", ".join(f'{t} {{pd.fetch = "{n[1:]}"}}' for n, t in results)
    return parse(f"func.func @main({arguments}) -> ({ends}) {{\n" + "\n".join(lines) + "\n}")


@pytest.mark.parametrize("fusion", FUSIONS, ids=lambda f: f.name)
@pytest.mark.slow
def test_fusions_are_in_their_class(fusion: type[FusionPass]) -> None:
    """A fused op has the bits of its parts, unless the pass claims to reassociate."""
    if fusion.numerics is Numerics.BIT_EXACT:
        check_pass(fusion, examples=2, must_fire=0)


def test_every_pass_has_a_class() -> None:
    """Every pass has a numerics class; a default pipeline of one device is bit-exact."""
    for load in own_passes().values():
        assert isinstance(load().numerics, Numerics)  # pyright: ignore
    always = [row.pass_name for row in ROWS if row.flag == "any strategy"]
    assert {own_passes()[name]().numerics for name in always} == {Numerics.BIT_EXACT}  # pyright: ignore
    reassociating = {
        row.pass_name
        for row in ROWS
        if own_passes()[row.pass_name]().numerics is not Numerics.BIT_EXACT  # pyright: ignore
    }
    assert reassociating == {
        "sync-batch-norm",
        "tensor-parallel",
        "scale-loss-grad",
        "all-reduce-gradients",
        "shard-updates",
        "shard-parameters",
        "sort-ops",
        "einsum-to-matmul",
        "recognise-gelu",
        "fused-attention",
        "fused-feedforward",
        "fuse-dot-product-attention",
        "fuse-cudnn-attention",
        "fuse-long-attention",
        "fuse-pallas-attention",
        "reassociate-matmul",
        "update-rows",
        "fold-batch-norm",
        "assign-layout",
        "choose-attention",
        "choose-convolution",
        "choose-group-kernel",
        "choose-kernel",
        "choose-pooling",
        "stack-counters",
        "stack-updates",
        "store-filters",
    }


def test_a_wrong_claim_is_caught() -> None:
    """The comparison of bits notices x + 0, which changes the sign of a negative zero."""
    before = parse(UNARY.format("%c = pd.full() {shape = [1], value = 0.0} : () -> tensor<1xf32>"))
    after = before.clone()
    add = next(op for op in after.walk() if op.name == "pd.subtract")
    add.results[0].replace_all_uses_with(add.operands[0])
    assert_same_bits(before, after)
    wrong = parse(str(before).replace("pd.subtract", "pd.add"))
    with pytest.raises(AssertionError, match="the bits changed"):
        assert_same_bits(wrong, before)


UNARY = """
func.func @main(%x: tensor<64xf32> {{pd.feed = "x"}}) -> (tensor<64xf32> {{pd.fetch = "y"}}) {{
  {}
  %y = pd.subtract(%x, %c) : (tensor<64xf32>, tensor<1xf32>) -> tensor<64xf32>
  func.return %y : tensor<64xf32>
}}
"""

EFFECTS = """
func.func @main(
  %x: tensor<3xf32> {pd.feed = "x"}, %c: tensor<1xi1> {pd.feed = "c"},
  %w: tensor<3xf32> {pd.state = "w"}
) -> (tensor<3xf32> {pd.fetch = "y"}, tensor<3xf32> {pd.state = "w"}) {
  %a = pd.exp(%x) : tensor<3xf32>
  pd.print(%a) {variable = "a"} : (tensor<3xf32>) -> ()
  pd.print(%a) {variable = "a"} : (tensor<3xf32>) -> ()
  pd.assert(%c) {variables = ["c"]} : (tensor<1xi1>) -> ()
  %d = pd.dropout(%x) {rng_id = 1} : tensor<3xf32>
  %e = pd.dropout(%x) {rng_id = 2} : tensor<3xf32>
  %unused = pd.dropout(%x) {rng_id = 3} : tensor<3xf32>
  %y = pd.add(%d, %e) : tensor<3xf32>
  %u = pd.scale(%w) {scale = 0.5} : tensor<3xf32>
  func.return %y, %u : tensor<3xf32>, tensor<3xf32>
}
"""


@pytest.mark.parametrize("name", ["canonicalize", "cse", "dce"])
def test_effects_are_kept(name: str) -> None:
    """Prints, asserts, random numbers and state updates stay; unused values are removed."""
    module = parse(EFFECTS)
    all_passes()[name]()().apply(new_context(), module)
    text = str(module)
    kept = {"pd.print": 2, "pd.assert": 1, "pd.dropout": 2, "pd.scale": 1}
    assert {op: text.count(f"{op}(") for op in kept} == kept


def straight_line(count: int) -> ModuleOp:
    """Build a program of this many ops, some of which fold, merge or vanish."""
    lines, last = [], "%x"
    for number in range(count // 4):
        lines += [
            f"%a{number} = pd.scale({last}) {{scale = 0.5}} : tensor<4xf32>",
            f"%b{number} = pd.exp(%a{number}) : tensor<4xf32>",
            f"%c{number} = pd.exp(%a{number}) : tensor<4xf32>",
            f"%d{number} = pd.add(%b{number}, %c{number}) : tensor<4xf32>",
        ]
        last = f"%d{number}"
    body = "\n".join(lines)
    return parse(
        'func.func @main(%x: tensor<4xf32> {pd.feed = "x"}) -> (tensor<4xf32> {pd.fetch = "y"})'
        f" {{ {body}\n func.return {last} : tensor<4xf32> }}"
    )


@pytest.mark.exhaustive
def test_clean_up_is_linear() -> None:
    """Eight times as many ops take about eight times as long, not sixty-four times."""
    strategy = static.BuildStrategy()
    strategy.fuse_elewise_add_act_ops = True

    def seconds(count: int) -> float:
        found = []
        for _ in range(2):
            module = straight_line(count)
            start = time.process_time()
            optimize(module, strategy.pass_context(), verify_each=False)
            found.append(time.process_time() - start)
        return min(found)

    assert seconds(1600) < 8 * 3 * seconds(200)


def test_a_test_program_draws_nothing() -> None:
    """Without dropout a test program has no random op, and its fetches do not change."""
    with fresh():
        x = static.data("x", [None, 4], "float32")
        dropped = paddle.nn.functional.dropout(x, 0.5, mode="downscale_in_infer")
        out = dropped * 1.0 + paddle.exp(x) * paddle.exp(x)
        test = static.default_main_program().clone(for_test=True)
        exe = static.Executor(paddle.CPUPlace())
        feed: dict[str, Any] = {"x": np.linspace(-2, 2, 8, dtype="f4").reshape(2, 4)}
        plain = exe.run(test, feed=feed, fetch_list=[dropped, out])
        compiled = static.CompiledProgram(test, static.BuildStrategy())
        found = exe.run(compiled, feed=feed, fetch_list=[dropped, out])
        (report,) = compiled.explanations()
        np.testing.assert_array_equal(found[0], plain[0])
        np.testing.assert_allclose(found[1], plain[1], rtol=1e-6)
        assert report.applied("drop-dropout") == 1
        assert "pd.dropout" not in report.to_json()["ops"]["after"]
        assert report.to_json()["ops"]["after"]["pd.exp"] == 1


def test_clean_rows_have_their_phases() -> None:
    """Identities are folded before the fusions, and subexpressions merged after them."""
    places = {row.pass_name: row.phase for row in ROWS}
    assert places["simplify"] is places["drop-dropout"] is places["fold-constants"] is Phase.CLEAN
    assert places["cse"] is Phase.SHARE
    order = list(Phase)
    assert order.index(Phase.CLEAN) < order.index(Phase.FUSE) < order.index(Phase.SHARE)
