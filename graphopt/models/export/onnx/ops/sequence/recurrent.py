"""Recurrent networks over padded sequences, as one operator for each layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.sequence import recurrent as ops
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.models.export.onnx.loops import Values, scan
from graphopt.models.export.onnx.nodes import LAST, Nodes, NotInOnnx, Value, sizes_of
from graphopt.models.export.onnx.ops.sequence.layers import (
    check_rows,
    each,
    ends_of,
    owners_of,
    starts_of,
)
from graphopt.models.export.onnx.registry import exports

# Paddle's gates in ONNX's order
ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN_TANH": (0,), "RNN_RELU": (0,)}


@exports(ops.Rnn, wide=True)
def rnn(
    emit: Nodes,
    x: Value,
    pre_state: Sequence[Value],
    weight_list: Sequence[Value],
    sequence_length: Value | None,
    dropout_prob: float,
    is_bidirec: bool,
    hidden_size: int,
    num_layers: int,
    mode: str,
    is_test: bool,
    zero_padding: bool,
    is_reverse: bool,
    proj_size: int,
) -> tuple[Value, ...]:
    if 0 in sizes_of(x):
        raise NotInOnnx("the number of steps or of sequences is 0")
    if proj_size:
        raise NotInOnnx("the hidden states are projected (proj_size)")
    if dropout_prob and not is_test and num_layers > 1:
        raise NotInOnnx("the operator is in training mode, with dropout")
    if sequence_length is not None and not zero_padding:
        raise NotInOnnx("the recurrence continues through the padding (zero_padding is False)")
    directions = 2 if is_bidirec else 1
    scans = num_layers * directions
    attrs: dict[str, Any] = {"hidden_size": hidden_size}
    attrs["direction"] = "bidirectional" if is_bidirec else "reverse" if is_reverse else "forward"
    if mode == "GRU":
        attrs["linear_before_reset"] = 1
    if mode.startswith("RNN"):
        attrs["activations"] = [{"RNN_TANH": "Tanh", "RNN_RELU": "Relu"}[mode]] * directions
    lengths = None if sequence_length is None else emit.cast(sequence_length, "int32")
    out, ends = x, list[Sequence[Value]]()
    for layer in range(num_layers):
        at = range(layer * directions, (layer + 1) * directions)
        weights, recurrent = (
            _join_directions(
                emit,
                [_reorder_gates(emit, weight_list[2 * i + part], mode, hidden_size) for i in at],
            )
            for part in (0, 1)
        )
        biases = [
            emit(
                "Concat",
                *(
                    _reorder_gates(emit, weight_list[2 * (scans + i) + part], mode, hidden_size)
                    for part in (0, 1)
                ),
                axis=0,
            )
            for i in at
        ]
        states = [emit.cut(state, [0], [at.start], [at.stop]) for state in pre_state]
        states = pre_state if num_layers == 1 else states
        every, *last = emit.all(
            mode.partition("_")[0],
            *(out, weights, recurrent, _join_directions(emit, biases), lengths, *states),
            dtypes=[None] * (1 + len(states)),
            **attrs,
        )
        # [time, directions, batch, hidden] with the directions side by side
        if directions == 1:
            out = emit.squeeze(every, 1)
        else:
            out = emit.reshape(emit.transpose(every, (0, 2, 1, 3)), [0, 0, 2 * hidden_size])
        ends.append(last)
    finals = [
        parts[0] if num_layers == 1 else emit("Concat", *parts, axis=0)
        for parts in zip(*ends, strict=True)
    ]
    return out, *finals


def _reorder_gates(emit: Nodes, weight: Value, mode: str, size: int) -> Value:
    """Reorder the rows of the gates to ONNX's order."""
    order = ORDER[mode]
    if len(order) == 1:
        return weight
    rows = [np.arange(gate * size, (gate + 1) * size) for gate in order]
    return emit("Gather", weight, emit.ints(np.concatenate(rows).tolist()), axis=0)


def _join_directions(emit: Nodes, values: Sequence[Value]) -> Value:
    """Stack the values of all directions along a new first axis."""
    parts = [emit.unsqueeze(value, 0) for value in values]
    return parts[0] if len(parts) == 1 else emit("Concat", *parts, axis=0)


