"""Recurrent networks in JAX: one loop for each layer and direction.

The inputs of all steps are multiplied by the weights at once, before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.sequence import recurrent as ops
from graphopt.lowering.hashing import fold_in
from graphopt.lowering.kernels.recurrence import Multiply, scan_products
from graphopt.lowering.ops.activation import activate
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.ops.random import draw_mask
from graphopt.lowering.ops.sequence.layers import ends_of, numbers_of
from graphopt.lowering.registry import lowers

States = tuple[Array, ...]
# (projected inputs of this step, projected hidden state, states) -> new states, output first
Cell = Callable[[Array, Array, States], States]


def _lstm(projected: Array, recurrent: Array, states: States) -> States:
    _, cell = states
    gates = projected + recurrent
    i, f, candidate, o = jnp.split(gates, 4, axis=-1)
    cell = lax.logistic(f) * cell + lax.logistic(i) * lax.tanh(candidate)
    return lax.logistic(o) * lax.tanh(cell), cell


def _gru(projected: Array, recurrent: Array, states: States) -> States:
    (hidden,) = states
    x_r, x_z, x_c = jnp.split(projected, 3, axis=-1)
    h_r, h_z, h_c = jnp.split(recurrent, 3, axis=-1)
    candidate = lax.tanh(x_c + lax.logistic(x_r + h_r) * h_c)
    return ((hidden - candidate) * lax.logistic(x_z + h_z) + candidate,)


def _plain(activation: Callable[[Array], Array]) -> Cell:
    def cell(projected: Array, recurrent: Array, _: States) -> States:
        return (activation(projected + recurrent),)

    return cell


CELLS: dict[str, Cell] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN_TANH": _plain(lax.tanh),
    "RNN_RELU": _plain(jax.nn.relu),
}


@lowers(ops.Rnn)
def rnn(
    x: Array,
    pre_state: Sequence[Array],
    weight_list: Sequence[Array],
    sequence_length: Array | None,
    dropout_prob: float,
    is_bidirec: bool,
    num_layers: int,
    mode: str,
    is_test: bool,
    zero_padding: bool,
    is_reverse: bool,
    key: Array,
) -> tuple[Array, ...]:
    directions = 2 if is_bidirec else 1
    scans = num_layers * directions
    weights = [wide(weight) for weight in weight_list]
    states = [wide(state) for state in pre_state]
    valid = None
    if sequence_length is not None:
        steps = lax.broadcasted_iota(sequence_length.dtype, (x.shape[0], x.shape[1], 1), 0)
        valid = steps < sequence_length[:, None]
    out, final = wide(x), list[States]()
    for layer in range(num_layers):
        if layer and dropout_prob and not is_test:
            out = _drop(out, dropout_prob, fold_in(key, np.uint32(layer)))
        outs: list[Array] = []
        for at in range(layer * directions, (layer + 1) * directions):
            parts = [*weights[2 * at : 2 * at + 2], *weights[2 * (scans + at) :][:2]]
            parts += weights[4 * scans + at :][:1]
            start = tuple(state[at] for state in states)
            reverse = is_reverse or at % directions == 1
            result, end = _scan(CELLS[mode], out, start, parts, valid, reverse, zero_padding)
            outs.append(result)
            final.append(end)
        out = outs[0] if directions == 1 else jnp.concatenate(outs, -1)
    ends = [jnp.stack(parts) for parts in zip(*final, strict=True)]
    return out.astype(x.dtype), *(end.astype(x.dtype) for end in ends)


def _drop(x: Array, p: float, key: Array) -> Array:
    if p == 1:
        return jnp.zeros_like(x)
    keep = draw_mask(key, 1 - p, x.shape)
    return jnp.where(keep, x / (1 - p), jnp.zeros((), x.dtype))


def _scan(
    cell: Cell,
    x: Array,
    start: States,
    parts: Sequence[Array],
    valid: Array | None,
    reverse: bool,
    zero_padding: bool,
) -> tuple[Array, States]:
    """Run one direction of one layer; return the outputs of all steps and the final states.

    Backwards, the padding comes first and leaves the initial states alone.
    """
    weight_ih, weight_hh, bias_ih, bias_hh, *projection = parts
    projected = x @ weight_ih.T + bias_ih

    def step(
        multiply: Multiply, bias: Array, states: States, now: tuple[Array, Array | None]
    ) -> tuple[States, Array]:
        inputs, live = now
        out, *others = cell(inputs, multiply(0, states[0]) + bias, states)
        for number in range(len(projection)):
            out = multiply(1 + number, out)
        new = (out, *others)
        if live is not None:
            new = tuple(jnp.where(live, n, s) for n, s in zip(new, states, strict=True))
            out = jnp.where(live, out, jnp.zeros((), out.dtype)) if zero_padding else out
        return new, out

    matrices = (weight_hh.T, *projection)
    scanned: Any = scan_products(step, matrices, bias_hh, start, (projected, valid), reverse)
    end, outs = scanned
    return outs, end


_UNIT_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda x: x,
    "sigmoid": lax.logistic,
    "tanh": lax.tanh,
    "relu": jax.nn.relu,
}


@lowers(ops.GruUnit)
def gru_unit(
    input: Array,
    hidden_prev: Array,
    weight: Array,
    bias: Array | None,
    activation: int,
    gate_activation: int,
    origin_mode: bool,
) -> tuple[Array, Array, Array]:
    hidden, inputs, size = wide(hidden_prev), wide(input), hidden_prev.shape[1]
    inputs = inputs if bias is None else inputs + wide(bias)
    squash = _UNIT_ACTIVATIONS[ops.ACTIVATIONS[gate_activation]]
    # the weight is two matrices in a row in memory, not side by side
    flat = wide(weight).reshape(-1)
    gates_weight = flat[: 2 * size * size].reshape(size, 2 * size)
    gates = squash(inputs[:, : 2 * size] + hidden @ gates_weight)
    update, reset = gates[:, :size], gates[:, size:]
    reset_hidden = reset * hidden
    candidate = inputs[:, 2 * size :] + reset_hidden @ flat[2 * size * size :].reshape(size, size)
    candidate = _UNIT_ACTIVATIONS[ops.ACTIVATIONS[activation]](candidate)
    share = 1 - update if origin_mode else update
    new = share * (candidate - hidden) + hidden
    results = (jnp.concatenate([gates, candidate], 1), reset_hidden, new)
    gate, reset_hidden, new = (result.astype(input.dtype) for result in results)
    return gate, reset_hidden, new


@lowers(ops.LstmUnit)
def lstm_unit(x: Array, c_prev: Array, forget_bias: float) -> tuple[Array, Array]:
    i, f, o, candidate = jnp.split(wide(x), 4, axis=1)
    cell = lax.logistic(f + forget_bias) * wide(c_prev) + lax.logistic(i) * lax.tanh(candidate)
    hidden = lax.logistic(o) * lax.tanh(cell)
    return cell.astype(x.dtype), hidden.astype(x.dtype)


def _activate(name: str, x: Array) -> Array:
    return x if name == "identity" else activate(name, x)


def _steps(
    x: Array,
    lengths: Array,
    initial: tuple[Array | None, ...],
    sizes: tuple[int, ...],
    is_reverse: bool,
) -> tuple[Array, Array, tuple[Array, ...]]:
    """Prepare a scan's inputs: rows, marks at each sequence's first row, and its initial states."""
    rows = x.shape[0]
    numbers = numbers_of(lengths, rows)
    ends = jnp.take(ends_of(lengths), numbers)
    own = jnp.arange(rows)
    first = own == (ends - 1 if is_reverse else ends - jnp.take(lengths, numbers))
    states = tuple(
        jnp.zeros((rows, size), x.dtype) if state is None else jnp.take(wide(state), numbers, 0)
        for state, size in zip(initial, sizes, strict=True)
    )
    return x, first, states


@lowers(ops.SequenceLstm)
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
) -> tuple[Array, Array]:
    names = gate_activation, cell_activation, candidate_activation
    hidden, cell = _lstm_step(
        x, lengths, (weight, None), bias, (h0, c0), names, is_reverse, use_peepholes
    )
    # as in Paddle, the derivative ignores the cells
    return hidden, lax.stop_gradient(cell)


@lowers(ops.SequenceLstmp)
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
) -> tuple[Array, Array]:
    names = gate_activation, cell_activation, candidate_activation

    def project(multiply: Multiply, hidden: Array) -> Array:
        return _clip(_activate(proj_activation, multiply(1, hidden)), proj_clip)

    made, cell = _lstm_step(
        *(x, lengths, (weight, proj_weight), bias, (h0, c0), names, is_reverse, use_peepholes),
        project=project,
        cell_clip=cell_clip,
    )
    return made, lax.stop_gradient(cell)


def _clip(x: Array, limit: float) -> Array:
    """Clip x to the limit; clipped elements pass no gradient on."""
    if limit <= 0:
        return x
    return jnp.where(jnp.abs(x) < limit, x, lax.stop_gradient(jnp.clip(x, -limit, limit)))


def _lstm_step(
    x: Array,
    lengths: Array,
    weights: tuple[Array, Array | None],
    bias: Array,
    initial: tuple[Array | None, Array | None],
    activations: tuple[str, str, str],
    is_reverse: bool,
    use_peepholes: bool,
    project: Callable[[Multiply, Array], Array] = lambda _, hidden: hidden,
    cell_clip: float = 0.0,
) -> tuple[Array, Array]:
    """Compute the hidden states, projected, and the cells of every row."""
    matrix, biases = wide(weights[0]), wide(bias).reshape(-1)
    size = matrix.shape[1] // 4
    of_gate, of_cell, of_candidate = activations
    checks = (
        biases[4 * size :].reshape(3, size) if use_peepholes else np.zeros((3, 1), matrix.dtype)
    )
    gates = wide(x) + biases[: 4 * size]

    def step(
        multiply: Multiply, checks: Array, before: States, row: tuple[Array, Array, States]
    ) -> tuple[States, States]:
        gate, first, (start_h, start_c) = row
        h, c = jnp.where(first, start_h, before[0]), jnp.where(first, start_c, before[1])
        candidate, into, keep, out = jnp.split(gate + multiply(0, h), 4)
        into = _activate(of_gate, into + c * checks[0])
        keep = _activate(of_gate, keep + c * checks[1])
        cell = _clip(_activate(of_candidate, candidate) * into + c * keep, cell_clip)
        out = _activate(of_gate, out + cell * checks[2])
        hidden = project(multiply, out * _activate(of_cell, cell))
        return (hidden, cell), (hidden, cell)

    sizes = matrix.shape[0], size
    zeros = tuple(jnp.zeros(n, gates.dtype) for n in sizes)
    rows = _steps(gates, lengths, initial, sizes, is_reverse)
    matrices = (matrix,) if weights[1] is None else (matrix, wide(weights[1]))
    scanned: Any = scan_products(step, matrices, checks, zeros, rows, is_reverse)
    hidden, cell = scanned[1]
    return hidden.astype(x.dtype), cell.astype(x.dtype)


@lowers(ops.SequenceGru)
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
    size = weight.shape[0]
    # memory order: the weight of both gates, then the candidate's weight
    flat = wide(weight).reshape(-1)
    of_gates = flat[: 2 * size * size].reshape(size, 2 * size)
    of_candidate = flat[2 * size * size :].reshape(size, size)
    gates = wide(x) if bias is None else wide(x) + wide(bias).reshape(-1)

    def step(
        multiply: Multiply, _: None, before: Array, row: tuple[Array, Array, States]
    ) -> tuple[Array, Array]:
        gate, first, (start,) = row
        h = jnp.where(first, start, before)
        both = _activate(gate_activation, gate[: 2 * size] + multiply(0, h))
        update, reset = both[:size], both[size:]
        candidate = _activate(activation, gate[2 * size :] + multiply(1, reset * h))
        share = 1 - update if origin_mode else update
        hidden = share * (candidate - h) + h
        return hidden, hidden

    rows = _steps(gates, lengths, (h0,), (size,), is_reverse)
    zeros, matrices = jnp.zeros(size, gates.dtype), (of_gates, of_candidate)
    scanned: Any = scan_products(step, matrices, None, zeros, rows, is_reverse)
    return scanned[1].astype(x.dtype)
