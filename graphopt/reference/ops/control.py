"""Fences: an interpreter has an order of ops already."""

from __future__ import annotations

from graphopt.ir.dialect.ops.control import Fence
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


@rule(Fence)
def fence(values: tuple[Array, ...], after: tuple[Array, ...]) -> tuple[Array, ...]:
    return values
