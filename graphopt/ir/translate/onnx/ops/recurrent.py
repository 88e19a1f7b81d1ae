"""Recurrent networks: one op where Paddle has such a cell, else a scan over the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.activation import Relu, Sigmoid, Softsign, Tanh
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add, Clip, LessEqual, Multiply, Scale, Subtract, Where
from graphopt.ir.dialect.ops.reduce import Any as AnyOf
from graphopt.ir.dialect.ops.reduce import Cumsum
from graphopt.ir.dialect.ops.sequence.recurrent import Rnn
from graphopt.ir.dialect.ops.shape import Concat, Slice, Stack
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.ir.translate.onnx.emitter import END, OnnxEmitter, dtype, rank, shape
from graphopt.ir.translate.onnx.ops.activation import (
    elu,
    hard_sigmoid,
    leaky_relu,
    softplus,
    thresholded_relu,
)
from graphopt.ir.translate.onnx.ops.index import reverse_sequence
from graphopt.ir.translate.onnx.ops.quantised import dynamic_product
from graphopt.ir.translate.onnx.registry import reads

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# ONNX's gates in Paddle's order
_ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
_DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_CURVES = {"tanh": Tanh, "relu": Relu, "sigmoid": Sigmoid, "softsign": Softsign}
_DIRECTIONS = ("forward", "reverse", "bidirectional")


@dataclass
class _Weights:
    """The weights of each direction, [gates, columns]; quantized ones have scale and zero point."""

    values: SSAValue
    scale: SSAValue | None = None
    zero: SSAValue | None = None

    def product(self, emit: OnnxEmitter, x: SSAValue, at: int) -> SSAValue:
        """Multiply `x` by one direction's weights; if they are quantized, quantize all of `x`."""
        values = emit.element(self.values, at)
        if self.scale is None:
            return emit(Matmul, x, values, transpose_y=True)
        zero = None if self.zero is None else emit.element(self.zero, at)
        return dynamic_product(emit, x, values, emit.element(self.scale, at), zero)


@dataclass
class _Network:
    """A recurrent node: its kind, operands and attributes."""

    emit: OnnxEmitter
    kind: str
    x: SSAValue
    weights: _Weights
    recurrent: _Weights
    bias: SSAValue | None
    lengths: SSAValue | None
    states: list[SSAValue]
    peepholes: SSAValue | None
    hidden: int
    direction: str
    activations: tuple[str, ...]
    alphas: tuple[float, ...]
    betas: tuple[float, ...]
    clip: float | None
    is_linear: bool
    couples: bool

    @property
    def directions(self) -> int:
        """The number of directions."""
        return 2 if self.direction == "bidirectional" else 1


def _compute(network: _Network, layout: int) -> Sequence[SSAValue]:
    """Compute the outputs of all steps and the last states of a network.

    Its operands have the steps first; with `layout` the results have the batch first.
    """
    emit = network.emit
    every, *last = _as_op(network) if _is_paddles(network) else _scan_steps(network)
    if layout:
        every = emit.transpose(every, (2, 0, 1, 3))
        last = [emit.transpose(state, (1, 0, 2)) for state in last]
    return [every, *last]


def _states(
    emit: OnnxEmitter,
    x: SSAValue,
    given: Sequence[SSAValue | None],
    directions: int,
    hidden: int,
) -> list[SSAValue]:
    """Return the states before the first step, with zeros for absent ones."""
    sizes = (directions, UNKNOWN, hidden)
    return [emit.zeros(sizes, x, 1) if each is None else each for each in given]


def _is_paddles(network: _Network) -> bool:
    """True for a network that Paddle has an operator for."""
    plain = network.clip is None and network.peepholes is None and not network.couples
    plain = plain and network.weights.scale is None
    if not plain or (network.kind == "GRU" and not network.is_linear):
        return False
    if network.kind == "RNN":
        each = {name.capitalize() for name in network.activations}
        return len(each) == 1 and each <= {"Tanh", "Relu"}
    return network.activations == _DEFAULTS[network.kind] * network.directions


