"""The rows of a profile, and the events that they are sums of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class InstructionEvent(NamedTuple):
    """An instruction of XLA that ran, with its op; times are nanoseconds from the first step."""

    op: str
    line: str
    instruction: str
    start: float
    end: float


@dataclass(frozen=True)
class OpTime:
    """The time of an op in one step: seconds forward and in the derivative, and its operations.

    `op` is its name, `variable` that of its first result and `line` the user's, each "" where there
    is none. `flops` are the floating-point operations of its products and convolutions, as XLA
    computes them, and `at_peak` the seconds that these take at the peak of their form. `number` is
    that of the op in the optimised program (`ir/dialect/numbers.py`). In a table by line or kind it
    stands for several ops, and has no number.
    """

    op: str
    variable: str
    line: str
    forward: float
    gradient: float
    flops: int
    number: int | None = None
    at_peak: float = 0.0

    @property
    def seconds(self) -> float:
        """The time of a step that is this op's."""
        return self.forward + self.gradient
