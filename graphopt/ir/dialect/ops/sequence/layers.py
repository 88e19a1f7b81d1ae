"""Layers over sequences, one after the other: rows [n, ...] and lengths [sequences]."""

from __future__ import annotations

from typing import ClassVar

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def, traits_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import integer, number, string
from graphopt.ir.dialect.ops.base import DataSizedOp, OpaqueOp, PureOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.traits import Movement
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    dtype_of,
    like,
    rank_of,
    same_dtype,
    shape_of,
    show,
)

POOLS = ("SUM", "AVERAGE", "SQRT", "MAX", "LAST", "FIRST")


def check_sequences(x: Tensor, lengths: Tensor, rank: int = 1) -> None:
    """Raise ProgramError unless these can be rows and the lengths of sequences."""
    check_integer("lengths", lengths)
    if rank_of(lengths) != 1 or rank_of(x) < rank:
        raise ProgramError(
            f"expected rows of rank {rank} or more and one length for each sequence, found "
            f"{show(x)} and {show(lengths)}"
        )


@irdl_op_definition
class SequencePool(OpaqueOp):
    """One row for each sequence; `pad_value` for an empty one. Paddle: sequence_pool."""

    name = "pd.sequence_pool"
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    out = result_def(TENSOR)
    pooltype = string("AVERAGE", of=POOLS)
    pad_value = number(0.0)

    @staticmethod
    def infer(x: Tensor, lengths: Tensor, pooltype: str) -> Tensor:
        check_sequences(x, lengths)
        if pooltype not in POOLS or not dtype_of(x).is_floating:
            raise ProgramError(f"pooltype {pooltype!r} of {show(x)}: one of {', '.join(POOLS)}")
        return like(x, shape=(*shape_of(lengths), *shape_of(x)[1:]))


@irdl_op_definition
class SequenceConv(OpaqueOp):
    """A filter [context * d, m] on each row [d] and the rows around it in its sequence.

    Outside of a sequence the rows are 0, or rows of `padding`: its first rows are before a
    sequence, the others after it. Paddle: sequence_conv.
    """

    name = "pd.sequence_conv"
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    filter = operand_def(TENSOR)
    padding = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    context_length = integer()
    context_start = integer(0)

    @staticmethod
    def infer(
        x: Tensor,
        lengths: Tensor,
        filter: Tensor,
        padding: Tensor | None,
        context_length: int,
        context_start: int,
    ) -> Tensor:
        check_sequences(x, lengths, 2)
        same_dtype(x, filter)
        wide = shape_of(x)[1] * context_length if shape_of(x)[1] != UNKNOWN else UNKNOWN
        if rank_of(x) != 2 or rank_of(filter) != 2 or not 0 < context_length < 1024:
            raise ProgramError(f"a context of {context_length} rows of {show(x)}")
        if UNKNOWN not in (wide, shape_of(filter)[0]) and wide != shape_of(filter)[0]:
            raise ProgramError(f"{context_length} rows of {show(x)} do not fit {show(filter)}")
        if padding is not None:
            around = max(0, -context_start) + max(0, context_start + context_length - 1)
            same_dtype(x, padding)
            if rank_of(padding) != 2 or shape_of(padding)[0] not in (around, UNKNOWN):
                raise ProgramError(f"{around} rows of padding are needed, found {show(padding)}")
        return like(x, shape=(shape_of(x)[0], shape_of(filter)[1]))


@irdl_op_definition
class SequenceRowConv(OpaqueOp):
    """A weighted sum of each row [d] and the rows after it in its sequence.

    Paddle: row_conv of sequences.
    """

    name = "pd.sequence_row_conv"
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    filter = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, lengths: Tensor, filter: Tensor) -> Tensor:
        check_sequences(x, lengths, 2)
        same_dtype(x, filter)
        if rank_of(x) != 2 or rank_of(filter) != 2 or not shape_of(filter)[0]:
            raise ProgramError(
                "expected rows [n, size] and a filter [context + 1, size], found "
                f"{show(x)} and {show(filter)}"
            )
        width, wanted = shape_of(x)[1], shape_of(filter)[1]
        if UNKNOWN not in (width, wanted) and width != wanted:
            raise ProgramError(f"the filter {show(filter)} does not fit {show(x)}")
        return x


