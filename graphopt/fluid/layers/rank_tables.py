"""Sequences ordered by length, and operators for loops over their steps.

The longest sequence comes first, so that the sequences which have a step t are the first rows of a
memory. Paddle page: fluid.layers.control_flow.
"""

from __future__ import annotations

from graphopt.errors import OperandError, UnsupportedError
from graphopt.fluid.layers.sequence_lod import constant, note_lengths
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.sequence_notes import note, take_as_rows
from graphopt.frontend.sequences import of_one_level, variable_of
from graphopt.frontend.sub_blocks import is_array
from graphopt.ir.program import Variable, VarKind
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import levels_of
from graphopt.tensor.logic import greater_than, logical_not
from graphopt.tensor.manipulation import cast, concat, gather, reshape, slice
from graphopt.tensor.math import max as largest
from graphopt.tensor.math import scale
from graphopt.tensor.math import sum as total
from graphopt.tensor.search import argsort, nonzero

_RANKED = "_ranked_lengths"


def lod_rank_table(x: Variable, level: int = 0) -> Variable:
    """Rank the sequences of a level of x by length: their numbers, the longest first, int64.

    Sequences of equal length keep their order. Paddle page: fluid.layers.lod_rank_table.
    """
    function = "lod_rank_table"
    arguments.variable(x, "x", function)
    if level and not levels_of(x):
        raise UnsupportedError(
            f"{function}(): '{x.name}' has no level {level} that is known; declare its feed with "
            f"lod_level={level + 1} or more"
        )
    at, count = arguments.integer(level, "level", function), len(levels_of(x))
    if not 0 <= at < max(count, 1):
        raise ValueError(f"{function}(): 'level' {at} is not a level of '{x.name}' ({count})")
    lengths = variable_of(x, function, "x", at if count else -1)
    table = constant(argsort(scale(lengths, -1)))
    setattr(table, _RANKED, lengths)
    return table


def _lengths_of(table: Variable, argument: str, function: str) -> Variable:
    """Return the lengths of the sequences in a rank table."""
    arguments.variable(table, argument, function)
    lengths = getattr(table, _RANKED, None)
    if lengths is None:
        raise OperandError(
            f"{function}(): '{argument}' is '{table.name}', which is no rank table; make one with "
            "lod_rank_table"
        )
    return lengths


def reorder_lod_tensor_by_rank(x: Variable, rank_table: Variable) -> Variable:
    """Reorder the sequences of x, or its rows, by a rank table.

    Paddle page: fluid.layers.reorder_lod_tensor_by_rank.
    """
    function = "reorder_lod_tensor_by_rank"
    arguments.variable(x, "x", function)
    order = rank_table
    _lengths_of(order, "rank_table", function)
    if not levels_of(x):
        take_as_rows(x, function)
        return gather(x, order)
    lengths = of_one_level(x, function, "x")
    made = LayerHelper(function).emit(function, {"X": x, "RankTable": order, SLOT: lengths})
    return note_lengths(made, constant(gather(lengths, order)))


def max_sequence_len(rank_table: Variable) -> Variable:
    """Compute the length of the longest sequence, int64 of shape [1]."""
    lengths = _lengths_of(rank_table, "rank_table", "max_sequence_len")
    return constant(reshape(largest(lengths), [1]))


def lod_tensor_to_array(x: Variable, table: Variable) -> Variable:
    """Split sequences to an array of steps; element t has a row of each sequence with a step t."""
    function = "lod_tensor_to_array"
    arguments.variable(x, "x", function)
    of_one_level(x, function, "x")
    lengths = _lengths_of(table, "table", function)
    helper = LayerHelper(function)
    block = helper.main_program.current_block()
    shape = (-1, *x.shape[1:])
    made = block.create_var(f"{helper.name}.out", shape, x.dtype, kind=VarKind.TENSOR_ARRAY)
    inputs = {"X": x, "RankTable": table, SLOT: lengths}
    helper.append_op(function, inputs, {"Out": made})
    return note(made, ())


