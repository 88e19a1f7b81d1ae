"""Effect of a rewrite on numbers: every pass declares one of three classes.

The claim is about the ops of the IR, step by step as their lowering rules say. XLA compiles a whole
program and may round differently when a program changes, whatever a pass claims.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Numerics(Enum):
    """The classes, strictest first. Tests compare results by the class that a pass declares."""

    BIT_EXACT = "bit-exact"
    """Equal bits, also for infinities, NaN and negative zero, in IEEE arithmetic.

    Where a backend flushes denormal numbers to zero, as XLA does on CPUs, a removed op does not
    flush the values that it passed through.
    """
    REASSOCIATING = "reassociating"
    """Equal in real arithmetic; floating point rounds in a different order."""
    APPROXIMATE = "approximate"
    """Different even in real arithmetic; opt-in, with a stated error."""


class Numbers(Enum):
    """Kinds of floating-point numbers on which two ways to compute something may differ."""

    ORDINARY = "ordinary numbers"
    ZEROS = "zeros of both signs"
    KINKS = "equal numbers, and those where functions have kinks"
    MODERATE = "numbers from 1 to 10,000"
    SMALL = "small and denormal numbers"
    LARGE = "large numbers"
    HUGE = "numbers near the largest"
    INFINITE = "infinities"
    NAN = "NaN"


_OVERFLOW = frozenset({Numbers.HUGE, Numbers.INFINITE})
MAY_DIFFER: Mapping[Numerics, frozenset[Numbers]] = {
    Numerics.BIT_EXACT: frozenset(),
    Numerics.REASSOCIATING: _OVERFLOW,
    Numerics.APPROXIMATE: _OVERFLOW,
}
"""By class, the kinds of numbers for which a rewrite may change results.

In another order, sums and products overflow at different points, and infinities meet at different
points.
"""


def kinds_compared(numerics: Numerics) -> tuple[Numbers, ...]:
    """List the kinds of numbers on which a rewrite of this class must keep the results."""
    return tuple(kind for kind in Numbers if kind not in MAY_DIFFER[numerics])
