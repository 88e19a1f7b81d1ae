"""The one door to communication: what a rule may ask of the other replicas.

Rules see a `Replicas` object. In a data-parallel function it speaks of the mapped axis `AXIS`;
alone it is the identity, so one rule serves both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jax import lax

from graphopt.errors import ProgramError

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

    def sum_in_parts(self, value: Any) -> Any:
        """This replica's share of the sum of a flat value, whose length `size` divides."""
        if self.axis is None:
            return value
        return lax.psum_scatter(value, self.axis, scatter_dimension=0, tiled=True)

    def gather(self, value: Any) -> Any:
        """The values of all replicas along a new first axis, on each of them."""
        return value[None] if self.axis is None else lax.all_gather(value, self.axis)

    def check_size(self, parts: int) -> None:
        """ProgramError unless a value in this many parts is spread over exactly these replicas."""
        if parts != self.size:
            raise ProgramError(
                f"the program spreads its state over {parts} replicas, but {self.size} run it"
            )

    def index(self) -> Any:
        """The number of this replica as an int32 scalar."""
        if self.axis is None:
            return jax.numpy.zeros((), "int32")
        return lax.axis_index(self.axis)


ALONE = Replicas()