def array_to_lod_tensor(x: Variable, table: Variable) -> Variable:
    """Join an array of steps to sequences in their original order."""
    function = "array_to_lod_tensor"
    if not is_array(x):
        raise OperandError(f"{function}(): 'x' must be a tensor array; make one with array_write")
    lengths = _lengths_of(table, "table", function)
    helper = LayerHelper(function)
    made = helper.temporary()
    made.dtype = x.dtype
    if x.has_type:
        made.shape = (-1, *x.shape[1:])
    inputs = {"X": x, "RankTable": table, SLOT: lengths}
    helper.append_op(function, inputs, {"Out": made})
    return note_lengths(made, lengths)


def shrink_memory(x: Variable, i: Variable, table: Variable) -> Variable:
    """Keep the first rows, or sequences, of x, one for each sequence that has a step i."""
    function = "shrink_memory"
    arguments.variable(x, "x", function)
    lengths = _lengths_of(table, "table", function)
    goes_on = greater_than(lengths, cast(arguments.variable(i, "i", function), "int64"))
    count = constant(reshape(total(cast(goes_on, "int64")), [1]))
    if not levels_of(x):
        take_as_rows(x, function)
        return slice(x, [0], [0], [count])
    left = constant(slice(of_one_level(x, function, "x"), [0], [0], [count]))
    rows = constant(reshape(total(left), [1]))
    return note_lengths(slice(x, [0], [0], [rows]), left)


def split_lod_tensor(input: Variable, mask: Variable, level: int = 0) -> tuple[Variable, Variable]:
    """Split the rows, or sequences, of the input by a mask: first the true ones, then the others.

    The mask is bool of shape [rows, 1], or one for each sequence. `level` must be 0.
    """
    function = "split_lod_tensor"
    arguments.variable(input, "input", function)
    _first_level(level, function)
    yes = _places(mask, function, holds=True), _places(mask, function, holds=False)
    if not levels_of(input):
        take_as_rows(input, function)
        return gather(input, yes[0]), gather(input, yes[1])
    lengths = of_one_level(input, function, "input")
    holds = reshape(arguments.variable(mask, "mask", function), [-1])
    sides: list[Variable] = []
    for side in (holds, logical_not(holds)):
        # a count of 1 or 0 keeps or drops a sequence
        inputs = {"X": input, "Counts": constant(cast(side, "int64")), "OwnLengths": lengths}
        out, left = LayerHelper("sequence_expand").emit_all(
            "sequence_expand", inputs, {"ref_level": -1}, ("Out", "OutLengths")
        )
        sides.append(note_lengths(out, constant(left)))
    return sides[0], sides[1]


def merge_lod_tensor(
    in_true: Variable, in_false: Variable, x: Variable, mask: Variable, level: int = 0
) -> Variable:
    """Merge the rows, or sequences, of both sides of a split in their original order.

    `x` is the input of the split: if it has sequences, so have the sides.
    """
    function = "merge_lod_tensor"
    for name, value in (("in_true", in_true), ("in_false", in_false), ("x", x)):
        arguments.variable(value, name, function)
    _first_level(level, function)
    places = [_places(mask, function, holds=side) for side in (True, False)]
    order = constant(argsort(concat(places, 0)))
    joined = concat([in_true, in_false], 0)
    if not levels_of(in_true) or not levels_of(in_false):
        return note(gather(joined, order), ())
    own = [of_one_level(in_true, function, "in_true"), of_one_level(in_false, function, "in_false")]
    lengths = constant(concat(own, 0))
    inputs = {"X": joined, "RankTable": order, SLOT: lengths}
    made = LayerHelper(function).emit("reorder_lod_tensor_by_rank", inputs)
    return note_lengths(made, constant(gather(lengths, order)))


def _first_level(level: int, function: str) -> None:
    if arguments.integer(level, "level", function):
        raise ValueError(f"{function}(): only level 0, the rows or sequences, can be split")


def _places(mask: Variable, function: str, *, holds: bool) -> Variable:
    """List the numbers of the rows where the mask holds or does not, int64 of shape [count]."""
    flat = reshape(arguments.variable(mask, "mask", function), [-1])
    return constant(reshape(nonzero(flat if holds else logical_not(flat)), [-1]))
