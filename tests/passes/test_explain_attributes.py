"""explain names wrong properties: each property of each op of each pattern is changed in turn.

A changed property either goes into the fused op, or the reason names the op, the property and its
right value. The mutants are derived from the patterns themselves, not from a list.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from graphopt.debug.compare import assert_same_results
from graphopt.errors import ProgramError
from graphopt.ir.dialect.op import PdOp
from graphopt.passes.engine.fusion import Applied, Declined, Fusion, Node, Reason, sweep
from graphopt.passes.engine.near_misses import NearMisses
from graphopt.testing import Case, parse
from graphopt_tests.example_counts import share
from graphopt_tests.passes.test_explain import CASES, FUSIONS, RULES, matched

CHOICES = {
    "mode": ("upscale_in_train", "downgrade_in_infer"),
    "data_format": ("NCHW", "NHWC"),
}


def others(name: str, value: Any) -> Iterator[Any]:
    """Yield some other values of a property."""
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (v for v in (0, 1, 2, value + 1) if v != value)
    elif isinstance(value, float):
        yield value / 2 + 0.125
    elif isinstance(value, str):
        yield from (v for v in CHOICES.get(name, ()) if v != value)
    elif isinstance(value, tuple):
        for a, b in combinations(range(len(value)), 2):
            swapped = list(value)
            swapped[a], swapped[b] = value[b], value[a]
            if swapped != list(value):
                yield tuple(swapped)
        if len(value) == 1:
            yield from ((value[0] + 1,), (value[0] - 1,))


def changed(op: PdOp, name: str, value: Any) -> PdOp | None:
    """Copy an op with another property; None if this is invalid or changes the type."""
    attrs = {**op.attr_values(), name: value}
    groups = [list(group) for group in op.operand_groups()]
    operands = [g[0] if len(g) == 1 else g or None for g in groups]
    try:
        made = type(op).make(*operands, **attrs)
    except (ProgramError, TypeError, ValueError, IndexError):
        return None
    if [r.type for r in made.results] == [r.type for r in op.results]:
        return made
    made.drop_all_references()
    return None


def mutants(case: Case, rule: Fusion) -> Iterator[tuple[ModuleOp, Node, str]]:
    """Yield the case's program with one property changed, with node and property."""
    original = parse(case.before)
    match = matched(original, rule)
    assert match is not None
    places = {op: at for at, op in enumerate(original.walk())}
    for node, op in match.ops.items():
        for name, value in op.attr_values().items():
            for other in others(name, value):
                module = original.clone()
                mine = next(o for at, o in enumerate(module.walk()) if at == places[op])
                assert isinstance(mine, PdOp)
                made = changed(mine, name, other)
                if made is None:
                    continue
                assert mine.parent is not None
                mine.parent.insert_op_before(made, mine)
                for old, new in zip(mine.results, made.results, strict=True):
                    new.name_hint = old.name_hint
                    old.replace_all_uses_with(new)
                mine.detach()
                mine.erase()
                yield module, node, name


def outcome(module: ModuleOp, name: str, rule: Fusion) -> tuple[bool, list[Reason]]:
    """Return whether the rule fired, and all its reasons."""
    near = NearMisses(module, [(name, rule)])
    outcomes = sweep(module, [(name, rule)], [near])
    reasons = [o.reason for o in (*outcomes, *near.left()) if not isinstance(o, Applied)]
    return any(isinstance(o, Applied) for o in outcomes), reasons


@pytest.mark.every(3)
@pytest.mark.parametrize(("case", "rule"), RULES)
def test_a_wrong_property_is_named(case: Case, rule: Fusion) -> None:
    """The fused op has the property, or the reason names op, property and edit."""
    whole = parse(case.before)
    assert outcome(whole, case.pass_name, rule)[0]
    unchanged = str(whole)
    compared: set[tuple[str, str]] = set()
    for module, node, name in share(mutants(case, rule)):
        before = module.clone()
        fired, reasons = outcome(module, case.pass_name, rule)
        if fired:
            if str(module) == unchanged and (node.name, name) not in compared:
                compared.add((node.name, name))  # what is not in the fused op must not matter
                assert_same_results(before, module)
            continue
        named = [r for r in reasons if f"`{node.name}`" in r.text and name in r.text]
        assert named, (node.name, name, [str(r) for r in reasons])
        assert named[0].fix, str(named[0])


@pytest.mark.exhaustive
def test_every_refusal_says_what_would_help() -> None:
    """Each refused case of a page, of any fusion, names a smallest edit."""
    for case in CASES:
        fusion = FUSIONS.get(case.pass_name)
        if case.expected_kind != "refused" or fusion is None:
            continue
        rules = [(case.pass_name, rule) for rule in fusion.RULES]
        for found in sweep(parse(case.before), rules):
            if isinstance(found, Declined):
                assert found.reason.fix, (case.title, str(found.reason))