@irdl_op_definition
class SequenceSoftmax(OpaqueOp):
    """The softmax over each sequence of numbers [n] or [n, 1]. Paddle: sequence_softmax."""

    name = "pd.sequence_softmax"
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, lengths: Tensor) -> Tensor:
        check_sequences(x, lengths)
        if shape_of(x)[1:] not in ((), (1,), (UNKNOWN,)) or not dtype_of(x).is_floating:
            raise ProgramError(f"expected numbers [n] or [n, 1], found {show(x)}")
        return x


@irdl_op_definition
class SequenceReverse(PureOp):
    """Each sequence backwards. Paddle: sequence_reverse."""

    name = "pd.sequence_reverse"
    traits = traits_def(Movement())
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, lengths: Tensor) -> Tensor:
        check_sequences(x, lengths)
        return x


@irdl_op_definition
class SequenceExpand(OpaqueOp):
    """Row i of x for each row of sequence i of y. Paddle: sequence_expand_as."""

    name = "pd.sequence_expand_as"
    x = operand_def(TENSOR)
    y = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, y: Tensor, lengths: Tensor) -> Tensor:
        check_sequences(y, lengths)
        pair = shape_of(x)[:1], shape_of(lengths)
        if rank_of(x) < 1 or (UNKNOWN not in pair[0] + pair[1] and pair[0] != pair[1]):
            raise ProgramError(f"{show(x)} has not a row for each of the lengths {show(lengths)}")
        return like(x, shape=(shape_of(y)[0], *shape_of(x)[1:]))


@irdl_op_definition
class SequencePad(DataSizedOp):
    """Sequences side by side: [sequences, length, ...], padded to the longest or to a given length.

    The length of the vector `steps`, if present, is the padded length; longer sequences lose their
    last rows. Paddle: sequence_pad.
    """

    name = "pd.sequence_pad"
    DECIDED_BY: ClassVar[str] = "lengths"
    FIXED_BY: ClassVar[str] = "steps"
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    pad_value = operand_def(TENSOR)
    steps = opt_operand_def(TENSOR)
    out = result_def(TENSOR)
    padded_length = integer(-1)

    @staticmethod
    def infer(
        x: Tensor, lengths: Tensor, pad_value: Tensor, steps: Tensor | None, padded_length: int
    ) -> Tensor:
        check_sequences(x, lengths)
        same_dtype(x, pad_value)
        length = padded_length if padded_length > 0 else UNKNOWN
        if steps is not None:
            length = _length_of("steps", steps)
        return like(x, shape=(*shape_of(lengths), length, *shape_of(x)[1:]))


@irdl_op_definition
class SequenceUnpad(DataSizedOp):
    """The first rows of each of [sequences, length, ...]. Paddle: sequence_unpad.

    With the vector `rows` the result has as many rows as it has elements; a sequence whose length
    is above the padded length repeats its last row.
    """

    name = "pd.sequence_unpad"
    DECIDED_BY: ClassVar[str] = "lengths"
    FIXED_BY: ClassVar[str] = "rows"
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    rows = opt_operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, lengths: Tensor, rows: Tensor | None) -> Tensor:
        check_integer("lengths", lengths)
        if rank_of(x) < 2:
            raise ProgramError(f"expected [sequences, length, ...], found {show(x)}")
        count = UNKNOWN if rows is None else _length_of("rows", rows)
        return like(x, shape=(count, *shape_of(x)[2:]))


def _length_of(what: str, vector: Tensor) -> int:
    if rank_of(vector) != 1:
        raise ProgramError(f"{what} should be a vector, found {show(vector)}")
    return shape_of(vector)[0]
