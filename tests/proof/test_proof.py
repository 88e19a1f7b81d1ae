"""A share of the large runs (`make properties`, `make mutants`): all properties, some mutants."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import pytest

from graphopt.passes.engine.fusion import Applied
from graphopt.testing.mutations import TWISTS
from graphopt_tests.example_counts import examples
from graphopt_tests.proof import changed
from graphopt_tests.proof.corpus import FUSIONS, OTHERS, all_patterns, collect, planted_for
from graphopt_tests.proof.mutants import EQUIVALENT, Mutant, all_mutants, verdict
from graphopt_tests.proof.properties import Prover
from graphopt_tests.proof.told import KEPT, KEPT_TOGETHER, near_misses, together
from graphopt_tests.proof.transforms import passes

# programs for each pass, and how often it does something in them at least
EACH = 48
# the same for a mutant, beside the pages and what is made of them
FEW = 6
MUST_FIRE = 5
LESS = {"fold-batch-norm": 3, "fuse-conv-epilogue": 2, "reassociate-matmul": 3, "fuse-adamw": 1}
# what speaks against a pattern in these programs; the pages show each reason
REASONS = {
    "already-cheapest", "bias-not-per-channel", "bias-not-vector", "broadcast", "drops-elements",
    "not-plain", "only-one", "other-axis", "part-of-itself", "scale-has-bias", "size-unknown",
    "training", "used-elsewhere",
}  # fmt: skip


@pytest.mark.exhaustive
def test_every_way_to_optimize() -> None:
    """Outputs, gradients and state are preserved by all passes in all orders."""
    prover, count = Prover(others=3), examples(90)
    for number, generated in enumerate(collect(all_patterns(), count, 4)):
        prover.prove(generated, number)
    tally = prover.tally
    assert not tally.failures, "\n".join(tally.failures[:3])
    assert tally.compared > 2 * count
    assert tally.unknown.total() < count, tally.unknown
    assert tally.notes.keys() >= {"differentiate", "fetch", "read again"}, tally.notes


@pytest.mark.exhaustive
def test_each_pass_has_something_to_do() -> None:
    """The programs for a pass have its patterns, and near misses of all kinds."""
    fired, reasons = Counter[str](), Counter[str]()
    for name in (*FUSIONS, *OTHERS):
        transform = passes()[f"pass {name}"]
        for generated in collect(planted_for(name), EACH):
            outcomes = transform(generated.module)
            fired[name] += sum(isinstance(outcome, Applied) for outcome in outcomes)
            reasons.update(o.reason.name for o in outcomes if not isinstance(o, Applied))
    seldom = {name: n for name, n in fired.items() if n < LESS.get(name, MUST_FIRE)}
    assert not seldom, seldom
    assert reasons.keys() >= REASONS, REASONS - reasons.keys()


@pytest.mark.exhaustive
def test_every_twist_happens() -> None:
    """Each change of a program applies to some programs."""
    notes = Counter[str]()
    for generated in collect(all_patterns(), 80, 2):
        notes.update(generated.notes)
    assert notes.keys() >= TWISTS.keys(), TWISTS.keys() - notes.keys()


# some of the passes whose matches the engine's guards protect; `make mutants` takes all of them
GUARDED = ("fuse-bn-add-act", "fuse-bn-act", "fuse-gemm-epilogue")
# the only pass with side results has the most to generate
SIDE_RESULT = "matching._bind: never `isinstance(hole, Result)`"
# one mutant for each kind of guard, as they are named in the list of all of them
SAMPLE = (
    "fusion._needed_elsewhere: never `value.owner in inside`",
    "fusion._needed_elsewhere: never `not others`",
    "fusion._is_before: always `outer is block.last_op`",
    "fuse_bn_act.check_not_synchronised: never `norm.attr('sync')`",
    "fuse_bn_add_act.BatchNormAddActivation.check: never `z.type != norm.results[0].type`",
    "fuse_elewise_add_act.check_activation: never `op.attr('bias') != 0`",
    "fuse_gemm_epilogue.check_linear: never `shape_of(vector.type) != (columns,)`",
    "fold_batch_norm._Folded.check: never `not norm.keeps_statistics`",
    "simplify._scale_of_scale: never `-1 not in (outer_factor, factor)`",
    "fold_identity.is_identity: never `any((isinstance(use.operation, Grad) for use in "
    "op.results[0].uses))`",
    "drop_dropout._drop: never `not testing and p != 0`",
    "fuse-elewise-add-act `add`: any op of its kind",
    "fuse-relu-depthwise-conv `convolution`: either order",
    "matching._bind: without `and value is producer.results[index]`",
)


@pytest.mark.every(3)
@pytest.mark.parametrize("name", [*SAMPLE, pytest.param(SIDE_RESULT, marks=pytest.mark.exhaustive)])
def test_a_broken_guard_is_noticed(name: str) -> None:
    """Without the guard, a generated program or a page has another outcome."""
    mutant = mutants()[name]
    if len(mutant.passes) > len(GUARDED):
        passes = ("fused-attention",) if name == SIDE_RESULT else GUARDED
        mutant = replace(mutant, passes=passes)
    assert verdict(mutant, FEW) not in ("", "same")


def mutants() -> dict[str, Mutant]:
    """Map names to mutants."""
    return {mutant.name: mutant for mutant in all_mutants()}


@pytest.mark.exhaustive
def test_near_misses_of_the_pages() -> None:
    """The near misses in the programs of the pages are as recorded."""
    found = [line for name in FUSIONS for line in near_misses(name)]
    if os.environ.get("GRAPHOPT_UPDATE_PAGES"):
        KEPT.write_text("\n".join(found) + "\n")
    assert found == KEPT.read_text().splitlines()


def test_fusions_together_on_the_pages() -> None:
    """The ops that each fusion takes, when all run on the pages' programs, are as recorded."""
    found = together()
    if os.environ.get("GRAPHOPT_UPDATE_PAGES"):
        KEPT_TOGETHER.write_text("\n".join(found) + "\n")
    assert found == KEPT_TOGETHER.read_text().splitlines()


@pytest.mark.exhaustive
def test_changed_ops_of_the_pages() -> None:
    """The outcomes of each pass on its programs with one op changed are as recorded."""
    found = [line for name in changed.TITLES for line in changed.outcomes(name)]
    if os.environ.get("GRAPHOPT_UPDATE_PAGES"):
        changed.KEPT.write_text("\n".join(found) + "\n")
    assert found == changed.KEPT.read_text().splitlines()


def test_equivalent_mutants_exist() -> None:
    """The mutants that are listed as equivalent exist, each under its own name."""
    assert EQUIVALENT.keys() <= mutants().keys(), EQUIVALENT.keys() - mutants().keys()
    assert len(mutants()) == len(all_mutants())
