"""The one door to communication: what a rule may ask of the other replicas.

Rules see a `Replicas` object. In a data-parallel function it speaks of the mapped axis `AXIS`;
alone it is the identity, so one rule serves both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jax import lax

AXIS = "dp"


@dataclass(frozen=True)
class Replicas:
    """The replicas that run one data-parallel function; `axis` is None outside of one."""

    axis: str | None = None
    size: int = 1

    def sum(self, value: Any) -> Any:
        """The sum of a value over all replicas, on each of them."""
        return value if self.axis is None else lax.psum(value, self.axis)

    def mean(self, value: Any) -> Any:
        """The mean of a value over all replicas, on each of them."""
        return value if self.axis is None else lax.pmean(value, self.axis)

    def index(self) -> Any:
        """The number of this replica as an int32 scalar."""
        if self.axis is None:
            return jax.numpy.zeros((), "int32")
        return lax.axis_index(self.axis)


ALONE = Replicas()
