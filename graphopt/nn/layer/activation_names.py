"""Activations that layers take by name."""

from __future__ import annotations

from collections.abc import Callable

from graphopt.ir.program import Variable
from graphopt.nn import functional


def named(name: str, function: str) -> Callable[[Variable], Variable]:
    """The function of paddle.nn.functional of this name; ValueError when there is none."""
    if not isinstance(name, str) or not callable(getattr(functional, name, None)):
        raise ValueError(f"{function}(): 'activation' names no activation function: {name!r}")
    return getattr(functional, name)
