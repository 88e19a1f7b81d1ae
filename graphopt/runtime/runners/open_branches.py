"""Runs of programs with open branches: the condition first, then the taken side's program.

Compiled programs are kept for each side, as for each set of feed shapes. The run that computes the
condition changes no state, and draws the same random numbers as the run of the side.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from graphopt.errors import UnsupportedError
from graphopt.ir.program import Program
from graphopt.ir.program.open_branches import TAKEN, OpenBranchError, Place, with_side
from graphopt.runtime.state.arrays import Fetched
from graphopt.runtime.state.generator import default_generator

Names = tuple[str, ...]
Step: TypeAlias = "Callable[[Program, Names], Fetched]"


class Branch(NamedTuple):
    """The first open branch of a program of this version, and the programs of its sides so far."""

    version: int
    place: Place
    why: str
    """The difference of the types, its place, and the remedy."""
    sides: dict[bool, Program]


Branches: TypeAlias = "WeakKeyDictionary[Program, Branch]"
"""The known open branches of a runner's programs."""


def run_side(known: Branches, program: Program, names: Names, step: Step) -> Fetched:
    """Run a step of a program, or of the side that the condition of its open branch selects.

    Raise UnsupportedError where the places of a data-parallel step take different sides.
    """
    branch = known.get(program)
    if branch is None or branch.version != program.version:
        try:
            return step(program, names)
        except OpenBranchError as error:
            branch = Branch(program.version, error.place, str(error), {})
            known[program] = branch
    with default_generator().keep_position():
        holds = _agreed_condition(step(program, (TAKEN,)), branch.why)
    if holds not in branch.sides:
        branch.sides[holds] = with_side(program, branch.place, holds=holds)
    return step(branch.sides[holds], names)


def _agreed_condition(fetched: Fetched, why: str) -> bool:
    """Reduce the condition of all replicas; UnsupportedError where they differ."""
    sides = {bool(np.asarray(value).all()) for value in fetched[0]}
    if len(sides) > 1:
        raise UnsupportedError(
            "the devices take different branches, which one step cannot run: run the program on "
            f"one place, or fix the cause: {why}"
        )
    return sides.pop()
