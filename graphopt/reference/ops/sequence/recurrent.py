"""Recurrent networks, step by step: padded sequences, or all sequences in rows that go on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.sequence import recurrent as ops
from graphopt.reference.derivatives import hold, place
from graphopt.reference.ops.activation import between, logistic
from graphopt.reference.ops.random import drop_elements
from graphopt.reference.ops.sequence.rows import rows_of
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda x: x,
    "sigmoid": logistic,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
}


def _parts(x: Array, count: int) -> list[Array]:
    """Split the last axis into parts of one size."""
    size = x.shape[-1] // count
    return [x[..., at * size : (at + 1) * size] for at in range(count)]


def _lstm(own: Array, hidden: Array, states: Sequence[Array]) -> tuple[Array, ...]:
    into, forget, candidate, out = _parts(own + hidden, 4)
    cell = logistic(forget) * states[1] + logistic(into) * np.tanh(candidate)
    return logistic(out) * np.tanh(cell), cell


def _gru(own: Array, hidden: Array, states: Sequence[Array]) -> tuple[Array, ...]:
    (own_reset, own_update, own_new), (reset, update, new) = _parts(own, 3), _parts(hidden, 3)
    candidate = np.tanh(own_new + logistic(own_reset + reset) * new)
    update = logistic(own_update + update)
    return ((states[0] - candidate) * update + candidate,)


CELLS: dict[str, Callable[[Array, Array, Sequence[Array]], tuple[Array, ...]]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN_TANH": lambda own, hidden, states: (np.tanh(own + hidden),),
    "RNN_RELU": lambda own, hidden, states: (np.maximum(own + hidden, 0.0),),
}


@rule(ops.Rnn)
def rnn(
    x: Array,
    pre_state: tuple[Array, ...],
    weight_list: tuple[Array, ...],
    sequence_length: Array | None,
    dropout_prob: float,
    is_bidirec: bool,
    num_layers: int,
    mode: str,
    is_test: bool,
    zero_padding: bool,
    is_reverse: bool,
    draw: Any,
) -> tuple[Array, ...]:
    directions = 2 if is_bidirec else 1
    count = num_layers * directions
    weights, biases = weight_list[: 2 * count], weight_list[2 * count : 4 * count]
    live = None
    if sequence_length is not None:
        live = np.arange(x.shape[0])[:, None, None] < sequence_length[:, None]
    final: list[Sequence[Array]] = []
    for layer in range(num_layers):
        if layer and dropout_prob and not is_test:
            x = drop_elements(x, dropout_prob, False, "upscale_in_train", draw())
        sides: list[Array] = []
        for at in range(layer * directions, (layer + 1) * directions):
            pairs = [*weights[2 * at : 2 * at + 2], *biases[2 * at : 2 * at + 2]]
            pairs += weight_list[4 * count + at :][:1]  # the projection, if any
            states = [state[at] for state in pre_state]
            backwards = is_reverse or at % directions == 1
            out, states = _direction(mode, x, states, pairs, live, backwards, zero_padding)
            sides.append(out)
            final.append(states)
        x = np.concatenate(sides, -1)
    return x, *(np.stack(states) for states in zip(*final, strict=True))


def _direction(
    mode: str,
    x: Array,
    states: Sequence[Array],
    weights: Sequence[Array],
    live: Array | None,
    backwards: bool,
    zero_padding: bool,
) -> tuple[Array, Sequence[Array]]:
    """Compute the outputs [time, batch, size] and final states of a layer in one direction."""
    weight, recurrent, bias, recurrent_bias, *projection = weights
    time, batch, width = x.shape
    flat = np.matmul(np.reshape(x, (time * batch, width)), np.swapaxes(weight, 0, 1))
    own = np.reshape(flat + bias, (time, batch, weight.shape[0]))
    recurrent = np.swapaxes(recurrent, 0, 1)
    outs: list[Array] = []
    for step in reversed(range(time)) if backwards else range(time):
        hidden = np.matmul(states[0], recurrent) + recurrent_bias
        new = CELLS[mode](own[step], hidden, states)
        if projection:
            new = np.matmul(new[0], projection[0]), *new[1:]
        out = new[0]
        if live is not None:
            new = [np.where(live[step], a, b) for a, b in zip(new, states, strict=True)]
            out = np.where(live[step], out, 0.0) if zero_padding else out
        states = new
        outs.append(out)
    if not outs:
        return np.zeros((0, *states[0].shape), x.dtype), states
    return np.stack(outs[::-1] if backwards else outs), states


# Sequences in rows ------------------------------------------------------------------------------


def _over_rows(
    x: Array,
    lengths: Array,
    backwards: bool,
    states: Sequence[Array],
    cell: Callable[..., tuple[Array, ...]],
) -> list[Array]:
    """Compute the states of a cell after each row, 0 at rows of no sequence.

    A step computes the cell for one row of each sequence that has as many rows.
    """
    rows = rows_of(lengths)
    order = sorted(range(len(rows)), key=lambda number: -len(rows[number]))
    falling = [rows[number][::-1] if backwards else rows[number] for number in order]
    states = [np.take(state, np.array(order, np.int64), 0) for state in states]
    found, places = [[state[:0]] for state in states], []
    for step in range(len(falling[0]) if falling else 0):
        own = [sequence[step] for sequence in falling if len(sequence) > step]
        states = cell(np.take(x, np.array(own), 0), *(state[: len(own)] for state in states))
        for parts, state in zip(found, states, strict=True):
            parts.append(state)
        places += own
    at = np.array(places, np.int64)
    joined = [np.concatenate(parts) for parts in found]
    return [place(state, at, (x.shape[0], *state.shape[1:])) for state in joined]


def _first(given: Array | None, x: Array, lengths: Array, size: int) -> Array:
    """Return the state before the first step of each sequence, zeros by default."""
    return np.zeros((lengths.shape[0], size), x.dtype) if given is None else given


def _gates(
    row: Array,
    before: Array,
    cell: Array,
    weight: Array,
    bias: Array,
    use_peepholes: bool,
    names: Sequence[str],
    clip: float = 0.0,
) -> tuple[Array, Array]:
    """Compute the hidden state and the cell after one step; `before` is the input of the gates.

    `names` are the activations of gates, candidate and output.
    """
    gate, candidate, output = (ACTIVATIONS[name] for name in names)
    size = weight.shape[1] // 4
    bias = np.reshape(bias, (-1,))
    new, into, forget, out = _parts(row + np.matmul(before, weight) + bias[: 4 * size], 4)
    seen = _parts(bias[4 * size :], 3) if use_peepholes else []
    if seen:
        into, forget = into + seen[0] * cell, forget + seen[1] * cell
    cell = candidate(new) * gate(into) + cell * gate(forget)
    if clip > 0:
        cell = between(cell, -clip, clip)
    if seen:
        out = out + seen[2] * cell
    return gate(out) * output(cell), cell


@rule(ops.SequenceLstm)
def sequence_lstm(
    x: Array,
    lengths: Array,
    weight: Array,
    bias: Array,
    h0: Array | None,
    c0: Array | None,
    is_reverse: bool,
    use_peepholes: bool,
    gate_activation: str,
    cell_activation: str,
    candidate_activation: str,
) -> tuple[Array, ...]:
    names = gate_activation, candidate_activation, cell_activation

    def step(row: Array, hidden: Array, cell: Array) -> tuple[Array, ...]:
        return _gates(row, hidden, cell, weight, bias, use_peepholes, names)

    size = weight.shape[0]
    states = [_first(h0, x, lengths, size), _first(c0, x, lengths, size)]
    hidden, cell = _over_rows(x, lengths, is_reverse, states, step)
    return hidden, hold(cell)  # Paddle's derivative ignores the cells


@rule(ops.SequenceLstmp)
def sequence_lstmp(
    x: Array,
    lengths: Array,
    weight: Array,
    proj_weight: Array,
    bias: Array,
    h0: Array | None,
    c0: Array | None,
    is_reverse: bool,
    use_peepholes: bool,
    gate_activation: str,
    cell_activation: str,
    candidate_activation: str,
    proj_activation: str,
    cell_clip: float,
    proj_clip: float,
) -> tuple[Array, ...]:
    names = gate_activation, candidate_activation, cell_activation

    def step(row: Array, before: Array, cell: Array) -> tuple[Array, ...]:
        hidden, cell = _gates(row, before, cell, weight, bias, use_peepholes, names, cell_clip)
        projected = ACTIVATIONS[proj_activation](np.matmul(hidden, proj_weight))
        if proj_clip > 0:
            projected = between(projected, -proj_clip, proj_clip)
        return projected, cell

    size, projected = proj_weight.shape
    states = [_first(h0, x, lengths, projected), _first(c0, x, lengths, size)]
    projection, cell = _over_rows(x, lengths, is_reverse, states, step)
    return projection, hold(cell)


def _gru_step(
    row: Array,
    hidden: Array,
    weight: Array,
    gate_activation: str,
    activation: str,
    origin_mode: bool,
) -> tuple[Array, Array, Array]:
    """Compute the gates, the reset state and the new state.

    The weight is stored as a matrix for both gates, then one for the candidate.
    """
    size = hidden.shape[1]
    flat = np.reshape(weight, (-1,))
    both = np.reshape(flat[: 2 * size * size], (size, 2 * size))
    last = np.reshape(flat[2 * size * size :], (size, size))
    gates = ACTIVATIONS[gate_activation](row[:, : 2 * size] + np.matmul(hidden, both))
    update, reset = _parts(gates, 2)
    kept = reset * hidden
    candidate = ACTIVATIONS[activation](row[:, 2 * size :] + np.matmul(kept, last))
    share = 1.0 - update if origin_mode else update
    return np.concatenate([gates, candidate], 1), kept, share * (candidate - hidden) + hidden


@rule(ops.SequenceGru)
def sequence_gru(
    x: Array,
    lengths: Array,
    weight: Array,
    bias: Array | None,
    h0: Array | None,
    is_reverse: bool,
    gate_activation: str,
    activation: str,
    origin_mode: bool,
) -> Array:
    x = x if bias is None else x + np.reshape(bias, (1, -1))

    def step(row: Array, hidden: Array) -> tuple[Array]:
        return (_gru_step(row, hidden, weight, gate_activation, activation, origin_mode)[2],)

    states = [_first(h0, x, lengths, weight.shape[0])]
    return _over_rows(x, lengths, is_reverse, states, step)[0]


# Single steps -----------------------------------------------------------------------------------


@rule(ops.GruUnit)
def gru_unit(
    input: Array,
    hidden_prev: Array,
    weight: Array,
    bias: Array | None,
    activation: int,
    gate_activation: int,
    origin_mode: bool,
) -> tuple[Array, Array, Array]:
    gate, new = ops.ACTIVATIONS[gate_activation], ops.ACTIVATIONS[activation]
    row = input if bias is None else input + bias
    return _gru_step(row, hidden_prev, weight, gate, new, origin_mode)


@rule(ops.LstmUnit)
def lstm_unit(x: Array, c_prev: Array, forget_bias: float) -> tuple[Array, Array]:
    into, forget, out, candidate = _parts(x, 4)
    cell = logistic(forget + forget_bias) * c_prev + logistic(into) * np.tanh(candidate)
    return cell, logistic(out) * np.tanh(cell)
