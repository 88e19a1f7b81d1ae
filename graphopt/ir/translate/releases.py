"""The release of Paddle that saved an operator, where the meaning depends on the release."""

from __future__ import annotations

from graphopt.ir.program import Operator

PADDLE_2, PADDLE_3 = 2_000_000, 3_000_000
"""The first version of each release, as `saved_version` returns it."""


def saved_by_paddle_2(op: Operator) -> bool:
    """True for an operator of a file that Paddle 2 wrote, or graphopt in the form of Paddle 2."""
    return PADDLE_2 <= op.release < PADDLE_3
