"""Recurrent networks over padded sequences, as one operator for each layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.sequence import recurrent as ops
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value, sizes_of
from graphopt.models.export.onnx.registry import exports

# the gates of Paddle in the order of ONNX
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
        raise NotInOnnx("it has no steps or no sequences")
    if proj_size:
        raise NotInOnnx("its hidden states are projected")
    if dropout_prob and not is_test and num_layers > 1:
        raise NotInOnnx("it drops elements in training")
    if sequence_length is not None and not zero_padding:
        raise NotInOnnx("it goes on in the padding")
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
            _joined(
                emit, [_ordered(emit, weight_list[2 * i + part], mode, hidden_size) for i in at]
            )
            for part in (0, 1)
        )
        biases = [
            emit(
                "Concat",
                *(
                    _ordered(emit, weight_list[2 * (scans + i) + part], mode, hidden_size)
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
            *(out, weights, recurrent, _joined(emit, biases), lengths, *states),
            dtypes=[None] * (1 + len(states)),
            **attrs,
        )
        # [time, directions, batch, hidden] with the directions side by side
        out = emit.reshape(emit.transpose(every, (0, 2, 1, 3)), [0, 0, directions * hidden_size])
        ends.append(last)
    finals = [
        parts[0] if num_layers == 1 else emit("Concat", *parts, axis=0)
        for parts in zip(*ends, strict=True)
    ]
    return out, *finals


def _ordered(emit: Nodes, weight: Value, mode: str, size: int) -> Value:
    """The rows of the gates in the order of ONNX."""
    order = ORDER[mode]
    if len(order) == 1:
        return weight
    rows = [np.arange(gate * size, (gate + 1) * size) for gate in order]
    return emit("Gather", weight, emit.ints(np.concatenate(rows).tolist()), axis=0)


def _joined(emit: Nodes, values: Sequence[Value]) -> Value:
    """One value for each direction, along a new first axis."""
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
