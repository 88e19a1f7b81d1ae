"""`check_pass` for patterns of any op: the planted programs, and the errors of wrong patterns."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import SSAValue

from graphopt import testing
from graphopt.ir.dialect.families import ALL
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.activation import Relu, Softplus
from graphopt.ir.dialect.ops.callback import Print
from graphopt.ir.dialect.ops.control import RegionOp, Yield
from graphopt.ir.dialect.ops.detection.roi import RoiAlign
from graphopt.ir.dialect.ops.math import Add, Cast, GreaterThan
from graphopt.ir.dialect.ops.norm import LayerNorm
from graphopt.ir.dialect.ops.reduce import Argmax, Sum
from graphopt.ir.dialect.ops.shape import Assign
from graphopt.ir.dialect.ops.sort import Topk
from graphopt.ir.dialect.ops.update.fused import FusedSgd
from graphopt.ir.dialect.types import tensor
from graphopt.passes.engine.fusion import Fusion, FusionPass, Match, Node, Reason, Value
from graphopt.passes.engine.numerics import Numerics
from graphopt.testing import check_pass
from graphopt.testing.calls import calls_of
from graphopt.testing.programs import Generated, programs
from graphopt_tests.example_counts import share

WITHOUT = {
    "pd.py_func": "it calls a function of Python",
    "pd.py_func_backward": "it calls a function of Python",
    "pd.print": "it has no result",
    "pd.print_gradient": "it prints",
    "pd.assert": "it has no result",
    "pd.dynamic": "another op stands for it, with sizes that are computed",
    "pd.grad": "generated programs have it",
}
"""The ops that nothing is planted for, beside those with regions."""
OTHER_NUMBERS = {
    "pd.array_of_rows": "its result is arrays of different sizes",
    "pd.beam_search": "its lengths have to add up to its beams",
    "pd.collect_fpn_proposals": "its counts have to add up to its boxes",
    "pd.sequence_slice": "what it takes has to be inside of the sequences",
    "pd.viterbi_decode": "lengths of 1 make a loop of no steps, which JAX does not run op by op",
}
"""The planted ops that random numbers do not fit, in which programs with them cannot be run."""
WITH_REGIONS = [op for op in ALL if issubclass(op, (RegionOp, Yield))]
PLANTABLE = [op for op in ALL if op not in WITH_REGIONS and op.name not in WITHOUT]
# a minute in all for the exhaustive ones
CHECKED = [
    pytest.param(op, marks=pytest.mark.slow if at % 4 else pytest.mark.exhaustive)
    for at, op in enumerate(PLANTABLE)
]
name_of = {op: op.name for op in ALL}.get


@pytest.mark.every(5)
@pytest.mark.parametrize("op_class", list(share(PLANTABLE, 32)), ids=name_of)
def test_calls_are_found(op_class: type[PdOp]) -> None:
    """Operands and properties are found that the type rule and the lowering accept."""
    assert calls_of(op_class), f"{op_class.name} needs a row in graphopt/testing/starts.py"


@pytest.mark.parametrize("shape", [(3, 1), (2, 1), (3, 2)], ids=str)
def test_what_jax_is_going_to_refuse_is_no_call(shape: tuple[int, ...]) -> None:
    """A complex learning rate, which JAX casts to real with a warning, is no call."""
    calls = calls_of(FusedSgd, (), tensor(shape, "float32"))
    assert calls and not [each for each in calls if "complex" in str(each.flat[-1])]


def test_every_op_is_planted_or_has_a_reason() -> None:
    """The tables name existing ops, and together they count every op once."""
    assert len(PLANTABLE) + len(WITHOUT) + len(WITH_REGIONS) == len(ALL)
    assert OTHER_NUMBERS.keys() <= {op.name for op in PLANTABLE}


@pytest.mark.parametrize("op_class", CHECKED, ids=name_of)
def test_every_op_is_planted_and_checked(op_class: type[PdOp]) -> None:
    """Copying the op preserves generated programs, most of which have gradients."""
    if op_class.name in OTHER_NUMBERS:
        assert planted(Node(op_class), (), 3) > 0
    else:
        assert check_pass(copies_of(op_class), examples=2, must_fire=1) > 0


def copies_of(op_class: type[PdOp]) -> type[FusionPass]:
    """Make a pass that replaces each op of the class by a copy."""

    class Copy(Fusion):
        root = Node(op_class)

        def check(self, match: Match) -> Reason | None:
            is_copy = "copy" in match.root.attributes
            return Reason("copy", "it is a copy", "none") if is_copy else None

        def build(self, match: Match) -> PdOp:
            made = match.root.clone()
            made.attributes["copy"] = UnitAttr()
            return made

        def results(self, match: Match, fused: PdOp) -> Mapping[SSAValue, SSAValue]:
            return dict(zip(match.root.results, fused.results, strict=True))

    class Copies(FusionPass):
        """Copies ops."""

        name = "copies"
        RULES = (Copy(),)
        numerics = Numerics.BIT_EXACT

    return Copies


def planted(root: Node, inner: Sequence[Node], count: int) -> int:
    """Count how often a pattern is found in so many generated programs."""

    class Found(Fusion):
        def build(self, match: Match) -> PdOp:
            return Assign.make(match.root.operands[0] if match.root.operands else None)

    Found.root = root
    found = 0

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),  # pyright: ignore
    )
    @given(programs(plant=[Found()]))
    def each(generated: Generated) -> None:
        nonlocal found
        generated.module.verify()
        found += sum(
            isinstance(op, root.types)
            and all(any(isinstance(o.owner, n.types) for o in op.operands) for n in inner)
            for op in generated.module.walk()
        )

    each()
    return found


@pytest.mark.exhaustive
def test_values_of_other_types_are_planted() -> None:
    """A pattern may have an integer as inner value."""
    whole = Node(Argmax, Value())
    assert planted(Node(Cast, whole), [whole], 4) >= 1


@pytest.mark.exhaustive
def test_patterns_of_different_ops_are_planted() -> None:
    """Patterns mix types, use several results of an op, and read one op twice."""
    x, y = Value(), Value()
    whole, topk, norm = Node(Argmax, x), Node(Topk, x), Node(LayerNorm, x)
    for root, inner in (
        (Node(Add, whole, topk.result(1)), [whole, topk]),
        (Node(RoiAlign, images := Node(Relu, x), y), [images]),
        (Node(Sum, is_more := Node(GreaterThan, x, y)), [is_more]),
        (Node(Add, norm, norm), [norm]),
    ):
        assert planted(root, inner, 8) >= 2, root.expected


def test_properties_are_varied() -> None:
    """Half of the calls have a property with another value than its default."""
    betas = {call.attrs["beta"] for call in calls_of(Softplus)}
    assert betas == {0.5, 1.0, 1.5}


def test_what_cannot_be_planted_says_so() -> None:
    """A pattern of an op without results raises an error."""

    class Printed(Fusion):
        root = Node(Print, Value())

        def build(self, match: Match) -> PdOp:
            return match.root

    class Pass(FusionPass):
        """A pass of it."""

        name = "printed"
        RULES = (Printed(),)

    with pytest.raises(TypeError, match=r"pd\.print cannot be planted"):
        check_pass(Pass, examples=3)


@pytest.mark.exhaustive
def test_a_wrong_rewrite_ends_with_a_small_program() -> None:
    """The error shows the reduced program, without the whole one that Hypothesis would add."""

    class Dropped(Fusion):
        x = Value()
        root = Node(Relu, x)

        def build(self, match: Match) -> PdOp:
            return Assign.make(match.value(self.x))

    class Pass(FusionPass):
        """A relu is no op."""

        name = "wrong"
        RULES = (Dropped(),)
        numerics = Numerics.BIT_EXACT

    with pytest.raises(AssertionError, match=r"^Dropped|^wrong: the rewrite at pd\.relu") as caught:
        check_pass(Pass, examples=3)
    assert str(caught.value).count(" = pd.") == 1 and not caught.value.__notes__


def test_without_hypothesis(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra that installs it; the rest of the package works."""
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    for name in ("check", "programs"):
        monkeypatch.delitem(sys.modules, f"graphopt.testing.{name}")
    spec = importlib.util.spec_from_file_location("without_hypothesis", testing.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(ImportError, match=r"needs hypothesis: pip install 'graphopt\[testing\]'"):
        _ = module.check_pass
    assert not hasattr(module, "check_passes") and hasattr(module, "load_page")
