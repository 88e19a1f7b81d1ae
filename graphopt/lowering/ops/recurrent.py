"""Recurrent networks in JAX: one `lax.scan` for each layer and direction.

The inputs of all steps are multiplied with the weights at once, before the scan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops.recurrent import ACTIVATIONS, GruUnit, LstmUnit, Rnn
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers

States = tuple[Array, ...]
# (inputs of this step times the weights, states, hidden-hidden weights, their bias) -> new states,
# the first of which is the output
Step = Callable[[Array, States, Array, Array], States]


def _lstm(projected: Array, states: States, weight: Array, bias: Array) -> States:
    hidden, cell = states
    gates = projected + hidden @ weight.T + bias
    i, f, candidate, o = jnp.split(gates, 4, axis=-1)
    cell = lax.logistic(f) * cell + lax.logistic(i) * lax.tanh(candidate)
    return lax.logistic(o) * lax.tanh(cell), cell


def _gru(projected: Array, states: States, weight: Array, bias: Array) -> States:
    (hidden,) = states
    x_r, x_z, x_c = jnp.split(projected, 3, axis=-1)
    h_r, h_z, h_c = jnp.split(hidden @ weight.T + bias, 3, axis=-1)
    candidate = lax.tanh(x_c + lax.logistic(x_r + h_r) * h_c)
    return ((hidden - candidate) * lax.logistic(x_z + h_z) + candidate,)


def _plain(activation: Callable[[Array], Array]) -> Step:
    def step(projected: Array, states: States, weight: Array, bias: Array) -> States:
        (hidden,) = states
        return (activation(projected + (hidden @ weight.T + bias)),)

    return step


STEPS: dict[str, Step] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN_TANH": _plain(lax.tanh),
    "RNN_RELU": _plain(jax.nn.relu),
}


@lowers(Rnn)
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
            out = _dropped(out, dropout_prob, jax.random.fold_in(key, layer))
        outs: list[Array] = []
        for at in range(layer * directions, (layer + 1) * directions):
            parts = [*weights[2 * at : 2 * at + 2], *weights[2 * (scans + at) :][:2]]
            parts += weights[4 * scans + at :][:1]
            start = tuple(state[at] for state in states)
            reverse = is_reverse or at % directions == 1
            result, end = _scan(STEPS[mode], out, start, parts, valid, reverse, zero_padding)
            outs.append(result)
            final.append(end)
        out = outs[0] if directions == 1 else jnp.concatenate(outs, -1)
    ends = [jnp.stack(parts) for parts in zip(*final, strict=True)]
    return out.astype(x.dtype), *(end.astype(x.dtype) for end in ends)


def _dropped(x: Array, p: float, key: Array) -> Array:
    if p == 1:
        return jnp.zeros_like(x)
    keep = jax.random.bernoulli(key, np.float32(1 - p), x.shape)
    return jnp.where(keep, x / (1 - p), jnp.zeros((), x.dtype))


def _scan(
    step: Step,
    x: Array,
    start: States,
    parts: Sequence[Array],
    valid: Array | None,
    reverse: bool,
    zero_padding: bool,
) -> tuple[Array, States]:
    """One direction of one layer: the outputs of all steps and the final states.

    Backwards, the padding comes first and leaves the initial states alone.
    """
    weight_ih, weight_hh, bias_ih, bias_hh, *projection = parts
    projected = x @ weight_ih.T + bias_ih

    def body(states: States, now: tuple[Array, Array | None]) -> tuple[States, Array]:
        inputs, live = now
        out, *others = step(inputs, states, weight_hh, bias_hh)
        for weight in projection:
            out = out @ weight
        new = (out, *others)
        if live is not None:
            new = tuple(jnp.where(live, n, s) for n, s in zip(new, states, strict=True))
            out = jnp.where(live, out, jnp.zeros((), out.dtype)) if zero_padding else out
        return new, out

    end, outs = lax.scan(body, start, (projected, valid), reverse=reverse)
    return outs, end


_UNIT_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "identity": lambda x: x,
    "sigmoid": lax.logistic,
    "tanh": lax.tanh,
    "relu": jax.nn.relu,
}


@lowers(GruUnit)
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
    squash = _UNIT_ACTIVATIONS[ACTIVATIONS[gate_activation]]
    # the weight is two matrices one after the other in memory, not side by side
    flat = wide(weight).reshape(-1)
    gates_weight = flat[: 2 * size * size].reshape(size, 2 * size)
    gates = squash(inputs[:, : 2 * size] + hidden @ gates_weight)
    update, reset = gates[:, :size], gates[:, size:]
    reset_hidden = reset * hidden
    candidate = inputs[:, 2 * size :] + reset_hidden @ flat[2 * size * size :].reshape(size, size)
    candidate = _UNIT_ACTIVATIONS[ACTIVATIONS[activation]](candidate)
    share = 1 - update if origin_mode else update
    new = share * (candidate - hidden) + hidden
    results = (jnp.concatenate([gates, candidate], 1), reset_hidden, new)
    gate, reset_hidden, new = (result.astype(input.dtype) for result in results)
    return gate, reset_hidden, new


@lowers(LstmUnit)
def lstm_unit(x: Array, c_prev: Array, forget_bias: float) -> tuple[Array, Array]:
    i, f, o, candidate = jnp.split(wide(x), 4, axis=1)
    cell = lax.logistic(f + forget_bias) * wide(c_prev) + lax.logistic(i) * lax.tanh(candidate)
    hidden = lax.logistic(o) * lax.tanh(cell)
    return cell.astype(x.dtype), hidden.astype(x.dtype)
