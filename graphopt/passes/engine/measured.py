"""Kernels that passes choose where a measurement shows that they pay.

A pass makes the op with the kernel and calls a `Measure`, which times it against XLA's own code on
the devices at hand. Passes without a `Measure` follow their rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from graphopt.ir.dialect.op import PdOp
from graphopt.passes.engine.fusion import Reason

GAIN = 0.97
"""The largest part of the time of XLA's own code at which a kernel is worth different rounding."""


class KernelTime(NamedTuple):
    """The ratio of the time with a kernel to the time without, or the reason why there is none."""

    ratio: float | None
    refusal: str = ""

    @property
    def pays(self) -> bool:
        """True for a kernel that is quicker by more than noise."""
        return self.ratio is not None and self.ratio <= GAIN

    @property
    def note(self) -> str:
        """The text of a report on a chosen kernel."""
        return (
            f"in {self.ratio:.2f} of the time of XLA's own code" if self.ratio is not None else ""
        )

    def reason(self, kernel: str) -> Reason:
        """Return the reason to leave an op to XLA's own code."""
        if self.ratio is None:
            return Reason("no-kernel", f"the kernel of {kernel} is not used: {self.refusal}")
        text = f"the kernel of {kernel} takes {self.ratio:.2f} of the time of XLA's own code"
        return Reason("not-quicker", f"{text}, measured on this device")


Measure = Callable[[PdOp, bool], KernelTime]
"""(op with a kernel, outside of any block; True if its derivative is computed, too) -> its time."""


def refuse(why: str) -> Measure:
    """Build a measure that rejects every kernel, for the reason `why`."""
    return lambda op, trained: KernelTime(None, why)


def discard(op: PdOp) -> None:
    """Erase an op that was made to be measured."""
    op.erase(safe_erase=False)
