"""Shapes as tuples whose dimensions may be unknown, as in the tensor types of the dialect."""

from __future__ import annotations

import math
from collections.abc import Sequence

from graphopt.errors import ProgramError

UNKNOWN = -1
Shape = tuple[int, ...]


def broadcast_dim(a: int, b: int) -> int | None:
    """Broadcast two dimensions; None when they do not broadcast."""
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if a == UNKNOWN:
        return b
    if b == UNKNOWN:
        return a
    return None


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Broadcast shapes as NumPy does; raise ProgramError when two known dimensions differ.

    An unknown dimension is assumed to be equal to a known one other than 1.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[int] = [1] * rank
    for shape in shapes:
        for position, dim in enumerate(shape, start=rank - len(shape)):
            merged = broadcast_dim(result[position], dim)
            if merged is None:
                raise ProgramError(
                    "Broadcast dimension mismatch: shapes "
                    + " and ".join(str(list(s)) for s in shapes)
                    + f" differ at dimension {position} ({result[position]} against {dim})"
                )
            result[position] = merged
    return tuple(result)


def agree(a: Sequence[int], b: Sequence[int]) -> bool:
    """True for shapes of one rank in which no two known sizes differ."""
    return len(a) == len(b) and all(x == y or UNKNOWN in (x, y) for x, y in zip(a, b, strict=True))


def element_count(shape: Shape) -> int:
    """Count the elements of a shape; UNKNOWN when a dimension is unknown."""
    return UNKNOWN if UNKNOWN in shape else math.prod(shape)
