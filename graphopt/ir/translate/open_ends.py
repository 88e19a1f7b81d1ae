"""The ends of slices that go backwards to the first element, in files of Paddle 2 and of others.

`x[::-1]` has no end. Paddle 2 writes -1 for it, which then cannot be the last element. Paddle 3 and
graphopt write a number below the index of any element, and count -1 from the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphopt.ir.program import Operator, saved_version
from graphopt.ir.translate.releases import PADDLE_3, saved_by_paddle_2

NO_END = -(2**31)
"""The end of a slice with a negative stride that includes the first element."""


def without_ends_of_paddle_2(ends: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Replace an end of -1 by `NO_END` where the stride is negative."""
    pairs = zip(ends, strides, strict=True)
    return [NO_END if end == -1 and stride < 0 else end for end, stride in pairs]


def keeps_its_ends(op: Operator) -> bool:
    """True if the ends already have the form that readers of the saved program expect."""
    return saved_by_paddle_2(op) or saved_version(op.block.program) >= PADDLE_3
