"""Sequences joined, cut, repeated and put in another order: rows [n, ...] and their lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.irdl import irdl_op_definition, operand_def, result_def, var_operand_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, integers
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import DataSizedOp, OpaqueOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.ops.sequence.layers import check_sequences
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    like,
    rank_of,
    same_dtype,
    shape_of,
    show,
)


def _check_pair(what: str, x: Tensor, lengths: Tensor) -> None:
    """Raise ProgramError when two vectors, one number per sequence, cannot be equally long."""
    sizes = shape_of(x)[:1], shape_of(lengths)
    if rank_of(x) != 1 or (UNKNOWN not in sizes[0] + sizes[1] and sizes[0] != sizes[1]):
        raise ProgramError(f"{what} {show(x)} should have a number for each of {show(lengths)}")


@irdl_op_definition
class SequenceConcat(OpaqueOp):
    """Sequence i of each x, one after another, then sequence i + 1. Paddle: sequence_concat."""

    name = "pd.sequence_concat"
    xs = var_operand_def(TENSOR)
    lengths = var_operand_def(TENSOR)
    out = result_def(TENSOR)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(xs: Sequence[Tensor], lengths: Sequence[Tensor]) -> Tensor:
        if not xs or len(xs) != len(lengths):
            raise ProgramError(f"{len(xs)} tensors of sequences with {len(lengths)} lengths")
        rows, rest = 0, list(shape_of(xs[0])[1:])
        for x, own in zip(xs, lengths, strict=True):
            check_sequences(x, own)
            same_dtype(xs[0], x)
            _check_pair("the lengths", own, lengths[0])
            sizes = shape_of(x)
            if len(sizes) != len(rest) + 1:
                raise ProgramError(f"rows of {show(x)} and of {show(xs[0])} differ in rank")
            for axis, (have, size) in enumerate(zip(rest, sizes[1:], strict=True)):
                if UNKNOWN not in (have, size) and have != size:
                    raise ProgramError(f"rows of {show(x)} and of {show(xs[0])} differ in size")
                rest[axis] = size if have == UNKNOWN else have
            rows = UNKNOWN if UNKNOWN in (rows, sizes[0]) else rows + sizes[0]
        return like(xs[0], shape=(rows, *rest))


@irdl_op_definition
class SequenceRepeat(DataSizedOp):
    """Each sequence repeated by its count, and the lengths. Paddle: sequence_expand.

    A sequence with the count 0 is left out.
    """

    name = "pd.sequence_expand"
    DECIDED_BY: ClassVar[str] = "counts"
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    counts = operand_def(TENSOR)
    out = result_def(TENSOR)
    out_lengths = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, lengths: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        check_sequences(x, lengths)
        check_integer("counts", counts)
        _check_pair("the counts", counts, lengths)
        return like(x, shape=(UNKNOWN, *shape_of(x)[1:])), like(lengths, shape=(UNKNOWN,))


@irdl_op_definition
class SequenceReshape(DataSizedOp):
    """Sequences of rows [n, d] as rows of `new_dim` numbers, and their lengths.

    The runtime raises ValueError where the numbers of a sequence do not fill whole rows.
    Paddle: sequence_reshape.
    """

    name = "pd.sequence_reshape"
    DECIDED_BY: ClassVar[str] = "lengths"
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    out = result_def(TENSOR)
    out_lengths = result_def(TENSOR)
    new_dim = integer()

    @staticmethod
    def infer(x: Tensor, lengths: Tensor, new_dim: int) -> tuple[Tensor, Tensor]:
        check_sequences(x, lengths, 2)
        if rank_of(x) != 2 or new_dim < 1:
            raise ProgramError(f"{show(x)} as rows of {new_dim} numbers")
        return like(x, shape=(UNKNOWN, new_dim)), lengths


@irdl_op_definition
class SequenceScatter(OpaqueOp):
    """Row i of x with the updates of sequence i added in the columns that it names.

    x is [sequences, d], index and updates have as many elements as all sequences together.
    Paddle: sequence_scatter.
    """

    name = "pd.sequence_scatter"
    x = operand_def(TENSOR)
    index = operand_def(TENSOR)
    updates = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, index: Tensor, updates: Tensor, lengths: Tensor) -> Tensor:
        check_integer("index", index)
        check_sequences(index, lengths)
        same_dtype(x, updates)
        if rank_of(x) != 2:
            raise ProgramError(f"expected a row for each sequence, found {show(x)}")
        return x


@irdl_op_definition
class SequenceEnumerate(OpaqueOp):
    """Each number and the ones after it in its sequence: [n, win_size]. Paddle: sequence_enumerate.

    After the end of a sequence there is `pad_value`.
    """

    name = "pd.sequence_enumerate"
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    out = result_def(TENSOR)
    win_size = integer()
    pad_value = integer(0)

    @staticmethod
    def infer(x: Tensor, lengths: Tensor, win_size: int) -> Tensor:
        check_integer("x", x)
        check_sequences(x, lengths)
        if shape_of(x)[1:] not in ((), (1,), (UNKNOWN,)) or win_size < 1:
            raise ProgramError(f"expected numbers [n] or [n, 1], found {show(x)}")
        return like(x, shape=(shape_of(x)[0], win_size))


@irdl_op_definition
class SequenceSlice(DataSizedOp):
    """`length` rows of each sequence from `offset` on. Paddle: sequence_slice.

    The runtime raises ValueError where a sequence does not have these rows.
    """

    name = "pd.sequence_slice"
    DECIDED_BY: ClassVar[str] = "lengths"
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    offset = operand_def(TENSOR)
    length = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, lengths: Tensor, offset: Tensor, length: Tensor) -> Tensor:
        check_sequences(x, lengths)
        for what, numbers in (("the offsets", offset), ("the lengths", length)):
            check_integer(what, numbers)
            _check_pair(what, numbers, lengths)
        return like(x, shape=(UNKNOWN, *shape_of(x)[1:]))


def _infer_tokens(x: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    check_integer("x", x)
    check_sequences(x, lengths)
    if shape_of(x)[1:] not in ((), (1,), (UNKNOWN,)):
        raise ProgramError(f"expected tokens [n] or [n, 1], found {show(x)}")
    return like(x, shape=(UNKNOWN, *shape_of(x)[1:])), lengths


@irdl_op_definition
class SequenceErase(DataSizedOp):
    """The numbers not among the tokens, and the remaining lengths. Paddle: sequence_erase."""

    name = "pd.sequence_erase"
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    out = result_def(TENSOR)
    out_lengths = result_def(TENSOR)
    tokens = integers(())

    infer = staticmethod(_infer_tokens)


@irdl_op_definition
class SequenceAlign(DataSizedOp):
    """The tokens [n, 1] of each sequence without repetitions and blanks, and the lengths left.

    One row of -1 when no sequence has any left. Paddle: ctc_align of sequences.
    """

    name = "pd.sequence_align"
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    out = result_def(TENSOR)
    out_lengths = result_def(TENSOR)
    blank = integer(0)
    merge_repeated = flag(True)

    infer = staticmethod(_infer_tokens)


@irdl_op_definition
class SequenceEditDistance(OpaqueOp):
    """The insertions, deletions and changes that make each sequence of refs from hyps.

    The distances are float32 [sequences, 1]; the second result is their number [1]. `normalized`
    divides by the length of the reference. Paddle: edit_distance of sequences.
    """

    name = "pd.sequence_edit_distance"
    hyps = operand_def(TENSOR)
    refs = operand_def(TENSOR)
    hyps_lengths = operand_def(TENSOR)
    refs_lengths = operand_def(TENSOR)
    out = result_def(TENSOR)
    sequence_num = result_def(TENSOR)
    normalized = flag(False)

    @staticmethod
    def infer(
        hyps: Tensor, refs: Tensor, hyps_lengths: Tensor, refs_lengths: Tensor
    ) -> tuple[Tensor, Tensor]:
        for what, x, lengths in (("hyps", hyps, hyps_lengths), ("refs", refs, refs_lengths)):
            check_integer(what, x)
            check_sequences(x, lengths)
            if shape_of(x)[1:] not in ((), (1,), (UNKNOWN,)):
                raise ProgramError(f"expected tokens [n] or [n, 1] in {what}, found {show(x)}")
        _check_pair("the lengths of refs", refs_lengths, hyps_lengths)
        count = shape_of(hyps_lengths)[0]
        return like(hyps, shape=(count, 1), dtype="float32"), like(hyps, shape=(1,), dtype="int64")


@irdl_op_definition
class SequenceReorder(OpaqueOp):
    """The sequences in another order: `order` has their indices.

    Paddle: reorder_lod_tensor_by_rank.
    """

    name = "pd.sequence_reorder"
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    order = operand_def(TENSOR)
    out = result_def(TENSOR)

    @staticmethod
    def infer(x: Tensor, lengths: Tensor, order: Tensor) -> Tensor:
        check_sequences(x, lengths)
        check_integer("order", order)
        _check_pair("the order", order, lengths)
        return x
