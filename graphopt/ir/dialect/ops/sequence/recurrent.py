"""Recurrent networks over whole sequences, padded or in rows, and single steps of the old units."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    result_def,
    var_operand_def,
    var_result_def,
)

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import flag, integer, number, string
from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.ops.random import RandomOp
from graphopt.ir.dialect.ops.sequence.layers import check_sequences
from graphopt.ir.dialect.types import (
    TENSOR,
    UNKNOWN,
    Tensor,
    agree,
    dtype_of,
    like,
    rank_of,
    same_dtype,
    shape_of,
    show,
)

# for each mode: the number of gates, and of states that a step passes to the next one
GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
STATES = {"LSTM": 2, "GRU": 1, "RNN_TANH": 1, "RNN_RELU": 1}


def expect(what: str, operand: Tensor, want: Sequence[int]) -> None:
    """Raise ProgramError unless the operand has this shape (-1: any size)."""
    if not agree(shape_of(operand), want):
        raise ProgramError(f"{what} should be {list(want)}, found {list(shape_of(operand))}")


def expect_lengths(what: str, lengths: Tensor | None, batch: int) -> None:
    """Raise ProgramError unless the operand is absent or has one integer for each sequence."""
    if lengths is None:
        return
    expect(what, lengths, [batch])
    if dtype_of(lengths) not in ("int32", "int64"):
        raise OperandError(f"{what} must be int32 or int64, found {dtype_of(lengths)}")


@irdl_op_definition
class Rnn(RandomOp):
    """Layers of LSTM, GRU or plain recurrent cells over sequences x [time, batch, input_size].

    The weights are, for each layer and direction, input-hidden and hidden-hidden [gates * hidden,
    ...], and after all of them the biases in the same order. A previous state is [layers *
    directions, batch, hidden]; the results are the outputs [time, batch, directions * hidden] and
    the final states. Steps past a sequence's length leave its state unchanged and output 0, or,
    without `zero_padding`, the output of the cell. In training a share `dropout_prob` of the values
    passed between layers is dropped. `is_reverse` makes the only direction the backward one. With a
    `proj_size`, matrices [hidden, proj_size] project the hidden state of an LSTM; these weights
    come last.
    Paddle: rnn.
    """

    name = "pd.rnn"
    x = operand_def(TENSOR)
    pre_state = var_operand_def(TENSOR)
    weight_list = var_operand_def(TENSOR)
    sequence_length = opt_operand_def(TENSOR)
    outs = var_result_def(TENSOR)
    dropout_prob = number(0.0)
    is_bidirec = flag(False)
    input_size = integer(10)
    hidden_size = integer(100)
    num_layers = integer(1)
    mode = string("RNN_TANH", of=tuple(GATES))
    is_test = flag(False)
    zero_padding = flag(True)
    is_reverse = flag(False)
    proj_size = integer(0)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor,
        pre_state: Sequence[Tensor],
        weight_list: Sequence[Tensor],
        sequence_length: Tensor | None,
        is_bidirec: bool,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        mode: str,
        dropout_prob: float,
        is_reverse: bool,
        proj_size: int,
    ) -> list[Tensor]:
        if mode not in GATES:
            raise ProgramError(f"rnn mode should be one of {', '.join(GATES)}, found '{mode}'")
        if num_layers < 1 or hidden_size < 1:
            raise ProgramError(f"rnn of {num_layers} layers of size {hidden_size}")
        if is_reverse and is_bidirec:
            raise ProgramError("is_reverse is for an rnn of one direction")
        if proj_size < 0 or (proj_size and mode != "LSTM"):
            raise ProgramError(f"proj_size {proj_size} of {mode}; only an LSTM has a projection")
        if not 0 <= dropout_prob <= 1:
            raise ProgramError(f"dropout_prob must be from 0 to 1, found {dropout_prob}")
        if not dtype_of(x).is_floating:
            raise OperandError(f"rnn needs floating-point inputs, found {dtype_of(x)}")
        expect("the input [time, batch, input_size] of rnn", x, [UNKNOWN, UNKNOWN, input_size])
        time, batch, _ = shape_of(x)
        directions = 2 if is_bidirec else 1
        same_dtype(x, *pre_state, *weight_list)
        if len(pre_state) != STATES[mode]:
            raise ProgramError(
                f"{mode} needs {STATES[mode]} initial states, found {len(pre_state)}"
            )
        sizes = [proj_size or hidden_size, hidden_size][: len(pre_state)]
        count = num_layers * directions
        for item, size in zip(pre_state, sizes, strict=True):
            expect(f"an initial state of {mode}", item, [count, batch, size])
            batch = shape_of(item)[1] if batch == UNKNOWN else batch
        expect_lengths("sequence_length", sequence_length, batch)
        wanted = weight_shapes(mode, input_size, hidden_size, num_layers, directions, proj_size)
        if len(weight_list) != len(wanted):
            raise ProgramError(
                f"{mode} of {num_layers} layers and {directions} directions needs {len(wanted)} "
                f"weights and biases, found {len(weight_list)}"
            )
        for at, (weight, want) in enumerate(zip(weight_list, wanted, strict=True)):
            expect(f"weight {at} of {mode}", weight, want)
        out = like(x, shape=(time, batch, directions * sizes[0]))
        return [out, *(like(x, shape=(count, batch, size)) for size in sizes)]


def weight_shapes(
    mode: str,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    directions: int,
    proj_size: int = 0,
) -> list[tuple[int, ...]]:
    """List the shapes of all weights, then all biases, then all projections of an rnn."""
    rows, size = GATES[mode] * hidden_size, proj_size or hidden_size
    shapes: list[tuple[int, ...]] = []
    for layer in range(num_layers):
        width = input_size if layer == 0 else directions * size
        shapes += [(rows, width), (rows, size)] * directions
    cells = num_layers * directions
    return shapes + [(rows,)] * (2 * cells) + [(hidden_size, size)] * (cells if proj_size else 0)


# gru_unit's names of activations, indexed by its numbers
ACTIVATIONS = ("identity", "sigmoid", "tanh", "relu")


@irdl_op_definition
class GruUnit(OpaqueOp):
    """One step of a GRU for projected inputs [batch, 3 * size]: update, reset, candidate.

    The weight [size, 3 * size] multiplies the previous state. The new state is (1 - u) * h + u * c,
    or with `origin_mode` u * h + (1 - u) * c. Paddle: gru_unit.
    """

    name = "pd.gru_unit"
    input = operand_def(TENSOR)
    hidden_prev = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    gate = result_def(TENSOR)
    reset_hidden_prev = result_def(TENSOR)
    hidden = result_def(TENSOR)
    activation = integer(2)
    gate_activation = integer(1)
    origin_mode = flag(False)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        input: Tensor,
        hidden_prev: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        activation: int,
        gate_activation: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        same_dtype(input, hidden_prev, weight, *([] if bias is None else [bias]))
        for name, value in (("activation", activation), ("gate_activation", gate_activation)):
            if not 0 <= value < len(ACTIVATIONS):
                raise ProgramError(f"{name} {value} is none of {dict(enumerate(ACTIVATIONS))}")
        expect("hidden_prev [batch, size] of gru_unit", hidden_prev, [UNKNOWN, UNKNOWN])
        batch, size = shape_of(hidden_prev)
        size = shape_of(weight)[0] if size == UNKNOWN and shape_of(weight) else size
        three = UNKNOWN if size == UNKNOWN else 3 * size
        expect("input [batch, 3 * size] of gru_unit", input, [batch, three])
        expect("weight [size, 3 * size] of gru_unit", weight, [size, three])
        if bias is not None:
            expect("bias [1, 3 * size] of gru_unit", bias, [1, three])
        state = like(hidden_prev, shape=(batch, size))
        return like(input, shape=(batch, three)), state, state


@irdl_op_definition
class LstmUnit(OpaqueOp):
    """One step of an LSTM for projected inputs [batch, 4 * size]: input, forget, output, candidate.

    `forget_bias` is added to the forget gate. Paddle: lstm_unit.
    """

    name = "pd.lstm_unit"
    x = operand_def(TENSOR)
    c_prev = operand_def(TENSOR)
    c = result_def(TENSOR)
    h = result_def(TENSOR)
    forget_bias = number(0.0)

    @staticmethod
    def infer(x: Tensor, c_prev: Tensor) -> tuple[Tensor, Tensor]:
        same_dtype(x, c_prev)
        expect("c_prev [batch, size] of lstm_unit", c_prev, [UNKNOWN, UNKNOWN])
        batch, size = shape_of(c_prev)
        expect("x [batch, 4 * size] of lstm_unit", x, [batch, UNKNOWN if size < 0 else 4 * size])
        return c_prev, c_prev


def _check_gates(x: Tensor, lengths: Tensor, weight: Tensor, gates: int, *names: str) -> Tensor:
    """Check the operands of a gated layer; return the type of the hidden states."""
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
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    h0 = opt_operand_def(TENSOR)
    c0 = opt_operand_def(TENSOR)
    hidden = result_def(TENSOR)
    cell = result_def(TENSOR)
    is_reverse = flag(False)
    use_peepholes = flag(True)
    gate_activation = string("sigmoid", of=ACTIVATIONS)
    cell_activation = string("tanh", of=ACTIVATIONS)
    candidate_activation = string("tanh", of=ACTIVATIONS)

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
        if bias is None or shape_of(bias)[-1:] != (size,):
            raise ProgramError(f"lstm needs a bias of {size} numbers, found {bias and show(bias)}")
        return out, out


@irdl_op_definition
class SequenceLstmp(OpaqueOp):
    """As SequenceLstm, with hidden states projected by [d, p] to the p numbers that the gates read.

    Cells and projections are clipped where their clip is above 0. Paddle: lstmp.
    """

    name = "pd.sequence_lstmp"
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    proj_weight = operand_def(TENSOR)
    bias = operand_def(TENSOR)
    h0 = opt_operand_def(TENSOR)
    c0 = opt_operand_def(TENSOR)
    projection = result_def(TENSOR)
    cell = result_def(TENSOR)
    is_reverse = flag(False)
    use_peepholes = flag(True)
    gate_activation = string("sigmoid", of=ACTIVATIONS)
    cell_activation = string("tanh", of=ACTIVATIONS)
    candidate_activation = string("tanh", of=ACTIVATIONS)
    proj_activation = string("tanh", of=ACTIVATIONS)
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
        if shape_of(bias)[-1:] != (size * (7 if use_peepholes else 4),):
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
    x = operand_def(TENSOR)
    lengths = operand_def(TENSOR)
    weight = operand_def(TENSOR)
    bias = opt_operand_def(TENSOR)
    h0 = opt_operand_def(TENSOR)
    hidden = result_def(TENSOR)
    is_reverse = flag(False)
    gate_activation = string("sigmoid", of=ACTIVATIONS)
    activation = string("tanh", of=ACTIVATIONS)
    origin_mode = flag(False)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(
        x: Tensor, lengths: Tensor, weight: Tensor, gate_activation: str, activation: str
    ) -> Tensor:
        return _check_gates(x, lengths, weight, 3, gate_activation, activation)