@exports(ops.LstmUnit, wide=True)
def lstm_unit(emit: Nodes, x: Value, c_prev: Value, forget_bias: float) -> tuple[Value, Value]:
    dtypes = [None] * 4
    enter, forget, leave, new = emit.all("Split", x, dtypes=dtypes, axis=1, num_outputs=4)
    kept = emit("Sigmoid", emit("Add", forget, emit.number(forget_bias, x)))
    added = emit("Mul", emit("Sigmoid", enter), emit("Tanh", new))
    cell = emit("Add", emit("Mul", kept, c_prev), added)
    return cell, emit("Mul", emit("Sigmoid", leave), emit("Tanh", cell))


def _activate(emit: Nodes, name: str, x: Value) -> Value:
    """Apply one of the gate activations of the old units."""
    return x if name == "identity" else emit(name.capitalize(), x)


def _halves(emit: Nodes, weight: Value, size: int) -> tuple[Value, Value]:
    """Split a weight into the gates' matrix and the candidate's, stored one after the other."""
    flat = emit.reshape(weight, [-1])
    gates = emit.cut(flat, [0], [0], [2 * size * size])
    rest = emit.cut(flat, [0], [2 * size * size], [LAST])
    return emit.reshape(gates, [size, 2 * size]), emit.reshape(rest, [size, size])


def _gru_step(
    emit: Nodes,
    projected: Value,
    hidden: Value,
    weights: tuple[Value, Value],
    size: int,
    names: tuple[str, str],
    origin_mode: bool,
) -> tuple[Value, Value, Value]:
    """Compute a GRU step: the gates with the candidate, the reset and the new hidden state."""
    first = emit.cut(projected, [-1], [0], [2 * size])
    gates = _activate(emit, names[0], emit("Add", first, emit("MatMul", hidden, weights[0])))
    update, reset = (emit.cut(gates, [-1], [at * size], [(at + 1) * size]) for at in (0, 1))
    kept = emit("Mul", reset, hidden)
    last = emit.cut(projected, [-1], [2 * size], [LAST])
    candidate = _activate(emit, names[1], emit("Add", last, emit("MatMul", kept, weights[1])))
    share = emit("Sub", emit.number(1, update), update) if origin_mode else update
    new = emit("Add", emit("Mul", share, emit("Sub", candidate, hidden)), hidden)
    return emit("Concat", gates, candidate, axis=-1), kept, new


@exports(ops.GruUnit, wide=True)
def gru_unit(
    emit: Nodes,
    input: Value,
    hidden_prev: Value,
    weight: Value,
    bias: Value | None,
    activation: int,
    gate_activation: int,
    origin_mode: bool,
) -> tuple[Value, Value, Value]:
    size = _known_size(weight)
    names = ops.ACTIVATIONS[gate_activation], ops.ACTIVATIONS[activation]
    inputs = input if bias is None else emit("Add", input, bias)
    weights = _halves(emit, weight, size)
    return _gru_step(emit, inputs, hidden_prev, weights, size, names, origin_mode)


def _known_size(weight: Value) -> int:
    size = sizes_of(weight)[0]
    if size == UNKNOWN:
        raise NotInOnnx("the size of the states is open")
    return size


