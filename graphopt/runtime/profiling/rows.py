"""The rows of a profile, the events that they sum up, and the names of their parts."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import jax
from xdsl.ir import Operation


@contextmanager
def keep_names() -> Generator[None]:
    """Put instruction names into JAX's cache key: no executable with other names is loaded."""
    name = "jax_compilation_cache_include_metadata_in_key"
    before = getattr(jax.config, name)
    jax.config.update(name, True)
    try:
        yield
    finally:
        jax.config.update(name, before)


def variable_of(op: Operation) -> str:
    """Name the first named result, else the last named operand: a layer's weight."""
    values = (*op.results, *reversed(op.operands))
    return next((value.name_hint for value in values if value.name_hint), "")


class InstructionEvent(NamedTuple):
    """An XLA instruction that ran, with its op; times are nanoseconds from the first step."""

    op: str
    line: str
    instruction: str
    start: float
    end: float


@dataclass(frozen=True)
class OpTime:
    """The time of an op in one step: seconds forward and in the derivative, and its FLOPs.

    `op` is its name, `variable` its first result's and `line` the user's source line, each "" if it
    has none. `flops` are the FLOPs of its products and convolutions, as XLA computes them, and
    `at_peak` the seconds that these take at the peak of their form. `number` is the op's number in
    the optimized program (`ir/dialect/numbers.py`). A row of a table by line or kind sums up
    several ops, and has no number.
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
        """The seconds of this op in a step, forward and gradient."""
        return self.forward + self.gradient
