"""The variable with the lengths of the sequences in another variable.

`sequence_notes.py` records where the lengths are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.errors import UnsupportedError
from graphopt.frontend.constants import value_attrs
from graphopt.frontend.layer_helper import emit
from graphopt.frontend.sequence_notes import lengths_variable, take_as_sequences
from graphopt.ir.program import Variable, default_main_program
from graphopt.ir.program.lengths import Level, levels_of


def variable_of(x: Variable, function: str, argument: str, level: int = -1) -> Variable:
    """Return the int64 variable with the lengths of x, one per sequence.

    Raises UnsupportedError when x has no lengths, or two levels and `level` was not chosen.
    """
    if level == -1 and not levels_of(x):
        take_as_sequences(x, function)
    levels = levels_of(x)
    if not levels:
        raise UnsupportedError(
            f"{function}(): '{argument}' is '{x.name}', which has no sequence lengths. Declare its "
            f"feed with lod_level=1, and compute '{x.name}' with functions that keep the rows; or "
            f"set the lengths with fluid.layers.lod_reset"
        )
    return _as_variable(levels[level], x)


def of_one_level(x: Variable, function: str, argument: str) -> Variable:
    """Return the lengths as `variable_of`, for functions that support only one level."""
    if len(levels_of(x)) > 1:
        raise UnsupportedError(
            f"{function}(): '{argument}' is '{x.name}', sequences of sequences (lod_level "
            f"{x.lod_level}); only lod_level 1 is supported"
        )
    return variable_of(x, function, argument)


def _as_variable(level: Level, x: Variable) -> Variable:
    if isinstance(level, str):
        return lengths_variable(default_main_program().current_block(), level)
    if isinstance(level, int):
        return _alike(x, level)
    return emit("assign_value", {}, value_attrs(np.array(level, np.int64)), stop_gradient=True)


def _alike(x: Variable, length: int) -> Variable:
    """Emit the lengths of sequences of equal length, as many as x has."""
    width = 1
    for size in x.shape[1:]:
        width *= size
    attrs: dict[str, Any] = {"shape": [-1], "value": float(length), "dtype": 3}
    whole = emit("reshape2", {"X": x}, {"shape": [-1, length * width]})
    return emit("fill_constant_batch_size_like", {"Input": whole}, attrs, stop_gradient=True)
