"""The ends of slices that go backwards to the first element, in files of Paddle 2 and of others.

`x[::-1]` has no end. Paddle 2 writes -1 for it, which then cannot be the last element; Paddle 3 and
graphopt write a number below that of any element, and count -1 from the end.
"""

from __future__ import annotations

from graphopt.ir.program import Operator, saved_version

NO_END = -(2**31)
"""The end of a slice with a negative stride that has the first element too."""

_PADDLE_2, _PADDLE_3 = 2_000_000, 3_000_000


def has_ends_of_paddle_2(op: Operator) -> bool:
    """True for an operator of a file that Paddle 2 wrote, or graphopt as Paddle 2 does."""
    return op.is_loaded and _PADDLE_2 <= saved_version(op.block.program) < _PADDLE_3


def keeps_its_ends(op: Operator) -> bool:
    """True for an operator whose ends are as readers of its program, once saved, take them."""
    return has_ends_of_paddle_2(op) or saved_version(op.block.program) >= _PADDLE_3