def _as_op(network: _Network) -> Sequence[SSAValue]:
    emit, kind = network.emit, network.kind
    weights: list[SSAValue] = []
    biases: list[SSAValue] = []
    for i in range(network.directions):
        weights += [
            _reorder_gates(network, emit.element(w.values, i))
            for w in (network.weights, network.recurrent)
        ]
        biases += _biases(network, i)
    mode = kind
    if kind == "RNN":
        mode = f"RNN_{network.activations[0].upper()}"
    found = emit.all(
        Rnn,
        *(network.x, network.states, [*weights, *biases], network.lengths),
        is_bidirec=network.directions == 2,
        is_reverse=network.direction == "reverse",
        input_size=emit.sizes(network.weights.values, "the sizes of its weights")[2],
        hidden_size=network.hidden,
        mode=mode,
        is_test=True,
    )
    if network.directions == 1:
        return [emit.unsqueeze(found[0], 1), *found[1:]]
    out = emit.reshape(found[0], 0, 0, network.directions, network.hidden)
    return [emit.transpose(out, (0, 2, 1, 3)), *found[1:]]


def _part(emit: OnnxEmitter, x: SSAValue, at: int, size: int, axis: int = 0) -> SSAValue:
    """Slice one of equal parts along an axis."""
    cut = {"axes": (axis,), "starts": (at * size,), "ends": ((at + 1) * size,)}
    return emit(Slice, x, **cut)


def _reorder_gates(network: _Network, x: SSAValue) -> SSAValue:
    """Reorder the rows of the gates to Paddle's order."""
    order = _ORDER[network.kind]
    if len(order) == 1:
        return x
    parts = [_part(network.emit, x, gate, network.hidden) for gate in order]
    return network.emit(Concat, parts, axis=0)


def _biases(network: _Network, at: int) -> list[SSAValue]:
    """Return the biases of input and state, with their gates in Paddle's order."""
    emit, size = network.emit, _GATES[network.kind] * network.hidden
    if network.bias is None:
        return [emit(Full, shape=(size,), value=0.0, dtype=dtype(network.x))] * 2
    row = emit.element(network.bias, at)
    return [_reorder_gates(network, _part(emit, row, i, size)) for i in (0, 1)]


def _scan_steps(network: _Network) -> Sequence[SSAValue]:
    """Emit a scan over the steps for each direction."""
    emit = network.emit
    outs: list[SSAValue] = []
    ends: list[list[SSAValue]] = []
    for at in range(network.directions):
        every, states = _direction(network, at, is_back=network.direction == "reverse" or at == 1)
        outs.append(every)
        ends.append(states)
    finals = [emit(Stack, list(each), axis=0) for each in zip(*ends, strict=True)]
    return [emit(Stack, outs, axis=1), *finals]


def _direction(network: _Network, at: int, *, is_back: bool) -> tuple[SSAValue, list[SSAValue]]:
    """Emit a scan for one direction; return the outputs of all steps and the last states."""
    emit, x, lengths = network.emit, network.x, network.lengths
    states = [_beside(emit, emit.element(state, at), x) for state in network.states]
    cell, memories = _Cell(network, at), list(states)
    masks = [] if lengths is None else [_inside(emit, x, lengths)]
    # All sequences of a step share one scale. So a reverse scan begins with the last step of each
    # sequence, and a sequence that has ended feeds zeros back after the next step.
    is_joint = network.weights.scale is not None
    if lengths is not None and is_joint:
        x = reverse_sequence(emit, x, lengths) if is_back else x
        x = _clear(emit, x, emit(AnyOf, masks[0], axis=(1,), keepdim=True))
        memories.append(states[0])

    def step(*values: SSAValue) -> list[SSAValue]:
        before, seen = list(values[: len(states)]), list(values[len(states) : len(memories)])
        x, *inside = values[len(memories) :]
        after = cell.step(x, [*seen, *before[len(seen) :]])
        out = after[0]
        if inside:
            out = _clear(emit, out, inside[0])
            after = [emit(Where, inside[0], n, b) for n, b in zip(after, before, strict=True)]
        # yields each state at each step, for the last states
        return [*after, *[out] * len(seen), out, *after]

    goes_back = is_back and not (masks and is_joint)
    every, *stacked = emit.scan(memories, [cell.project(x), *masks], step, is_back=goes_back)
    if lengths is not None and is_back and is_joint:
        every = reverse_sequence(emit, every, lengths)
    ends = {"starts": (0,), "ends": (1,)} if goes_back else {"starts": (-1,), "ends": (END,)}
    return every, [emit(Slice, x, axes=(0,), decrease_axis=(0,), **ends) for x in stacked]


def _clear(emit: OnnxEmitter, x: SSAValue, inside: SSAValue) -> SSAValue:
    """Replace `x` by zeros where `inside` is false."""
    return emit(Where, inside, x, emit.fill_like(x, 0))


