"""Order between ops: an interpreter has one already."""

from __future__ import annotations

from graphopt.ir.ops.order import Fence
from graphopt.testing.reference.registry import rule
from graphopt.testing.reference.tape import Array


@rule(Fence)
def fence(values: tuple[Array, ...], after: tuple[Array, ...]) -> tuple[Array, ...]:
    return values