def _along_rows(
    emit: Nodes,
    gates: Value,
    lengths: Value,
    initial: Sequence[Value | None],
    sizes: Sequence[int],
    step: Callable[[Nodes, Sequence[Value], Value], Sequence[Value]],
    is_reverse: bool,
) -> Sequence[Value]:
    """Scan over rows and return the states [rows, size]; sequences start at `initial`, or at 0."""
    check_rows(gates)
    owners = owners_of(emit, lengths, gates)
    last = emit("Sub", ends_of(emit, lengths), emit.number(1, "int64"))
    begin = last if is_reverse else starts_of(emit, lengths)
    first = emit("Equal", emit.places(gates), each(emit, begin, owners))
    zeros = [emit.zeros(emit.ints([1, size]), gates) for size in sizes]
    given = [each(emit, state, owners) for state in initial if state is not None]

    def body(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
        gate, is_first, *starts = items
        own = iter(starts)
        before = [
            inner("Where", is_first, zero if state is None else inner.unsqueeze(next(own), 0), was)
            for state, zero, was in zip(initial, zeros, states, strict=True)
        ]
        new = step(inner, before, inner.unsqueeze(gate, 0))
        return new, [inner.squeeze(state, 0) for state in new]

    _, found = scan(emit, zeros, [gates, first, *given], body, is_reverse)
    return found


@exports(ops.SequenceGru, wide=True)
def sequence_gru(
    emit: Nodes,
    x: Value,
    lengths: Value,
    weight: Value,
    bias: Value | None,
    h0: Value | None,
    is_reverse: bool,
    gate_activation: str,
    activation: str,
    origin_mode: bool,
) -> Value:
    size = _known_size(weight)
    weights, names = _halves(emit, weight, size), (gate_activation, activation)
    gates = _with_bias(emit, x, bias)

    def step(inner: Nodes, states: Sequence[Value], gate: Value) -> Sequence[Value]:
        (hidden,) = states
        return [_gru_step(inner, gate, hidden, weights, size, names, origin_mode)[2]]

    (hidden,) = _along_rows(emit, gates, lengths, [h0], [size], step, is_reverse)
    return hidden


def _with_bias(emit: Nodes, x: Value, bias: Value | None) -> Value:
    if bias is None:
        return x
    gates = emit("Add", x, emit.reshape(bias, [-1]))
    gates.shape = x.shape
    return gates


@exports(ops.SequenceLstm, wide=True)
def sequence_lstm(
    emit: Nodes,
    x: Value,
    lengths: Value,
    weight: Value,
    bias: Value,
    h0: Value | None,
    c0: Value | None,
    is_reverse: bool,
    use_peepholes: bool,
    gate_activation: str,
    cell_activation: str,
    candidate_activation: str,
) -> tuple[Value, Value]:
    return sequence_lstmp(
        *(emit, x, lengths, weight, None, bias, h0, c0, is_reverse, use_peepholes),
        *(gate_activation, cell_activation, candidate_activation, "identity", 0, 0),
    )


@exports(ops.SequenceLstmp, wide=True)
def sequence_lstmp(
    emit: Nodes,
    x: Value,
    lengths: Value,
    weight: Value,
    proj_weight: Value | None,
    bias: Value,
    h0: Value | None,
    c0: Value | None,
    is_reverse: bool,
    use_peepholes: bool,
    gate_activation: str,
    cell_activation: str,
    candidate_activation: str,
    proj_activation: str,
    cell_clip: float,
    proj_clip: float,
) -> tuple[Value, Value]:
    rows, wide = sizes_of(weight)
    if UNKNOWN in (rows, wide):
        raise NotInOnnx("the size of the states is open")
    size, numbers = wide // 4, emit.reshape(bias, [-1])
    checks = [
        emit.cut(numbers, [0], [(4 + at) * size], [(5 + at) * size]) if use_peepholes else None
        for at in range(3)
    ]
    gates = _with_bias(emit, x, emit.cut(numbers, [0], [0], [4 * size]))

    def look_at_cell(inner: Nodes, gate: Value, cell: Value, at: int) -> Value:
        check = checks[at]
        seen = gate if check is None else inner("Add", gate, inner("Mul", cell, check))
        return _activate(inner, gate_activation, seen)

    def clip(inner: Nodes, value: Value, limit: float) -> Value:
        if limit <= 0:
            return value
        return inner("Clip", value, inner.number(-limit, value), inner.number(limit, value))

    def step(inner: Nodes, states: Sequence[Value], gate: Value) -> Sequence[Value]:
        hidden, cell = states
        every = inner("Add", gate, inner("MatMul", hidden, weight))
        dtypes = [None] * 4
        new, enter, forget, leave = inner.all("Split", every, dtypes=dtypes, axis=1, num_outputs=4)
        enter, forget = look_at_cell(inner, enter, cell, 0), look_at_cell(inner, forget, cell, 1)
        added = inner("Mul", _activate(inner, candidate_activation, new), enter)
        cell = inner("Add", added, inner("Mul", cell, forget))
        cell = clip(inner, cell, cell_clip)
        leave = look_at_cell(inner, leave, cell, 2)
        hidden = inner("Mul", leave, _activate(inner, cell_activation, cell))
        if proj_weight is not None:
            hidden = _activate(inner, proj_activation, inner("MatMul", hidden, proj_weight))
            hidden = clip(inner, hidden, proj_clip)
        return hidden, cell

    hidden, cell = _along_rows(emit, gates, lengths, [h0, c0], [rows, size], step, is_reverse)
    return hidden, cell
