"""The before/after pages of `tests/passes`, and properties of every fusion on random programs."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from graphopt.debug.compare import interpret_module, run_module
from graphopt.ir.dialect.context import new_context
from graphopt.ir.dialect.data_sized import data_sized
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import Scale
from graphopt.ir.dialect.signature import signature_of
from graphopt.passes.cleanup.fold_identity import FoldIdentity
from graphopt.passes.engine.fusion import (
    Applied,
    Declined,
    Fusion,
    FusionPass,
    Match,
    Node,
    Value,
    sweep,
)
from graphopt.passes.fusions.fuse_dot_product_attention import FuseDotProductAttention
from graphopt.passes.table.context import PassContext
from graphopt.passes.table.order import ROWS
from graphopt.passes.table.registry import own_passes
from graphopt.passes.table.schedule import select, steps
from graphopt.passes.target.fuse_conv_epilogue import FuseConvEpilogue
from graphopt.testing import Case, check_case, check_preserves_meaning, load_page, programs
from graphopt.testing.pages import parse
from graphopt.testing.programs import Generated
from graphopt.testing.transformers import planter_of
from graphopt_tests.example_counts import examples

PAGES = sorted((Path(__file__).parents[1] / "passes").glob("*.md"))
CASES = [case for page in PAGES for case in load_page(page)]
FUSIONS = [
    loaded
    for loaded in (load() for load in own_passes().values())
    # these have a pattern that is tested, of some sizes; see test_attention and ..._kernels
    if issubclass(loaded, FusionPass) and FuseDotProductAttention not in loaded.__mro__[1:]
    # its convolutions have the channels last, see test_conv_epilogue
    if loaded is not FuseConvEpilogue
]
# how often a fusion must fire in the programs that plant its patterns
EXAMPLES, MUST_FIRE = 10, 3
# half of the batch norms that are planted for it are in training
MORE_EXAMPLES = {"fold-batch-norm": 40}
# halves of Transformer layers take long to compile
LARGE_EXAMPLES, LARGE_MUST_FIRE = 9, 4

quick = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.explicit),
)


def is_large(rule: Fusion) -> bool:
    """Return whether a pattern is planted as a whole."""
    return planter_of(rule) is not None


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.pass_name}: {c.title}")
def test_page(case: Case) -> None:
    """The outcome is the page's; a rewritten program has the same numbers in the interpreter."""
    check_case(case, interpret_module)


@pytest.mark.every(20)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.pass_name}: {c.title}")
def test_page_by_xla(case: Case) -> None:
    """The outcome is the page's, with numbers by XLA where it can compile the program."""
    by_op = any(data_sized(parse(case.before)))
    check_case(case, interpret_module if by_op else run_module)


def test_every_pass_has_a_page() -> None:
    """Each pass that rewrites programs is documented by a page."""
    scaled_or_marked = {"scale-loss-grad", "mark-per-replica"}  # see test_data_parallel_passes
    pages = {case.pass_name for case in CASES}
    assert own_passes().keys() - pages == scaled_or_marked


def test_every_reason_has_a_page() -> None:
    """Each named reason to decline is shown by a refused case, or tested here."""
    source = Path(__file__).parents[2] / "graphopt" / "passes"
    named = {
        name
        for file in source.rglob("*.py")
        if file.name != "near_misses.py"  # see test_explain
        for name in re.findall(
            r"(?:Reason|wrong_attrs?)\(\s*\"([a-z-]+)\"", file.read_text("utf-8")
        )
    }
    shown = {c.expected.partition(":")[0] for c in CASES if c.expected_kind == "refused"}
    # see test_larger_pattern_wins; in test_transformer_fusions.py, because a smaller pattern fires;
    # in test_reduce_strategy.py, because the pass does something as well
    elsewhere = {"left-to-larger", "norm-axis", "dropout-modes-differ", "read-whole"}
    elsewhere.add("differentiated-inside")  # see test_fusion_groups.py: it splits a group
    elsewhere |= {"only-the-core", "other-scores"}  # near misses, see test_attention_forms
    elsewhere.add("residual-shape")  # see test_conv_epilogue: the bias fuses without it
    elsewhere.add("several-replicas")  # see test_row_updates
    elsewhere.add("no-kernel")  # see runtime/test_kernels.py: it depends on the machine
    # in test_convolutions.py, because other ops change
    elsewhere |= {"layout-dependent", "image-kept"}
    # in runtime/test_kernel_probes.py and lowering/test_attention_kernels.py: they are measured
    elsewhere |= {"kernel-scores", "not-quicker", "not-causal"}
    elsewhere.add("state-apart")  # see runtime/test_roll_layers.py: it depends on the strategy
    assert named - shown == elsewhere


@pytest.mark.parametrize("fusion", FUSIONS, ids=lambda f: f.name)
@pytest.mark.slow
def test_fusion_preserves_meaning(fusion: type[FusionPass]) -> None:
    """Outputs, gradients and state are preserved, and the fusion fires."""
    seen: Counter[str] = Counter()
    large = is_large(fusion.RULES[0])

    count = LARGE_EXAMPLES if large else MORE_EXAMPLES.get(fusion.name, EXAMPLES)

    @settings(quick, max_examples=count)
    @given(programs(plant=fusion.RULES))
    def check(generated: Generated) -> None:
        rules = [(fusion.name, rule) for rule in fusion.RULES]
        outcomes = check_preserves_meaning(generated.module, lambda m: sweep(m, rules))
        seen.update(type(outcome).__name__ for outcome in outcomes)

    check()
    assert seen["Applied"] >= (LARGE_MUST_FIRE if large else MUST_FIRE), dict(seen)


