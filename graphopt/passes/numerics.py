"""How a rewrite may change numbers: every pass says which of three classes it is in.

The claim is about the ops of the IR, step by step as their lowering rules say. XLA compiles a whole
program and may round differently when a program changes, whatever a pass claims.
"""

from __future__ import annotations

from enum import Enum


class Numerics(Enum):
    """The classes, strictest first. Tests compare results by the class that a pass declares."""

    BIT_EXACT = "bit-exact"
    """The same bits, also for infinities, NaN and negative zero, in IEEE arithmetic.

    Where a backend flushes denormal numbers to zero, as XLA does on CPUs, an op that is gone does
    not flush what passes through.
    """
    REASSOCIATING = "reassociating"
    """Equal in real arithmetic; floating point rounds in another order."""
    APPROXIMATE = "approximate"
    """Not equal in real arithmetic either; opt-in, with a stated error."""
