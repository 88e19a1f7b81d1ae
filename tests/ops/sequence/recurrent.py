"""Samples of the recurrent ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops.sequence import recurrent as ops
from graphopt_tests.ops.base import Array, Sample, bf16, f32, f64, i32, i64, sample
from graphopt_tests.ops.sequence.layers import LENGTHS, parts


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def lstm_step(x: Array, states: list[Array], wi: Array, wh: Array, bi: Array, bh: Array) -> Any:
    i, f, g, o = np.split(x @ wi.T + bi + states[0] @ wh.T + bh, 4, -1)
    cell = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(g)
    return [sigmoid(o) * np.tanh(cell), cell]


def gru_step(x: Array, states: list[Array], wi: Array, wh: Array, bi: Array, bh: Array) -> Any:
    x_r, x_z, x_c = np.split(x @ wi.T + bi, 3, -1)
    h_r, h_z, h_c = np.split(states[0] @ wh.T + bh, 3, -1)
    candidate = np.tanh(x_c + sigmoid(x_r + h_r) * h_c)
    update = sigmoid(x_z + h_z)
    return [update * states[0] + (1 - update) * candidate]


def tanh_step(x: Array, states: list[Array], wi: Array, wh: Array, bi: Array, bh: Array) -> Any:
    return [np.tanh(x @ wi.T + bi + states[0] @ wh.T + bh)]


def relu_step(x: Array, states: list[Array], wi: Array, wh: Array, bi: Array, bh: Array) -> Any:
    return [np.maximum(x @ wi.T + bi + states[0] @ wh.T + bh, 0)]


STEPS = {"LSTM": lstm_step, "GRU": gru_step, "RNN_TANH": tanh_step, "RNN_RELU": relu_step}


def reference(
    mode: str, layers: int, directions: int, zero_padding: bool = True, backwards: bool = False
) -> Any:
    """Compute all layers and directions, one sequence and one step at a time."""

    def run(x: Array, pre: list[Array], weights: list[Array], lengths: Array | None) -> Any:
        time, batch, _ = x.shape
        cells = layers * directions
        final = [np.array(state) for state in pre]
        for layer in range(layers):
            sides = []
            for at in range(layer * directions, (layer + 1) * directions):
                parts = weights[2 * at : 2 * at + 2] + weights[2 * (cells + at) :][:2]
                out = np.zeros((time, batch, final[0].shape[-1]))
                for row in range(batch):
                    states = [state[at, row] for state in pre]
                    order = range(time)
                    for step in reversed(order) if backwards or at % directions else order:
                        new = STEPS[mode](x[step, row], states, *parts)
                        new = (
                            [new[0] @ weights[4 * cells + at], *new[1:]]
                            if _projects(weights, cells)
                            else new
                        )
                        live = lengths is None or step < lengths[row]
                        states = new if live else states
                        out[step, row] = new[0] if live or not zero_padding else 0
                    for held, state in zip(final, states, strict=True):
                        held[at, row] = state
                sides.append(out)
            x = np.concatenate(sides, -1)
        return x, *final

    return run


def _projects(weights: list[Array], cells: int) -> bool:
    return len(weights) > 4 * cells


def rnn(
    mode: str,
    time: int = 3,
    batch: int = 2,
    layers: int = 1,
    both: bool = False,
    lengths: Array | None = None,
    make: Any = f32,
    proj_size: int = 0,
    **attrs: Any,
) -> Sample:
    """Make a sample with inputs of size 2 and states of size 3."""
    directions = 2 if both else 1
    shapes = ops.weight_shapes(mode, 2, 3, layers, directions, proj_size)
    sizes = [proj_size or 3, 3] if mode == "LSTM" else [3]
    states = [make(layers * directions, batch, size) for size in sizes]
    options = {"num_layers": layers, "is_bidirec": both, "proj_size": proj_size, **attrs}
    weights = [make(*shape) for shape in shapes]
    case = sample(
        make(time, batch, 2),
        states,
        weights,
        lengths,
        mode=mode,
        input_size=2,
        hidden_size=3,
        **options,
    )
    if attrs.get("dropout_prob"):
        return case
    backwards = attrs.get("is_reverse", False)
    run = reference(mode, layers, directions, attrs.get("zero_padding", True), backwards)
    return case.gives(lambda x, pre, weights, lengths: run(x, pre, weights, lengths))


def gru_unit(origin: bool, bias: bool) -> Any:
    def run(x: Array, h: Array, w: Array, *b: Any) -> Any:
        size = h.shape[1]
        x = x + b[0] if bias else x
        flat = w.reshape(-1)
        gates = sigmoid(x[:, : 2 * size] + h @ flat[: 2 * size**2].reshape(size, -1))
        u, r = gates[:, :size], gates[:, size:]
        c = np.tanh(x[:, 2 * size :] + (r * h) @ flat[2 * size**2 :].reshape(size, size))
        new = u * h + (1 - u) * c if origin else (1 - u) * h + u * c
        return np.concatenate([gates, c], 1), r * h, new

    return run


def lstm_unit(x: Array, c: Array, forget_bias: float = 0.0) -> Any:
    i, f, o, g = np.split(x, 4, 1)
    cell = sigmoid(f + forget_bias) * c + sigmoid(i) * np.tanh(g)
    return cell, sigmoid(o) * np.tanh(cell)


def lstm(x: Array, lengths: Array, weight: Array, bias: Array, *_: Any) -> tuple[Array, Array]:
    """Compute an LSTM without peepholes, sequence by sequence."""
    rows: list[tuple[Array, Array]] = []
    for part in parts(x):
        h, c = np.zeros(2), np.zeros(2)
        for row in part:
            candidate, into, keep, out = np.split(row + h @ weight + bias[0], 4)
            c = np.tanh(candidate) * sigmoid(into) + c * sigmoid(keep)
            h = sigmoid(out) * np.tanh(c)
            rows.append((h, c))
    return np.stack([h for h, _ in rows]), np.stack([c for _, c in rows])


def lstmp(
    x: Array, lengths: Array, weight: Array, projection: Array, bias: Array, *_: Any
) -> tuple[Array, Array]:
    """Compute an LSTM with a projection, without peepholes, sequence by sequence."""
    rows: list[tuple[Array, Array]] = []
    for part in parts(x):
        h, c = np.zeros(2), np.zeros(2)
        for row in part:
            candidate, into, keep, out = np.split(row + h @ weight + bias[0], 4)
            c = np.tanh(candidate) * sigmoid(into) + c * sigmoid(keep)
            h = np.tanh(sigmoid(out) * np.tanh(c) @ projection)
            rows.append((h, c))
    return np.stack([h for h, _ in rows]), np.stack([c for _, c in rows])


def gru(x: Array, lengths: Array, weight: Array, bias: Array, h0: Array) -> Array:
    """Compute a GRU backwards, from initial states."""
    gates, candidates = weight.reshape(-1)[:8].reshape(2, 4), weight.reshape(-1)[8:].reshape(2, 2)
    found: list[Array] = []
    for part, h in zip(parts(x), h0, strict=True):
        states: list[Array] = []
        for row in part[::-1]:
            update, reset = np.split(sigmoid(row[:4] + bias[0, :4] + h @ gates), 2)
            new = np.tanh(row[4:] + bias[0, 4:] + (reset * h) @ candidates)
            h = (1 - update) * h + update * new
            states.append(h)
        found += states[::-1]
    return np.stack(found)


SAMPLES = {
    ops.Rnn: [
        rnn("LSTM"),
        rnn("GRU", make=f64, lengths=i64([2, 3])),
        rnn("RNN_TANH", make=f64, layers=2, both=True, lengths=i32([3, 1])),
        rnn("RNN_RELU", layers=2),
        rnn("LSTM", make=f64, layers=2, both=True, lengths=i64([1, 2])),
        rnn("LSTM", make=f64, proj_size=2, layers=2, both=True),
        rnn("GRU", lengths=i64([0, 2]), zero_padding=False),
        rnn("LSTM", lengths=i64([1, 3]), zero_padding=False, is_reverse=True),
        rnn("GRU", layers=2, dropout_prob=0.5, seed=3),
        rnn("LSTM", layers=2, dropout_prob=1.0),
        rnn("GRU", layers=2, dropout_prob=0.0, is_test=True),
        rnn("RNN_TANH", time=0, make=bf16),
        rnn("LSTM", batch=0),
        rnn("RNN_TANH", make=f64, lengths=i64([2, 0]), zero_padding=False, both=True),
    ],
    ops.GruUnit: [
        sample(f32(2, 9), f32(2, 3), f32(3, 9), f32(1, 9)).gives(gru_unit(False, True)),
        sample(f64(2, 9), f64(2, 3), f64(3, 9), None, origin_mode=True).gives(
            gru_unit(True, False)
        ),
        sample(f32(2, 3), f32(2, 1), f32(1, 3), None, activation=3, gate_activation=0),
    ],
    ops.LstmUnit: [
        sample(f32(2, 12), f32(2, 3)).gives(lstm_unit),
        sample(f64(1, 4), f64(1, 1), forget_bias=0.5).gives(lambda x, c: lstm_unit(x, c, 0.5)),
    ],
    ops.SequenceLstm: [
        sample(f32(5, 8), i64(LENGTHS), f32(2, 8), f32(1, 8), use_peepholes=False)
        .known_sizes()
        .gradient_through(0)
        .gives(lstm),
        sample(
            f64(5, 8), i64(LENGTHS), f64(2, 8), f64(1, 14), f64(3, 2), f64(3, 2), is_reverse=True
        )
        .known_sizes()
        .gradient_through(0),
    ],
    ops.SequenceLstmp: [
        sample(f32(5, 8), i64(LENGTHS), f32(2, 8), f32(2, 2), f32(1, 8), use_peepholes=False)
        .known_sizes()
        .gradient_through(0)
        .gives(lstmp),
        sample(
            *(f64(5, 8), i64(LENGTHS), f64(3, 8), f64(2, 3), f64(1, 14), f64(3, 3), f64(3, 2)),
            is_reverse=True,
            proj_activation="identity",
        )
        .known_sizes()
        .gradient_through(0),
        sample(
            *(f64(5, 8), i64([1, 3, 0, 1]), f64(1, 8), f64(2, 1), f64(1, 14)),
            gate_activation="identity",
            cell_activation="relu",
            candidate_activation="identity",
            cell_clip=0.5,
            proj_clip=0.2,
        )
        .known_sizes()
        .kinked(),
    ],
    ops.SequenceGru: [
        sample(f32(5, 6), i64(LENGTHS), f32(2, 6), f32(1, 6), f32(3, 2), is_reverse=True)
        .known_sizes()
        .gives(gru),
        sample(
            f64(5, 6), i64(LENGTHS), f64(2, 6), origin_mode=True, activation="relu"
        ).known_sizes(),
        sample(f32(0, 3), i64([0, 0]), f32(1, 3), f32(1, 3)).known_sizes(),
        sample(f32(0, 3), i64(0), f32(1, 3), f32(1, 3), f32(0, 1)).known_sizes(),
    ],
}