def _beside(emit: OnnxEmitter, state: SSAValue, x: SSAValue) -> SSAValue:
    """Expand a state to the batch of `x`, with the same known or open size in its type."""
    batch, (rows, hidden) = shape(x)[1], shape(state)
    if batch == rows:
        return state
    if batch != UNKNOWN:
        return emit.expand(state, (batch, hidden))
    size = emit(Slice, emit.shape(x), axes=(0,), starts=(1,), ends=(2,))
    return emit.expand(state, emit(Concat, [size, emit.constant([hidden], "int64")], axis=0))


def _inside(emit: OnnxEmitter, x: SSAValue, lengths: SSAValue) -> SSAValue:
    """Emit the mask [time, batch, 1] of the steps within the length of their sequence."""
    first = emit(Slice, x, axes=(1, 2), starts=(0, 0), ends=(1, 1))
    number = emit(Cumsum, emit.fill_like(first, 1, dtype(lengths)), axis=0)
    return emit(LessEqual, number, emit.unsqueeze(lengths, 0, 2))


class _Cell:
    """The weights of one direction, and a step of the network with them."""

    def __init__(self, network: _Network, at: int) -> None:
        emit, self.network, self.emit = network.emit, network, network.emit
        self.at = at
        size = _GATES[network.kind] * network.hidden
        self.biases: list[SSAValue] | None = None
        if network.bias is not None:
            row = emit.element(network.bias, at)
            self.biases = [_part(emit, row, i, size) for i in (0, 1)]
        self.peepholes: list[SSAValue] = []
        if network.peepholes is not None:
            row = emit.element(network.peepholes, at)
            self.peepholes = [_part(emit, row, i, network.hidden) for i in range(3)]
        count = len(network.activations) // network.directions
        self.curves = [self._curve(at * count + i) for i in range(count)]

    def _curve(self, position: int) -> Callable[[SSAValue], SSAValue]:
        network = self.network
        name = network.activations[position]
        alpha = network.alphas[position] if position < len(network.alphas) else None
        beta = network.betas[position] if position < len(network.betas) else None
        return lambda x: _activate(self.emit, name, x, alpha, beta)

    def clip(self, x: SSAValue) -> SSAValue:
        """Clip the operand of an activation to the limit of the network, if it has one."""
        limit = self.network.clip
        return x if limit is None else self.emit(Clip, x, min=-limit, max=limit)

    def project(self, x: SSAValue) -> SSAValue:
        """Multiply `x` by its weights and add the input's bias, for all steps at once."""
        return self._add_bias(self.network.weights.product(self.emit, x, self.at), 0)

    def _recurring(self, hidden: SSAValue) -> SSAValue:
        """Multiply a state by its weights and add the state's bias."""
        return self._add_bias(self.network.recurrent.product(self.emit, hidden, self.at), 1)

    def _add_bias(self, out: SSAValue, bias: int) -> SSAValue:
        return out if self.biases is None else self.emit(Add, out, self.biases[bias])

    def step(self, x: SSAValue, states: list[SSAValue]) -> list[SSAValue]:
        """Compute the states after a step; `x` is projected already."""
        return {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self.network.kind](
            x, states
        )

    def _gates(self, x: SSAValue) -> list[SSAValue]:
        size, count = self.network.hidden, _GATES[self.network.kind]
        return [_part(self.emit, x, i, size, rank(x) - 1) for i in range(count)]

    def _rnn(self, x: SSAValue, states: list[SSAValue]) -> list[SSAValue]:
        total = self.emit(Add, x, self._recurring(states[0]))
        return [self.curves[0](self.clip(total))]

    def _lstm(self, x: SSAValue, states: list[SSAValue]) -> list[SSAValue]:
        emit, (hidden, cell) = self.emit, states
        total = emit(Add, x, self._recurring(hidden))
        enter, leave, forget, new = self._gates(total)
        sigma, tanh, last = self.curves
        if self.peepholes:
            enter = emit(Add, enter, emit(Multiply, self.peepholes[0], cell))
            forget = emit(Add, forget, emit(Multiply, self.peepholes[2], cell))
        i = sigma(self.clip(enter))
        if self.network.couples:
            f = emit(Scale, i, scale=-1.0, bias=1.0)
        else:
            f = sigma(self.clip(forget))
        c = emit(Add, emit(Multiply, f, cell), emit(Multiply, i, tanh(self.clip(new))))
        if self.peepholes:
            leave = emit(Add, leave, emit(Multiply, self.peepholes[1], c))
        return [emit(Multiply, sigma(self.clip(leave)), last(c)), c]

    def _gru(self, x: SSAValue, states: list[SSAValue]) -> list[SSAValue]:
        emit, (hidden,) = self.emit, states
        x_z, x_r, x_h = self._gates(x)
        h_z, h_r, h_h = self._gates(self._recurring(hidden))
        sigma, tanh = self.curves
        z = sigma(self.clip(emit(Add, x_z, h_z)))
        r = sigma(self.clip(emit(Add, x_r, h_r)))
        if self.network.is_linear:
            inner = emit(Multiply, r, h_h)
        else:
            size = self.network.hidden
            inner = emit(
                Matmul,
                emit(Multiply, r, hidden),
                _part(emit, emit.element(self.network.recurrent.values, self.at), 2, size),
                transpose_y=True,
            )
            if self.biases is not None:
                inner = emit(Add, inner, _part(emit, self.biases[1], 2, size))
        new = tanh(self.clip(emit(Add, x_h, inner)))
        return [emit(Add, new, emit(Multiply, z, emit(Subtract, hidden, new)))]