@pytest.mark.slow
def test_everything_on_preserves_meaning() -> None:
    """All fusions together preserve meaning; test_transformer_fusions.py has large patterns."""
    context = PassContext({row.flag: True for row in ROWS if row.flag.startswith("fuse")})
    passes = [made for _, made in select(context) if isinstance(made, FusionPass)]
    rules = [(made.name, rule) for made in passes for rule in made.RULES]
    # fuse-resunit has the patterns of two others after a convolution, and would take most of them
    others = [(name, rule) for name, rule in rules if name != "fuse-resunit"]
    plant = [rule for _, rule in others if not is_large(rule)]
    fired: Counter[str] = Counter()

    @settings(quick, max_examples=36)
    @given(programs(plant=plant))
    def check(generated: Generated) -> None:
        outcomes = check_preserves_meaning(generated.module, lambda m: sweep(m, rules))
        fired.update(o.rule for o in outcomes if isinstance(o, Applied))

    check()
    assert fired.keys() >= {name for name, rule in rules if rule in plant}, dict(fired)


class AnyScale(Fusion):
    """A pattern to plant: scales, some of them by one."""

    x = Value()
    root = Node(Scale, x)

    def build(self, match: Match) -> PdOp:
        """Raise: the pattern is only planted, and nothing replaces it."""
        raise AssertionError


@pytest.mark.exhaustive
def test_fold_identity_preserves_meaning() -> None:
    """Folding copies and scales by one preserves outputs, gradients and state, and fires."""
    folded = 0

    @settings(quick, max_examples=20)
    @given(programs(plant=[AnyScale()]))
    def check(generated: Generated) -> None:
        nonlocal folded
        before = len(generated_ops(generated.module))

        def fold(module: ModuleOp) -> int:
            FoldIdentity().apply(new_context(), module)
            return before - len(generated_ops(module))

        folded += check_preserves_meaning(generated.module, fold)

    check()
    assert folded >= 4


@pytest.mark.every(5)
@pytest.mark.parametrize("fusion", FUSIONS, ids=lambda f: f.name)
def test_fusion_is_idempotent(fusion: type[FusionPass]) -> None:
    """A second sweep makes no change, and the signature never changes."""

    @settings(quick, max_examples=examples(60))
    @given(programs(plant=fusion.RULES))
    def check(generated: Generated) -> None:
        module, rules = generated.module, [(fusion.name, rule) for rule in fusion.RULES]
        signature = signature_of(module)
        sweep(module, rules)
        assert signature_of(module) == signature
        assert not any(isinstance(o, Applied) for o in sweep(module, rules))

    check()


@pytest.mark.parametrize("fusion", FUSIONS, ids=lambda f: f.name)
@pytest.mark.slow
def test_a_wrong_fusion_is_caught(fusion: type[FusionPass]) -> None:
    """The property test fails for a fusion that omits the root op."""
    caught, large = 0, is_large(fusion.RULES[0])

    @settings(quick, max_examples=5 if large else 12)
    @given(programs(plant=fusion.RULES, training=False))
    def check(generated: Generated) -> None:
        nonlocal caught

        def wrong(module: ModuleOp) -> None:
            for op in reversed(list(generated_ops(module))):
                for rule in fusion.RULES:
                    if type(op) in rule.root.types and op.results[0].type == op.operands[0].type:
                        op.results[0].replace_all_uses_with(op.operands[0])
                        return

        try:
            check_preserves_meaning(generated.module, wrong)
        except AssertionError:
            caught += 1

    check()
    assert caught >= (2 if large else 3)


def generated_ops(module: ModuleOp) -> list[Operation]:
    """List every op of a module in order."""
    return list(module.walk())


def test_larger_pattern_wins() -> None:
    """An add that ends a linear layer is not taken by add + activation, with a reason."""
    page = next(page for page in PAGES if page.stem == "fuse-gemm-epilogue")
    from graphopt.passes.fusions.fuse_elewise_add_act import FuseElewiseAddAct
    from graphopt.passes.fusions.fuse_gemm_epilogue import Linear
    from graphopt.testing import parse

    case = next(c for c in load_page(page) if c.title == "A linear layer with its activation")
    module = parse(case.before)
    rules = [("fuse-gemm-epilogue", Linear())]
    rules += [("fuse-elewise-add-act", rule) for rule in FuseElewiseAddAct.RULES]
    declined, applied = sweep(module, rules)
    assert isinstance(declined, Declined)
    assert declined.reason.name == "left-to-larger"
    assert isinstance(applied, Applied)
    assert applied.rule == "fuse-gemm-epilogue"


def test_one_schedule() -> None:
    """Fusions share a sweep between two clean-ups; every other pass is a separate step."""
    context = PassContext({"fuse_gemm_epilogue": True, "fuse_bn_act_ops": True}, platform="cpu")
    found = steps(context)
    assert [name for step in found for name in step.names.split(", ") if name != "dce"] == [
        made.name for _, made in select(context)
    ]
    (at,) = (i for i, step in enumerate(found) if step.together)
    assert found[at].names == "fuse-gemm-epilogue, fuse-bn-act"
    assert [found[i].names for i in (at - 1, at + 1)] == ["dce", "dce"]
    assert not any(step.together for step in steps(PassContext({}, platform="cpu")))
