"""Lengths of the sequences in a variable, recorded while a script builds its program.

`graphopt.ir.program.lengths` describes the notes. `hand_on` is called for each appended operator.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphopt.ir.operators import row_of
from graphopt.ir.program import LENGTHS, Block, Operator, Variable, undo, unique_name
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import Level, levels_of
from graphopt.ir.program.location import caller_location

# the slots whose first variable passes its lengths on, as in Paddle's shape rules
_FIRST = ("X", "Input", "Ids", "Logits")
# the attributes of operators that run blocks
_BLOCKS = ("sub_block", "blocks")


def note(variable: Variable, levels: Sequence[Level]) -> Variable:
    """Record the lengths of a variable."""
    variable.sequence_lengths = tuple(levels)
    variable.lod_level = len(levels)
    return variable


def hand_on(op: Operator) -> None:
    """Copy the lengths of an operator's first input to the results that share its rows."""
    if _joins_rows(op):
        _note_joined(op)
        return
    source = _shares_with(op)
    levels = levels_of(source)
    if source is None or not levels:
        return
    for name in op.output_arg_names:
        made = op.block.find_var(name)
        if made is not None and _has_the_rows_of(source, made):
            note(made, levels)


def _joins_rows(op: Operator) -> bool:
    """True for a `concat` of rows, and for one along an axis known only in a run."""
    if op.type != "concat":
        return False
    inputs = [op.block.find_var(name) for name in op.input("X")]
    ranks = {len(x.shape) for x in inputs if x is not None and x.has_type}
    return bool(op.input("AxisTensor")) or int(op.attrs.get("axis", 0)) in {0, *(-r for r in ranks)}


def _note_joined(op: Operator) -> None:
    """Record the joined lengths of all inputs on a `concat` of rows, if each input has lengths."""
    inputs = [op.block.find_var(name) for name in op.input("X")]
    parts = [levels_of(x) for x in inputs]
    out = op.block.find_var(op.output("Out")[0])
    if out is None or op.input("AxisTensor") or not parts[0] or len(set(map(len, parts))) != 1:
        return
    levels = [_join_lengths(op.block, level) for level in zip(*parts, strict=True)]
    known = [level for level in levels if level is not None]
    if len(known) == len(levels):
        note(out, known)


def _join_lengths(block: Block, parts: Sequence[Level]) -> Level | None:
    """Concatenate lengths; None for constant lengths mixed with length variables."""
    if all(isinstance(part, int) for part in parts) and len(set(parts)) == 1:
        return parts[0]
    names = [part for part in parts if isinstance(part, str)]
    if len(names) < len(parts):
        numbers = [part for part in parts if isinstance(part, tuple)]
        return sum(numbers, ()) if len(numbers) == len(parts) else None
    made = unique_name.generate("joined_lengths.tmp")
    lengths = [lengths_variable(block, name) for name in names]
    out = block.create_var(made, (-1,), "int64", stop_gradient=True)
    block.append_op("concat", {"X": lengths}, {"Out": out}, {"axis": 0})
    return made


def lengths_variable(block: Block, name: str) -> Variable:
    """Return the length variable of this name; declare it if it belongs to a feed."""
    found = block.find_var(name)
    if found is not None:
        return found
    whole = block.program.global_block()
    return whole.create_var(name, (-1,), "int64", stop_gradient=True, is_data=True)


def take_as_sequences(x: Variable, function: str) -> bool:
    """Declare that the feed with the rows of x has lengths, too; False if x has no such feed.

    A script may leave out `lod_level` where it declares a feed: the lengths come with the tensor
    that it feeds. The feed records that `function` needs them.
    """
    feed = _feed_of(x)
    if feed is None:
        return False
    undo.note_attributes(feed, "lod_level", "lengths_for")
    feed.lod_level, feed.lengths_for = 1, f"{function}() at {caller_location()}"
    for op in feed.block.ops:
        hand_on(op)
    return bool(levels_of(x))


def take_as_rows(x: Variable, function: str) -> None:
    """Record that `function` takes the rows of x as dense rows, as they were declared.

    A run that feeds lengths with them is refused: Paddle's function would use the sequences.
    """
    feed = None if levels_of(x) else _feed_of(x)
    if feed is not None and not feed.rows_for:
        undo.note_attributes(feed, "rows_for")
        feed.rows_for = f"{function}() at {caller_location()}"


def _feed_of(x: Variable) -> Variable | None:
    """Find the feed without lengths that x has its rows from."""
    block, found = x.block, x
    for op in reversed(block.ops):
        if found.name not in op.output_arg_names:
            continue
        source = _shares_with(op)
        if source is None or not _has_the_rows_of(source, found):
            return None
        found = source
    is_feed = found.is_data and found.block is block and not found.name.endswith(LENGTHS)
    is_open = found.shape[:1] == (-1,) or found.takes_any_shape
    return found if is_feed and is_open and found.lod_level == 0 else None


def _forgets(op: Operator) -> bool:
    """True for an operator whose results keep the rows of its input but not the sequences."""
    return row_of(op.type).forgets_lengths or not op.attrs.keys().isdisjoint(_BLOCKS)


def _shares_with(op: Operator) -> Variable | None:
    """Find the variable whose lengths the results of an operator share."""
    slot = next((slot for slot in _FIRST if op.input(slot)), None)
    if slot is None or _forgets(op) or SLOT in op.inputs:
        return None
    source = op.block.find_var(op.input(slot)[0])
    if source is None or not source.has_type or 0 in (op.attrs.get("axes") or ()):
        return None
    return source


def _has_the_rows_of(source: Variable, made: Variable) -> bool:
    return made.has_type and made.shape[:1] == source.shape[:1]


Block.on_append.after = hand_on
