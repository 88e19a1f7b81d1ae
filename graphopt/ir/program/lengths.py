"""Notes on the lengths of the sequences in variables. Paddle's tensors carry these (LoD).

Here a variable has one note per level, outermost first: the name of an int64 variable, numbers, or
one number for all sequences. The lengths of a feed `x` are in `x@lens` (`x@lens0` for the outer of
two levels), which is declared when it is first read.
"""

from __future__ import annotations

from graphopt.ir.program.kinds import GRAD_SUFFIX, LENGTHS
from graphopt.ir.program.program import Variable

Level = str | tuple[int, ...] | int
Levels = tuple[Level, ...]


def fed_name(name: str, level: int, count: int) -> str:
    """Return the feed name of the lengths at level `level` of `count`; the innermost count rows."""
    return f"{name}{LENGTHS}" if level == count - 1 else f"{name}{LENGTHS}{level}"


def levels_of(variable: Variable | None) -> Levels:
    """Return the lengths of a variable, one note per level; () for a dense tensor.

    A gradient has the lengths of its variable.
    """
    if variable is None:
        return ()
    if variable.sequence_lengths is not None:
        return variable.sequence_lengths
    if GRAD_SUFFIX in variable.name:
        return levels_of(variable.block.find_var(variable.name.partition(GRAD_SUFFIX)[0]))
    count = variable.lod_level if variable.is_data else 0
    return tuple(fed_name(variable.name, level, count) for level in range(count))