def _activate(
    emit: OnnxEmitter, name: str, x: SSAValue, alpha: float | None, beta: float | None
) -> SSAValue:
    """Emit an activation by its ONNX name, in upper or lower case."""
    key = name.lower()
    given = {n: v for n, v in (("alpha", alpha), ("beta", beta)) if v is not None}
    if key == "affine":
        return emit.scale(x, given.get("alpha", 1.0), given.get("beta", 0.0))
    if key == "scaledtanh":
        inner = emit(Tanh, emit.scale(x, given.get("beta", 1.0)))
        return emit.scale(inner, given.get("alpha", 1.0))
    for curve in (elu, hard_sigmoid, leaky_relu, softplus, thresholded_relu):
        if key == curve.__name__.replace("_", ""):
            return curve(emit, x, **given)
    if key not in _CURVES:
        raise emit.refuse(f"the activation {name!r} is not supported")
    return emit(_CURVES[key], x)


@reads("LSTM", "GRU", "RNN")
def recurrent(
    emit: OnnxEmitter,
    x: SSAValue,
    weights: SSAValue,
    recurrence: SSAValue,
    bias: SSAValue | None = None,
    lengths: SSAValue | None = None,
    hidden: SSAValue | None = None,
    cell: SSAValue | None = None,
    peepholes: SSAValue | None = None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> Sequence[SSAValue]:
    kind = emit.op.type.rpartition(".")[2]
    emit.one_of(direction, _DIRECTIONS)
    if layout:
        x = emit.transpose(x, (1, 0, 2))
        hidden, cell = (v if v is None else emit.transpose(v, (1, 0, 2)) for v in (hidden, cell))
    directions = 2 if direction == "bidirectional" else 1
    size = hidden_size or emit.sizes(recurrence, "the sizes of its weights")[2]
    given = (hidden, cell) if kind == "LSTM" else (hidden,)
    network = _Network(
        *(emit, kind, x, _Weights(weights), _Weights(recurrence), bias, lengths),
        *(_states(emit, x, given, directions, size), peepholes, size, direction),
        tuple(activations or _DEFAULTS[kind] * directions),
        *(tuple(activation_alpha), tuple(activation_beta), clip),
        *(bool(linear_before_reset), bool(input_forget)),
    )
    return _compute(network, layout)


@reads("DynamicQuantizeLSTM", domain="com.microsoft")
def dynamic_quantize_lstm(
    emit: OnnxEmitter,
    x: SSAValue,
    weights: SSAValue,
    recurrence: SSAValue,
    bias: SSAValue | None,
    lengths: SSAValue | None,
    hidden: SSAValue | None,
    cell: SSAValue | None,
    peepholes: SSAValue | None,
    weights_scale: SSAValue,
    weights_zero: SSAValue | None,
    recurrence_scale: SSAValue,
    recurrence_zero: SSAValue | None,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
) -> Sequence[SSAValue]:
    """Translate ONNX Runtime's LSTM that quantizes the whole input, and the state at each step."""
    emit.one_of(direction, _DIRECTIONS)
    directions = 2 if direction == "bidirectional" else 1
    size = hidden_size or emit.sizes(recurrence, "the sizes of its weights")[1]
    network = _Network(
        *(emit, "LSTM", x, _Weights(weights, weights_scale, weights_zero)),
        *(_Weights(recurrence, recurrence_scale, recurrence_zero), bias, lengths),
        *(_states(emit, x, (hidden, cell), directions, size), peepholes, size, direction),
        tuple(activations or _DEFAULTS["LSTM"] * directions),
        *(tuple(activation_alpha), tuple(activation_beta), clip, False, bool(input_forget)),
    )
    return _compute(network, 0)
