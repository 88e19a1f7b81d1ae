"""The search for a wrong rewrite, and the differences that count; nothing is compiled here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from graphopt.debug.compare import Array
from graphopt.debug.differences import (
    Difference,
    DifferenceKind,
    RunOutcome,
    Tolerance,
    difference,
    largest_gap,
)
from graphopt.debug.search import Suspect, find_wrong_rewrite, isolate, steps_named
from graphopt.errors import GraphoptError
from graphopt.passes.fusions.fuse_elewise_add_act import FuseElewiseAddAct
from graphopt.testing import parse

LAYERS = 12
PROGRAM = "\n".join(
    [
        'func.func @main(%v0: tensor<4xf32> {pd.feed = "x"}) -> (tensor<4xf32> {pd.fetch = "y"}) {',
        *(
            f"  %a{n} = pd.add(%v{n}, %v0) : tensor<4xf32>\n"
            f"  %v{n + 1} = pd.relu(%a{n}) : tensor<4xf32>"
            for n in range(LAYERS)
        ),
        f"  func.return %v{LAYERS} : tensor<4xf32>",
        "}",
    ]
)


def suspect(wrong: Callable[[int], bool]) -> Suspect:
    """Build a program with LAYERS fusions; `wrong` judges the results by the number applied."""

    def evaluate(module: ModuleOp, inputs: Mapping[str, Array]) -> dict[str, Array]:
        fused = sum(op.name == "pd.fused_elemwise_add_activation" for op in module.walk())
        return {"pd.fetch y": np.array([float(wrong(fused))])}

    def right(module: ModuleOp, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return {"pd.fetch y": np.zeros(1)}

    steps = steps_named([FuseElewiseAddAct()])
    return Suspect(parse(PROGRAM), steps, {}, evaluate, right)


@pytest.mark.parametrize("first", range(1, LAYERS + 1))
def test_the_first_wrong_rewrite(first: int) -> None:
    """The rewrite is found at each position; the program before it has one rewrite less."""
    asked = suspect(lambda fused: fused >= first)
    found = find_wrong_rewrite(asked)
    assert found is not None
    assert (found.number, found.total, found.pass_name) == (first, LAYERS, "fuse-elewise-add-act")
    assert found.where == f"pd.relu %v{LAYERS + 1 - first}"
    assert str(found.before).count("fused_elemwise") == first - 1
    assert [op.name for op in found.focus] == ["pd.add", "pd.relu"]
    assert [line[0] for line in found.change] == ["-", "-", "+"]
    assert len(asked.trials) <= 8


def test_nothing_is_wrong() -> None:
    """Right results after all rewrites count as right, whatever was in between."""
    assert find_wrong_rewrite(suspect(lambda fused: False)) is None
    assert find_wrong_rewrite(suspect(lambda fused: fused == 5)) is None


@pytest.mark.parametrize("pattern", ["0011000111111", "0101010101011", "0000000000101"])
def test_results_that_come_and_go(pattern: str) -> None:
    """The search finds a rewrite after which right results become wrong."""
    found = find_wrong_rewrite(suspect(lambda fused: pattern[fused] == "1"))
    assert found is not None
    assert pattern[found.number - 1 : found.number + 1] == "01"


def test_what_depends_on_chance_is_told() -> None:
    """Results that differ on a second try are an error: they depend on chance."""
    answers = iter(["1"])

    def chance(module: ModuleOp, inputs: Mapping[str, Array]) -> dict[str, Array]:
        return {"pd.fetch y": np.array([float(next(answers, "0"))])}

    flaky = replace(suspect(lambda _: True), evaluate=chance)
    with pytest.raises(GraphoptError, match="not deterministic"):
        find_wrong_rewrite(flaky)


def test_a_program_that_fails_by_itself() -> None:
    """A program that fails, or is wrong, without any pass is an error."""

    def fails(module: ModuleOp, inputs: Mapping[str, Array]) -> dict[str, Array]:
        raise ZeroDivisionError("oh")

    with pytest.raises(GraphoptError, match=r"fails without any pass.*ZeroDivisionError: oh"):
        find_wrong_rewrite(replace(suspect(lambda _: True), against=fails))
    with pytest.raises(GraphoptError, match="the results are wrong without any pass"):
        find_wrong_rewrite(suspect(lambda _: True))


def test_isolation_keeps_the_failure() -> None:
    """Only the pass itself runs after the rewrites before it, if this fails, too."""
    asked = suspect(lambda fused: fused >= 3)
    found = find_wrong_rewrite(asked)
    assert found is not None
    small = isolate(asked, found)
    assert str(small.module).count("fused_elemwise") == 2
    only_first = suspect(lambda fused: fused == LAYERS)
    found = find_wrong_rewrite(only_first)
    assert found is not None
    assert isolate(only_first, found).module is found.before


def outcome(*values: object) -> RunOutcome:
    """Build an outcome whose results are named by their position."""
    return RunOutcome({str(n): np.asarray(value) for n, value in enumerate(values)})


F32 = np.float32


@pytest.mark.parametrize(
    ("wanted", "found", "kind"),
    [
        (F32([1, 2]), F32([1, 2.0001]), None),
        (F32([1, 2]), F32([1, 2.01]), DifferenceKind.NUMBERS),
        (F32([1e4, 0]), F32([1e4, 1]), None),  # by the size of the largest number
        (F32([np.inf, -np.inf]), F32([np.inf, -np.inf]), None),
        (F32([np.inf, 1]), F32([-np.inf, 1]), DifferenceKind.NUMBERS),
        (F32([np.inf, 1]), F32([3e38, 1]), DifferenceKind.NUMBERS),
        (F32([np.nan, 1]), F32([np.nan, 1]), None),
        (F32([np.nan, 1]), F32([0, 1]), DifferenceKind.NAN),
        (F32([0, 1]), F32([np.nan, 1]), DifferenceKind.NAN),
        (F32([1]), np.float64([1]), DifferenceKind.DTYPE),
        (F32([1]), F32([[1]]), DifferenceKind.SHAPE),
        (F32([]), F32([]), None),
        (np.int32([7]), np.int32([8]), DifferenceKind.NUMBERS),
        (np.array(True), np.array(False), DifferenceKind.NUMBERS),
        (np.complex64([1 + 1j]), np.complex64([1 + 2j]), DifferenceKind.NUMBERS),
        (np.complex64([1 + 1j]), np.complex64([1 + 1j]), None),
    ],
)
def test_kinds_of_differences(wanted: object, found: object, kind: DifferenceKind | None) -> None:
    """Numbers differ beyond the tolerance of their dtype; each other difference has its kind."""
    seen = difference(outcome(wanted), outcome(found), Tolerance())
    assert (seen and seen.kind) == kind
    if seen is not None:
        assert str(seen).startswith("0: ")


def test_the_worst_difference_is_told() -> None:
    """Changed results come before changed numbers, and large gaps before small ones."""
    zero, one, two = np.zeros(1), np.ones(1), np.full(1, 2.0)
    seen = difference(outcome(zero, zero), outcome(one, two), Tolerance())
    assert seen is not None
    assert seen.result == "1"
    seen = difference(outcome(zero, zero), outcome(two, np.zeros(2)), Tolerance())
    assert seen == Difference(DifferenceKind.SHAPE, "1", "[1] became [2]")
    seen = difference(outcome(zero), outcome(zero, zero), Tolerance())
    assert seen is not None
    assert seen.kind is DifferenceKind.RESULTS
    seen = difference(outcome(zero), RunOutcome({}, ValueError("no"), True), Tolerance())
    assert str(seen) == "ValueError: no"
    assert largest_gap(outcome(zero, zero), outcome(one, zero)) == (1.0, "0")


def test_given_tolerances() -> None:
    """Tolerances mean the same as in NumPy's allclose."""
    a, b = outcome(np.array([0.0, 100.0])), outcome(np.array([0.01, 101.0]))
    assert difference(a, b, Tolerance(0.02, 0.02)) is None
    assert difference(a, b, Tolerance(0.02, 0.001)) is not None
    assert difference(a, b, Tolerance(0.001, 0.02)) is not None


def test_failures_are_alike_by_their_class() -> None:
    """Exceptions match by class; wrong numbers and NaN may come from one bug."""
    numbers, nan = (
        Difference(DifferenceKind.NUMBERS, "a", ""),
        Difference(DifferenceKind.NAN, "b", ""),
    )
    assert numbers.like(nan)
    failed = Difference(DifferenceKind.PASS, "TypeError", "")
    assert not failed.like(numbers)
    assert not failed.like(Difference(DifferenceKind.PASS, "KeyError", ""))
    assert not failed.like(Difference(DifferenceKind.RUN, "TypeError", ""))
