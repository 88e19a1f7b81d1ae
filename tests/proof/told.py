"""What is told of pictures that are nearly there: the near misses in the programs of the pages.

They are kept in `tests/data/near_misses.txt`. With GRAPHOPT_UPDATE_PAGES in the environment the
test of them writes the file anew.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from graphopt.passes.engine.near_misses import NearMisses
from graphopt.testing import Case, load_page, parse
from graphopt_tests.proof.corpus import FUSIONS

TESTS = Path(__file__).parents[1]
KEPT = TESTS / "data" / "near_misses.txt"


@cache
def fusion_cases() -> list[Case]:
    """The cases of the pages of all fusions."""
    pages = [TESTS / "passes" / f"{name}.md" for name in FUSIONS]
    return [case for page in pages for case in load_page(page)]


def near_misses(name: str) -> list[str]:
    """A line for each near miss of a pass in the programs of its pages."""
    rules = [(name, rule) for rule in FUSIONS[name].RULES]
    return [
        f"{name} | {case.title} | {miss.anchor} | {miss.reason}"
        for case in fusion_cases()
        if case.pass_name == name
        for miss in NearMisses(parse(case.before), rules).left()
    ]


@cache
def kept(name: str) -> list[str]:
    """What the file says of a pass."""
    return [line for line in KEPT.read_text().splitlines() if line.startswith(f"{name} | ")]
