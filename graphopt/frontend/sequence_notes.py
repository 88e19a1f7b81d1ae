"""Lengths of the sequences in a variable, noted while a script is writing its program.

Paddle's tensors carry their lengths (LoD); here a variable only notes where they are, one note for
each level, outermost first: the name of an int64 variable, numbers, or one number for all of them.
Rows that are fed have theirs in `x@lens` (`x@lens0` for the outer of two levels), which is declared
when it is first read. `hand_on` is called for each operator that is appended.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphopt.ir.program import LENGTHS, Block, Operator, Variable
from graphopt.ir.program.kinds import SLOT

Level = str | tuple[int, ...] | int
Levels = tuple[Level, ...]

_NOTE = "_sequence_lengths"
# the slots whose first variable operators share the lengths of, as Paddle's shape rules do
_FIRST = ("X", "Input", "Ids", "Logits")
# operators that keep the number of rows, but not the sequences
_FORGET = frozenset(
    [
        "transpose",
        "transpose2",
        "arg_max",
        "arg_min",
        "gather",
        "gather_nd",
        "flip",
        "reverse",
        "norm",
        "p_norm",
        "smooth_l1_loss",
        "maxout",
        "where_index",
        "fill_constant_batch_size_like",
        "uniform_random_batch_size_like",
        "gaussian_random_batch_size_like",
        "sequence_pool",
        "sequence_pad",
        "sequence_scatter",
        "shape",
        "recurrent",
        "while",
        "conditional_block",
        "pylayer",
        "write_to_array",
        "read_from_array",
    ]
)


def fed_name(name: str, level: int, count: int) -> str:
    """The feed name of the lengths of level `level` of `count`; the innermost one's are of rows."""
    return f"{name}{LENGTHS}" if level == count - 1 else f"{name}{LENGTHS}{level}"


def note(variable: Variable, levels: Sequence[Level]) -> Variable:
    """Let a variable have these lengths."""
    setattr(variable, _NOTE, tuple(levels))
    variable.lod_level = len(levels)
    return variable


def levels_of(variable: Variable | None) -> Levels:
    """The lengths of a variable, one note for each level; () for a dense tensor."""
    if variable is None:
        return ()
    found = getattr(variable, _NOTE, None)
    if found is not None:
        return found
    count = variable.lod_level if variable.is_data else 0
    return tuple(fed_name(variable.name, level, count) for level in range(count))


def hand_on(op: Operator) -> None:
    """Note on the results of an operator the lengths of its first input, where they have them."""
    slot = next((slot for slot in _FIRST if op.input(slot)), None)
    if slot is None or op.type in _FORGET or SLOT in op.inputs:
        return
    source = op.block.find_var(op.input(slot)[0])
    levels = levels_of(source)
    if source is None or not levels or not source.has_type or 0 in (op.attrs.get("axes") or ()):
        return
    for name in op.output_arg_names:
        made = op.block.find_var(name)
        if made is not None and made.has_type and made.shape[:1] == source.shape[:1]:
            note(made, levels)


Block.appended = staticmethod(hand_on)
