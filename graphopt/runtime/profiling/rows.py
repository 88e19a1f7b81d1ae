"""The rows of a profile, the events that they are sums of, and the names of their parts."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import jax
from xdsl.ir import Operation


@contextmanager
def keep_names() -> Generator[None]:
    """Keep the names of instructions: no executable on disk with other names is taken."""
    name = "jax_compilation_cache_include_metadata_in_key"
    before = getattr(jax.config, name)
    jax.config.update(name, True)
    try:
        yield
    finally:
        jax.config.update(name, before)


def variable_of(op: Operation) -> str:
    """The name of the first result, or of the last operand: a layer's weight, where it has one."""
    values = (*op.results, *reversed(op.operands))
    return next((value.name_hint for value in values if value.name_hint), "")


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
