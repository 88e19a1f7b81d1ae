"""Sequences of different lengths, one after the other: rows [n, ...] and lengths [sequences]."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, operand_def, opt_operand_def, result_def, traits_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import flag, integer, number, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import DataSizedOp, OpaqueOp, PureOp
from graphopt.ir.dialect.ops.index import check_integer
from graphopt.ir.dialect.traits import Movement
from graphopt.ir.dialect.types import (
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
ACTIVATIONS = ("identity", "sigmoid", "tanh", "relu")


def check_sequences(x: Tensor, lengths: Tensor, rank: int = 1) -> None:
    """ProgramError unless these can be rows and the lengths of sequences."""
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
    x = operand_def(Tensor)
    lengths = operand_def(Tensor)
    out = result_def(Tensor)
    pooltype = string("AVERAGE")
    pad_value = number(0.0)

    @staticmethod
    def infer(x: Tensor, lengths: Tensor, pooltype: str) -> Tensor:
        check_sequences(x, lengths)
        if pooltype not in POOLS or not dtype_of(x).is_floating:
            raise ProgramError(f"pooltype {pooltype!r} of {show(x)}: one of {', '.join(POOLS)}")
        return like(x, shape=(*shape_of(lengths), *shape_of(x)[1:]))


@irdl_op_definition
class SequenceConv(OpaqueOp):
    """A filter [context * d, m] on each row [d] and those around it in its sequence.

    Paddle: sequence_conv.
    """

    name = "pd.sequence_conv"
    x = operand_def(Tensor)
    lengths = operand_def(Tensor)
    filter = operand_def(Tensor)
    out = result_def(Tensor)
    context_length = integer()
    context_start = integer(0)

    @staticmethod
    def infer(
        x: Tensor, lengths: Tensor, filter: Tensor, context_length: int, context_start: int
    ) -> Tensor:
        check_sequences(x, lengths, 2)
        same_dtype(x, filter)
        wide = shape_of(x)[1] * context_length if shape_of(x)[1] != UNKNOWN else UNKNOWN
        if rank_of(x) != 2 or rank_of(filter) != 2 or not 0 < context_length < 1024:
            raise ProgramError(f"a context of {context_length} rows of {show(x)}")
        if UNKNOWN not in (wide, shape_of(filter)[0]) and wide != shape_of(filter)[0]:
            raise ProgramError(f"{context_length} rows of {show(x)} do not fit {show(filter)}")
        return like(x, shape=(shape_of(x)[0], shape_of(filter)[1]))


@irdl_op_definition
class SequenceRowConv(OpaqueOp):
    """Each row [d] plus weighed ones of those after it in its sequence.

    Paddle: row_conv of sequences.
    """

    name = "pd.sequence_row_conv"
    x = operand_def(Tensor)
    lengths = operand_def(Tensor)
    filter = operand_def(Tensor)
    out = result_def(Tensor)

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
    x = operand_def(Tensor)
    lengths = operand_def(Tensor)
    out = result_def(Tensor)

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
    x = operand_def(Tensor)
    lengths = operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(x: Tensor, lengths: Tensor) -> Tensor:
        check_sequences(x, lengths)
        return x


@irdl_op_definition
class SequenceExpand(OpaqueOp):
    """Row i of x for each row of sequence i of y. Paddle: sequence_expand_as."""

    name = "pd.sequence_expand_as"
    x = operand_def(Tensor)
    y = operand_def(Tensor)
    lengths = operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(x: Tensor, y: Tensor, lengths: Tensor) -> Tensor:
        check_sequences(y, lengths)
        pair = shape_of(x)[:1], shape_of(lengths)
        if rank_of(x) < 1 or (UNKNOWN not in pair[0] + pair[1] and pair[0] != pair[1]):
            raise ProgramError(f"{show(x)} has not a row for each of the lengths {show(lengths)}")
        return like(x, shape=(shape_of(y)[0], *shape_of(x)[1:]))


@irdl_op_definition
class SequencePad(DataSizedOp):
    """Sequences side by side: [sequences, length, ...], the longest one's unless it is given.

    Paddle: sequence_pad.
    """

    name = "pd.sequence_pad"
    x = operand_def(Tensor)
    lengths = operand_def(Tensor)
    pad_value = operand_def(Tensor)
    out = result_def(Tensor)
    padded_length = integer(-1)

    @staticmethod
    def infer(x: Tensor, lengths: Tensor, pad_value: Tensor, padded_length: int) -> Tensor:
        check_sequences(x, lengths)
        same_dtype(x, pad_value)
        length = padded_length if padded_length > 0 else UNKNOWN
        return like(x, shape=(*shape_of(lengths), length, *shape_of(x)[1:]))


@irdl_op_definition
class SequenceUnpad(DataSizedOp):
    """The first rows of each of [sequences, length, ...]. Paddle: sequence_unpad."""

    name = "pd.sequence_unpad"
    x = operand_def(Tensor)
    lengths = operand_def(Tensor)
    out = result_def(Tensor)

    @staticmethod
    def infer(x: Tensor, lengths: Tensor) -> Tensor:
        check_integer("lengths", lengths)
        if rank_of(x) < 2:
            raise ProgramError(f"expected [sequences, length, ...], found {show(x)}")
        return like(x, shape=(UNKNOWN, *shape_of(x)[2:]))


def _check_gates(x: Tensor, lengths: Tensor, weight: Tensor, gates: int, *names: str) -> Tensor:
    """The type of the hidden states."""
    check_sequences(x, lengths, 2)
    same_dtype(x, weight)
    if rank_of(x) != 2 or rank_of(weight) != 2:
        raise ProgramError(f"expected matrices, found {show(x)} and {show(weight)}")
    size, wide = shape_of(weight)
    if UNKNOWN in (size, wide) or wide != gates * size or shape_of(x)[1] not in (wide, UNKNOWN):
        raise ProgramError(
            f"a weight {show(weight)} is not {gates} gates of one size for rows {show(x)}"
        )
    if not set(names) <= set(ACTIVATIONS):
        raise ProgramError(f"activations {names}: known are {', '.join(ACTIVATIONS)}")
    return like(x, shape=(shape_of(x)[0], size))


@irdl_op_definition
class SequenceLstm(OpaqueOp):
    """An LSTM over sequences; the states before the first step are 0 or given. Paddle: lstm."""

    name = "pd.sequence_lstm"
    x = operand_def(Tensor)
    lengths = operand_def(Tensor)
    weight = operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    h0 = opt_operand_def(Tensor)
    c0 = opt_operand_def(Tensor)
    hidden = result_def(Tensor)
    cell = result_def(Tensor)
    is_reverse = flag(False)
    use_peepholes = flag(True)
    gate_activation = string("sigmoid")
    cell_activation = string("tanh")
    candidate_activation = string("tanh")

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor,
        lengths: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        use_peepholes: bool,
        gate_activation: str,
        cell_activation: str,
        candidate_activation: str,
    ) -> tuple[Tensor, Tensor]:
        names = gate_activation, cell_activation, candidate_activation
        out = _check_gates(x, lengths, weight, 4, *names)
        size = shape_of(out)[1] * (7 if use_peepholes else 4)
        if bias is None or size not in (shape_of(bias)[-1],):
            raise ProgramError(f"lstm needs a bias of {size} numbers, found {bias}")
        return out, out


@irdl_op_definition
class SequenceLstmp(OpaqueOp):
    """As SequenceLstm with hidden states projected by [d, p], of which the gates see p numbers.

    Cells and projections are cut to within the clips above 0. Paddle: lstmp.
    """

    name = "pd.sequence_lstmp"
    x = operand_def(Tensor)
    lengths = operand_def(Tensor)
    weight = operand_def(Tensor)
    proj_weight = operand_def(Tensor)
    bias = operand_def(Tensor)
    h0 = opt_operand_def(Tensor)
    c0 = opt_operand_def(Tensor)
    projection = result_def(Tensor)
    cell = result_def(Tensor)
    is_reverse = flag(False)
    use_peepholes = flag(True)
    gate_activation = string("sigmoid")
    cell_activation = string("tanh")
    candidate_activation = string("tanh")
    proj_activation = string("tanh")
    cell_clip = number(0.0)
    proj_clip = number(0.0)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor,
        lengths: Tensor,
        weight: Tensor,
        proj_weight: Tensor,
        bias: Tensor,
        use_peepholes: bool,
        gate_activation: str,
        cell_activation: str,
        candidate_activation: str,
        proj_activation: str,
    ) -> tuple[Tensor, Tensor]:
        check_sequences(x, lengths, 2)
        same_dtype(x, weight)
        same_dtype(x, proj_weight)
        pair = rank_of(weight), rank_of(proj_weight)
        size, projected = shape_of(proj_weight)[:2] if pair == (2, 2) else (UNKNOWN, UNKNOWN)
        wide = shape_of(x)[1]
        if UNKNOWN in (size, projected) or shape_of(weight) != (projected, 4 * size):
            raise ProgramError(f"weights {show(weight)} and {show(proj_weight)} do not fit")
        if rank_of(x) != 2 or wide not in (4 * size, UNKNOWN):
            raise ProgramError(f"the weight {show(weight)} does not fit rows {show(x)}")
        if shape_of(bias)[-1] != size * (7 if use_peepholes else 4):
            raise ProgramError(f"the bias {show(bias)} does not fit cells of {size} numbers")
        names = gate_activation, cell_activation, candidate_activation, proj_activation
        if not set(names) <= set(ACTIVATIONS):
            raise ProgramError(f"activations {names}: known are {', '.join(ACTIVATIONS)}")
        rows = shape_of(x)[0]
        return like(x, shape=(rows, projected)), like(x, shape=(rows, size))


@irdl_op_definition
class SequenceGru(OpaqueOp):
    """A GRU over sequences. Paddle: gru."""

    name = "pd.sequence_gru"
    x = operand_def(Tensor)
    lengths = operand_def(Tensor)
    weight = operand_def(Tensor)
    bias = opt_operand_def(Tensor)
    h0 = opt_operand_def(Tensor)
    hidden = result_def(Tensor)
    is_reverse = flag(False)
    gate_activation = string("sigmoid")
    activation = string("tanh")
    origin_mode = flag(False)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor, lengths: Tensor, weight: Tensor, gate_activation: str, activation: str
    ) -> Tensor:
        return _check_gates(x, lengths, weight, 3, gate_activation, activation)
