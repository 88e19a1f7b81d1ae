"""The reference interpreter against the JAX lowering: every op with both, on its samples."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from xdsl.dialects.builtin import ModuleOp

import graphopt
from graphopt import passes
from graphopt.ir.dialect.families import ALL
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.base import DataSizedOp
from graphopt.ir.dtypes import DType
from graphopt.passes.engine.fusion import FusionPass
from graphopt.passes.table.registry import own_passes
from graphopt.reference import Unsupported, evaluate, evaluate_ops, is_random, supports
from graphopt.reference.differences import MOST, by_differences
from graphopt.reference.interpreter import Run
from graphopt.reference.pullback import TracedOps
from graphopt.reference.registry import RULES
from graphopt.reference.tape import TapeNode, pull_back
from graphopt.testing import parse, programs, random_inputs, run_module
from graphopt.testing.programs import Generated
from graphopt_tests.ir.test_ops import COMPUTED
from graphopt_tests.op_calls import build, built, flat, rule_of
from graphopt_tests.ops.base import Sample

FOLDER = Path(graphopt.__file__).parent / "reference"
# relative to the largest element: float32 rules round at each step, these once
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 3e-6, "complex64": 3e-6}
FUSIONS = [
    rule
    for load in own_passes().values()
    for made in [load()]
    if issubclass(made, FusionPass)
    for rule in made.RULES
]


pytestmark = pytest.mark.usefixtures("sixty_four_bits")


def is_computed(op_class: type[PdOp], sample: Sample) -> bool:
    """Return whether both compute a sample, and alike: random numbers differ."""
    op = built(op_class, sample)
    return supports(op) and not is_random(op)


CASES = [case for case in COMPUTED if is_computed(*case.values)]  # pyright: ignore
# what is compiled in every run: the first sample of each op
QUICK = list({case.values[0]: case for case in reversed(CASES)}.values())  # pyright: ignore
FAMILIES = sorted({case.values[0].__module__ for case in CASES})  # pyright: ignore
CONV = "graphopt.ir.dialect.ops.conv"  # a deformable one takes hundreds of differences


def of_family(family: str, quick: bool = False) -> list[tuple[str, type[PdOp], Sample]]:
    """List the samples of one family with their names."""
    return [
        (str(case.id), *case.values)  # pyright: ignore
        for case in (QUICK if quick else CASES)
        if case.values[0].__module__ == family  # pyright: ignore
    ]


def test_how_many_ops_are_covered() -> None:
    """The number of ops with a rule does not drop."""
    covered = {case.values[0] for case in CASES}
    assert len(covered) >= 310, f"{len(covered)} of {len(RULES)} rules"


def test_what_passes_mention_is_covered() -> None:
    """Each op that a pass imports has a rule, so that its rewrites can be validated.

    Padding has tests of its own, and costs are counted without any rewrite.
    """
    mentioned = {
        value
        for module in walk_packages(passes.__path__, "graphopt.passes.")
        if not module.name.startswith(("graphopt.passes.padding", "graphopt.passes.engine.costs"))
        for value in vars(import_module(module.name)).values()
        if isinstance(value, type) and value in ALL
    }
    # what is random, a script's own function, or of several devices; no rewrite touches them
    exempt = {"pd.grad", "pd.yield", "pd.dpsgd", "pd.vjp", "pd.py_func"}
    # these have regions, or stand for another op, which is the interpreter's own business
    exempt |= {"pd.layers", "pd.fusion_group", "pd.row_kernel", "pd.dynamic"}
    exempt |= {op.name for op in ALL if op.__module__ == "graphopt.ir.dialect.ops.comm"}
    without = {op.name for op in mentioned if op not in RULES} - exempt
    assert not without, sorted(without)


def test_it_shares_nothing_with_the_lowering() -> None:
    """No file of the interpreter imports the lowering or JAX."""
    for file in FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [a.name for a in node.names] if isinstance(node, ast.Import) else []
            assert not any(n.startswith(("jax", "graphopt.lowering")) for n in names), file


def computed(samples: list[tuple[str, type[PdOp], Sample]]) -> dict[str, list[Any]]:
    """Compute samples by the lowering, compiled together where sizes allow it."""
    rules = [rule_of(op_class, sample) for _, op_class, sample in samples]
    sized = [not issubclass(op_class, DataSizedOp) for _, op_class, _ in samples]
    operands = [flat(sample) for _, _, sample in samples]

    def whole(operands: list[Any]) -> list[Any]:
        return [r(*o) if s else () for r, o, s in zip(rules, operands, sized, strict=True)]

    found = jax.jit(whole)(operands)
    for place, rule in enumerate(rules):
        if not sized[place]:
            found[place] = rule(*operands[place])
    return {name: list(map(np.asarray, f)) for (name, _, _), f in zip(samples, found, strict=True)}


@pytest.mark.every(6)
@pytest.mark.parametrize("family", FAMILIES)
def test_numbers_are_those_of_the_lowering(family: str) -> None:
    """The first sample of each op gives the same numbers, infinities and nan, of the same dtype."""
    check_numbers(of_family(family, quick=True))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_all_numbers_are_those_of_the_lowering(family: str) -> None:
    """Every sample gives the same numbers."""
    check_numbers(of_family(family))


def check_numbers(samples: list[tuple[str, type[PdOp], Sample]]) -> None:
    compiled = computed(samples)
    for name, op_class, sample in samples:
        block, op = build(op_class, sample)
        try:
            found = evaluate_ops([op], dict(zip(block.args, flat(sample), strict=True)))
        except Unsupported:
            continue  # for a property of this sample
        for result, wanted in zip(op.results, compiled[name], strict=True):
            assert found[result].dtype == wanted.dtype, name
            assert_close(found[result], wanted, name)


def assert_close(have: Any, want: Any, name: str) -> None:
    default = 1e-12 if have.dtype.kind in "fcV" else 0.0
    tolerance = TOLERANCE.get(have.dtype.name, default)
    kind = complex if have.dtype.kind == "c" else float
    have, want = have.astype(kind), want.astype(kind)
    largest = np.max(np.abs(want), initial=1.0, where=np.isfinite(want))
    np.testing.assert_allclose(have, want, rtol=0, atol=tolerance * largest, err_msg=name)


# Gradients ------------------------------------------------------------------------------------


@pytest.mark.every(8)
@pytest.mark.parametrize(
    "family", [f if f != CONV else pytest.param(f, marks=pytest.mark.exhaustive) for f in FAMILIES]
)
def test_derivatives_are_those_of_differences(family: str) -> None:
    """For each smooth sample the derivative by the tape equals finite differences."""
    for name, op_class, sample in of_family(family):
        block, op = build(op_class, sample)
        operands = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in flat(sample)]
        wrt = [v for v, a in zip(block.args, operands, strict=True) if a.dtype.kind == "f"]
        usable = sample.smooth and sample.through is None and len(op.results) == 1
        small = all(0 < a.size <= MOST and np.isfinite(a).all() for a in operands)
        if not (usable and small and wrt) or any(a.dtype.kind not in "fiu" for a in operands):
            continue
        bindings = dict(zip(block.args, operands, strict=True))

        def function(*values: Any, op: PdOp = op, block: Any = block) -> tuple[Any, ...]:
            given = dict(zip(block.args, values, strict=True))
            return (evaluate_ops([op], given, precision="float64")[op.results[0]],)

        try:
            out = function(*operands)[0]
            seed = np.linspace(0.5, 1.5, out.size).reshape(out.shape)
            if out.dtype.kind != "f":
                continue
            found = TracedOps([op], bindings, wrt).gradients(op.results[0], seed, wrt)
        except Unsupported:
            continue
        nodes = [TapeNode(a) if a.dtype.kind == "f" else a for a in operands]
        (result,) = by_differences(op, function, nodes, "")
        wanted = pull_back([(result, seed)])
        leaves = [node for node in nodes if isinstance(node, TapeNode)]
        for have, leaf in zip(found, leaves, strict=True):
            want = wanted.get(id(leaf), np.zeros(leaf.shape))
            largest = np.max(np.abs(want), initial=1.0)
            np.testing.assert_allclose(have, want, rtol=0, atol=2e-4 * largest, err_msg=name)


@pytest.mark.exhaustive
@settings(max_examples=5)
@given(programs(FUSIONS))
def test_generated_programs(generated: Generated) -> None:
    """Outputs, gradients and state of programs with planted patterns are equal."""
    inputs = random_inputs(generated.module)
    found = evaluate(generated.module, inputs)
    if any(is_random(op) for op in generated.module.walk()):
        return
    for name, wanted in run_module(generated.module, inputs).items():
        have = found[name]
        assert (have.dtype, have.shape) == (wanted.dtype, wanted.shape)
        largest = np.max(np.abs(wanted), initial=1.0)
        np.testing.assert_allclose(have, wanted, rtol=0, atol=2e-4 * largest, err_msg=name)


# Programs -------------------------------------------------------------------------------------

SECOND_ORDER = """builtin.module {
  func.func @main(%x: tensor<2x3xf32> {pd.feed = "x"}) -> (tensor<2x3xf32> {pd.fetch = "h"}) {
    %t = pd.tanh(%x) : tensor<2x3xf32>
    %y = pd.multiply(%t, %t) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %one = pd.full_like(%y) {value = 1.0} : tensor<2x3xf32>
    %g = pd.grad(of = [%y], wrt = [%x], cotangents = [%one]) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %s = pd.square(%g) : tensor<2x3xf32>
    %h = pd.grad(of = [%s], wrt = [%x], cotangents = [%one]) : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    func.return %h : tensor<2x3xf32>
  }
}"""  # noqa: E501


def assert_as_run(module: ModuleOp, inputs: dict[str, Any]) -> None:
    found = evaluate(module, inputs)
    for name, wanted in run_module(module, inputs).items():
        np.testing.assert_allclose(found[name], wanted, rtol=2e-5, atol=1e-6, err_msg=name)


def test_second_derivative() -> None:
    """A derivative has a derivative, as in a gradient penalty."""
    module = parse(SECOND_ORDER)
    assert_as_run(module, random_inputs(module))


REGIONS = """builtin.module {
  func.func @main(%x: tensor<3xf32> {pd.feed = "x"}) -> (tensor<3xf32> {pd.fetch = "y"}, tensor<3xf32> {pd.fetch = "g"}) {
    %zero = pd.full() {shape = [1], value = 0.0} : () -> tensor<1xf32>
    %limit = pd.full() {shape = [1], value = 3.0} : () -> tensor<1xf32>
    %c = pd.less_than(%zero, %limit) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xi1>
    %n, %w = pd.while(%c, carried = [%zero, %x]) {trips = 3} : (tensor<1xi1>, tensor<1xf32>, tensor<3xf32>) -> (tensor<1xf32>, tensor<3xf32>) {
    ^bb0(%i: tensor<1xf32>, %v: tensor<3xf32>):
      %next = pd.scale(%i) {bias = 1.0} : tensor<1xf32>
      %p = pd.multiply(%v, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
      %again = pd.less_than(%next, %limit) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xi1>
      pd.yield(values = [%again, %next, %p]) : (tensor<1xi1>, tensor<1xf32>, tensor<3xf32>) -> ()
    }
    %y = pd.if(%c) : (tensor<1xi1>) -> tensor<3xf32> {
      %a = pd.tanh(%w) : tensor<3xf32>
      pd.yield(values = [%a]) : (tensor<3xf32>) -> ()
    } else {
      pd.yield(values = [%w]) : (tensor<3xf32>) -> ()
    }
    %one = pd.full_like(%y) {value = 1.0} : tensor<3xf32>
    %g = pd.grad(of = [%y], wrt = [%x], cotangents = [%one]) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    func.return %y, %g : tensor<3xf32>, tensor<3xf32>
  }
}"""  # noqa: E501


def test_regions() -> None:
    """Loops and branches are computed, and derivatives through them."""
    x = np.array([0.5, -1.25, 0.75], np.float32)
    module = parse(REGIONS)
    found = evaluate(module, {"x": x}, precision="float64")
    np.testing.assert_allclose(found["pd.fetch y"], np.tanh(x.astype(float) ** 4))
    wanted = 4 * x.astype(float) ** 3 * (1 - np.tanh(x.astype(float) ** 4) ** 2)
    np.testing.assert_allclose(found["pd.fetch g"], wanted)


def test_precisions() -> None:
    """In the declared precision each result is rounded, in float64 none is."""
    module = parse(SECOND_ORDER)
    inputs = random_inputs(module)
    declared, wide = evaluate(module, inputs), evaluate(module, inputs, precision="float64")
    (narrow,), (exact,) = declared.values(), wide.values()
    assert (narrow.dtype, exact.dtype) == (np.float32, np.float64)
    assert 0 < np.abs(narrow - exact).max() < 1e-5


def test_what_has_no_rule_is_named() -> None:
    """An op without a rule raises an error that names it."""
    text = SECOND_ORDER.replace("pd.tanh(%x)", "pd.polygamma(%x) {n = 1}")
    module = parse(text)
    assert not all(supports(op) for op in module.walk() if isinstance(op, PdOp))
    with pytest.raises(Unsupported, match=r"pd\.polygamma"):
        evaluate(module, random_inputs(module))


LOW_BITS = [0, 1, 0xFFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x3001, 0x7FFF, 0x8000, 0xFFFE, 0xFFFF]


@pytest.mark.parametrize("low", LOW_BITS)
def test_rounding_to_half_precision(low: int) -> None:
    """Rounding equals NumPy's bit by bit: ties, denormals, infinities, signs of 0."""
    bits = (np.arange(1 << 16, dtype=np.uint32) << 16) | np.uint32(low)
    value = bits.view(np.float32)
    finite = value[np.abs(value) < 1 << 15]
    table = finite[: len(finite) // 8 * 8].reshape(-1, 8)
    for array in (value, finite, finite[::3], table.T, table[::-1, ::2], table[:0], value[7]):
        with np.errstate(all="ignore"):
            found = Run("native", 0).round_to(array, DType("float16"))
            wanted = np.asarray(array).astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(
            np.ascontiguousarray(found).view(np.uint32),
            np.ascontiguousarray(wanted).view(np.uint32),
        )
