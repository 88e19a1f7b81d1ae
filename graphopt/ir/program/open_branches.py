"""Branches whose results differ in dtype or rank: one program for each side that runs take.

In Paddle such a result has the type of the branch taken, and later operators compute with that
type. A module has one type for each value, so a run first computes the condition, which is the
fetch `TAKEN` of a program with an open branch, and then runs the program with that side in place of
both.
"""

from __future__ import annotations

from graphopt.errors import UnsupportedError
from graphopt.ir.program.program import Program

TAKEN = "@TAKEN"
"""The fetch of the first open branch's condition, and the attribute with the sides taken.

The attribute is a list, because an unrolled loop passes its branches several times.
"""

Place = tuple[int, int]
"""The index of a block, and of an operator in it."""


class OpenBranchError(UnsupportedError):
    """A program needs the side that its branch at `place` takes, which only a run knows."""

    def __init__(self, message: str, place: Place) -> None:
        super().__init__(message)
        self.place = place


def with_side(program: Program, place: Place, *, holds: bool) -> Program:
    """Copy a program so that the branch at `place` takes its true side if `holds`."""
    twin = program.clone()
    block, number = place
    op = twin.blocks[block].ops[number]
    op.attrs[TAKEN] = [*op.attrs.get(TAKEN, ()), holds]
    twin.touch()
    return twin
