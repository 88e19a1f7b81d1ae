"""Which lengths the sequences in a variable have, while a script is writing its program.

Paddle's tensors carry their lengths (LoD); here a variable only notes where they are, one note for
each level, outermost first: the name of an int64 variable, numbers, or one number for all of them.
Rows that are fed have theirs in `x@lens` (`x@lens0` for the outer of two levels), which is declared
when something reads it. `hand_on` is called for each operator that is appended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.ir.legacy.sequences import LENGTHS, SLOT
from graphopt.ir.program import Operator, Variable, default_main_program

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
    ]
)


def fed_name(name: str, level: int, count: int) -> str:
    """What the lengths of level `level` of `count` are fed as; the last one's rows are rows."""
    return f"{name}{LENGTHS}" if level == count - 1 else f"{name}{LENGTHS}{level}"


def note(variable: Variable, levels: Sequence[Level]) -> Variable:
    """Let a variable have these lengths."""
    setattr(variable, _NOTE, tuple(levels))
    variable.lod_level = len(levels)
    return variable


def levels_of(variable: Variable | None) -> Levels:
    """Where the lengths of a variable are; () for a dense tensor."""
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


def variable_of(x: Variable, function: str, argument: str, level: int = -1) -> Variable:
    """The variable with the lengths of x, int64, one for each sequence.

    Raises UnsupportedError when x has none, or two levels and none was chosen.
    """
    levels = levels_of(x)
    if not levels:
        raise UnsupportedError(
            f"{function}(): '{argument}' is '{x.name}', whose rows are no sequences: nothing says "
            "their lengths. Declare what is fed with lod_level=1, and compute it by functions that "
            "keep rows; or use fluid.layers.lod_reset"
        )
    return _as_variable(levels[level], x)


def of_one_level(x: Variable, function: str, argument: str) -> Variable:
    """As `variable_of`, for functions that know sequences of rows only."""
    if len(levels_of(x)) > 1:
        raise UnsupportedError(
            f"{function}(): '{argument}' is '{x.name}', sequences of sequences (lod_level "
            f"{x.lod_level}); only lod_level 1 is supported"
        )
    return variable_of(x, function, argument)


def _as_variable(level: Level, x: Variable) -> Variable:
    from graphopt.tensor.creation import to_tensor

    block = default_main_program().global_block()
    if isinstance(level, str):
        found = block.program.current_block().find_var(level)
        if found is None:
            found = block.create_var(level, (-1,), "int64", stop_gradient=True, is_data=True)
        return found
    if isinstance(level, int):
        return _alike(x, level)
    made = to_tensor(list(level), "int64")
    made.stop_gradient = True
    return made


def _alike(x: Variable, length: int) -> Variable:
    """The lengths of sequences of one length: as many as x has."""
    from graphopt.layer_helper import emit
    from graphopt.tensor.manipulation import reshape

    width = 1
    for size in x.shape[1:]:
        width *= size
    attrs: dict[str, Any] = {"shape": [-1], "value": float(length), "dtype": 3}
    whole = reshape(x, [-1, length * width])
    made = emit("fill_constant_batch_size_like", {"Input": whole}, attrs, stop_gradient=True)
    return made
