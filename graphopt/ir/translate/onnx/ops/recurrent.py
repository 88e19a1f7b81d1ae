"""Recurrent networks: one op where Paddle has such a cell, else written out step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops import activation
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add, Clip, LessThan, Multiply, Scale, Subtract, Where
from graphopt.ir.dialect.ops.sequence.recurrent import Rnn
from graphopt.ir.dialect.ops.shape import Concat, Slice, Stack
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.ir.translate.onnx.emitter import OnnxEmitter, dtype, rank, shape
from graphopt.ir.translate.onnx.registry import reads

_MOST_STEPS = 1024
_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
# the gates of ONNX in the order of Paddle
_ORDER = {"LSTM": (0, 2, 3, 1), "GRU": (1, 0, 2), "RNN": (0,)}
_DEFAULTS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_DIRECTIONS = ("forward", "reverse", "bidirectional")


@dataclass
class _Network:
    """A node: its kind, what it reads, and how it is computed."""

    emit: OnnxEmitter
    kind: str
    x: SSAValue
    weights: SSAValue
    recurrent: SSAValue
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
        """The number of its directions."""
        return 2 if self.direction == "bidirectional" else 1


def _run(
    emit: OnnxEmitter,
    kind: str,
    operands: Sequence[SSAValue | None],
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
    x, weights, recurrent, bias, lengths, first, cell, peepholes = (*operands, *(None,) * 8)[:8]
    assert x is not None and weights is not None and recurrent is not None
    emit.one_of(direction, _DIRECTIONS)
    if layout:
        x = emit.transposed(x, (1, 0, 2))
        first, cell = (v if v is None else emit.transposed(v, (1, 0, 2)) for v in (first, cell))
    directions = 2 if direction == "bidirectional" else 1
    hidden = hidden_size or emit.sizes(recurrent, "the sizes of its weights")[2]
    count = 2 if kind == "LSTM" else 1
    states = [
        _zeros(emit, x, directions, hidden) if state is None else state
        for state in (first, cell)[:count]
    ]
    chosen = tuple(activations or _DEFAULTS[kind] * directions)
    network = _Network(
        *(emit, kind, x, weights, recurrent, bias, lengths, states, peepholes, hidden, direction),
        *(chosen, tuple(activation_alpha), tuple(activation_beta), clip),
        *(bool(linear_before_reset), bool(input_forget)),
    )
    every, *last = _as_op(network) if _is_paddles(network) else _written_out(network)
    if layout:
        every = emit.transposed(every, (2, 0, 1, 3))
        last = [emit.transposed(state, (1, 0, 2)) for state in last]
    return [every, *last]


def _zeros(emit: OnnxEmitter, x: SSAValue, directions: int, hidden: int) -> SSAValue:
    """The state before the first step."""
    batch = shape(x)[1]
    if batch != UNKNOWN:
        return emit(Full, shape=(directions, batch, hidden), value=0.0, dtype=dtype(x))
    cut = {"axes": (0,), "starts": (1,), "ends": (2,)}
    parts = [
        emit.constant([directions], "int64"),
        emit(Slice, emit.shape(x), **cut),
        emit.constant([hidden], "int64"),
    ]
    attrs = {"value": 0.0, "dtype": dtype(x)}
    return emit.dynamic(Full, [], attrs, {"shape": emit(Concat, parts, axis=0)})[0]


def _is_paddles(network: _Network) -> bool:
    """True for a network that Paddle has an operator for."""
    plain = network.clip is None and network.peepholes is None and not network.couples
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
            _ordered(network, _row(emit, w, i)) for w in (network.weights, network.recurrent)
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
        input_size=emit.sizes(network.weights, "the sizes of its weights")[2],
        hidden_size=network.hidden,
        mode=mode,
        is_test=True,
    )
    if network.directions == 1:
        return [emit.unsqueezed(found[0], 1), *found[1:]]
    out = emit.reshaped(found[0], 0, 0, network.directions, network.hidden)
    return [emit.transposed(out, (0, 2, 1, 3)), *found[1:]]


def _row(emit: OnnxEmitter, x: SSAValue, at: int) -> SSAValue:
    """The part of one direction."""
    cut = {"axes": (0,), "starts": (at,), "ends": (at + 1,), "decrease_axis": (0,)}
    return emit(Slice, x, **cut)


def _part(emit: OnnxEmitter, x: SSAValue, at: int, size: int, axis: int = 0) -> SSAValue:
    """One of equal parts along an axis."""
    cut = {"axes": (axis,), "starts": (at * size,), "ends": ((at + 1) * size,)}
    return emit(Slice, x, **cut)


def _ordered(network: _Network, x: SSAValue) -> SSAValue:
    """Rows of gates in Paddle's order."""
    order = _ORDER[network.kind]
    if len(order) == 1:
        return x
    parts = [_part(network.emit, x, gate, network.hidden) for gate in order]
    return network.emit(Concat, parts, axis=0)


def _biases(network: _Network, at: int) -> list[SSAValue]:
    """The bias of the input and that of the state, in Paddle's order."""
    emit, size = network.emit, _GATES[network.kind] * network.hidden
    if network.bias is None:
        return [emit(Full, shape=(size,), value=0.0, dtype=dtype(network.x))] * 2
    row = _row(emit, network.bias, at)
    return [_ordered(network, _part(emit, row, i, size)) for i in (0, 1)]


def _written_out(network: _Network) -> Sequence[SSAValue]:
    """Every step by itself, as often as there are steps."""
    emit = network.emit
    steps = emit.sizes(network.x)[0]
    if steps > _MOST_STEPS:
        raise emit.refuse(
            f"{steps} steps of a cell that Paddle has no operator for, and at most {_MOST_STEPS} "
            "are written out; use the default activations, and linear_before_reset = 1"
        )
    outs: list[list[SSAValue]] = []
    ends: list[list[SSAValue]] = []
    for at in range(network.directions):
        is_back = network.direction == "reverse" or at == 1
        every, states = _direction(network, at, steps, is_back=is_back)
        outs.append(every)
        ends.append(states)
    whole = [emit(Stack, list(each), axis=0) for each in zip(*outs, strict=True)]
    finals = [emit(Stack, list(each), axis=0) for each in zip(*ends, strict=True)]
    return [emit(Stack, whole, axis=0), *finals]


def _direction(
    network: _Network, at: int, steps: int, *, is_back: bool
) -> tuple[list[SSAValue], list[SSAValue]]:
    """The outputs of all steps of one direction, and its last states."""
    emit = network.emit
    states = [_row(emit, state, at) for state in network.states]
    cell = _Cell(network, at)
    outs: dict[int, SSAValue] = {}
    for step in reversed(range(steps)) if is_back else range(steps):
        new = cell.step(_row(emit, network.x, step), states)
        if network.lengths is not None:
            here = emit.constant([step], dtype(network.lengths), ())
            inside = emit.unsqueezed(emit(LessThan, here, network.lengths), 1)
            outs[step] = emit(Where, inside, new[0], emit.filled(new[0], 0))
            new = [emit(Where, inside, n, s) for n, s in zip(new, states, strict=True)]
        else:
            outs[step] = new[0]
        states = new
    return [outs[step] for step in range(steps)], states


class _Cell:
    """The weights of one direction, and a step with them."""

    def __init__(self, network: _Network, at: int) -> None:
        emit, self.network, self.emit = network.emit, network, network.emit
        self.weights = _row(emit, network.weights, at)
        self.recurrent = _row(emit, network.recurrent, at)
        size = _GATES[network.kind] * network.hidden
        self.biases: list[SSAValue] | None = None
        if network.bias is not None:
            row = _row(emit, network.bias, at)
            self.biases = [_part(emit, row, i, size) for i in (0, 1)]
        self.peepholes: list[SSAValue] = []
        if network.peepholes is not None:
            row = _row(emit, network.peepholes, at)
            self.peepholes = [_part(emit, row, i, network.hidden) for i in range(3)]
        count = len(network.activations) // network.directions
        self.curves = [self._curve(at * count + i) for i in range(count)]

    def _curve(self, position: int) -> Callable[[SSAValue], SSAValue]:
        network = self.network
        name = network.activations[position]
        alpha = network.alphas[position] if position < len(network.alphas) else None
        beta = network.betas[position] if position < len(network.betas) else None
        return lambda x: _activated(self.emit, name, x, alpha, beta)

    def clipped(self, x: SSAValue) -> SSAValue:
        """The operand of an activation, kept within the limit."""
        limit = self.network.clip
        return x if limit is None else self.emit(Clip, x, min=-limit, max=limit)

    def product(self, x: SSAValue, weights: SSAValue, bias: int) -> SSAValue:
        """x by weights, and the bias of the input (0) or the state (1)."""
        out = self.emit(Matmul, x, weights, transpose_y=True)
        return out if self.biases is None else self.emit(Add, out, self.biases[bias])

    def step(self, x: SSAValue, states: list[SSAValue]) -> list[SSAValue]:
        """The states after a step."""
        return {"LSTM": self._lstm, "GRU": self._gru, "RNN": self._rnn}[self.network.kind](
            x, states
        )

    def _gates(self, x: SSAValue) -> list[SSAValue]:
        size, count = self.network.hidden, _GATES[self.network.kind]
        return [_part(self.emit, x, i, size, rank(x) - 1) for i in range(count)]

    def _rnn(self, x: SSAValue, states: list[SSAValue]) -> list[SSAValue]:
        total = self.emit(
            Add, self.product(x, self.weights, 0), self.product(states[0], self.recurrent, 1)
        )
        return [self.curves[0](self.clipped(total))]

    def _lstm(self, x: SSAValue, states: list[SSAValue]) -> list[SSAValue]:
        emit, (hidden, cell) = self.emit, states
        total = emit(Add, self.product(x, self.weights, 0), self.product(hidden, self.recurrent, 1))
        enter, leave, forget, new = self._gates(total)
        sigma, tanh, last = self.curves
        if self.peepholes:
            enter = emit(Add, enter, emit(Multiply, self.peepholes[0], cell))
            forget = emit(Add, forget, emit(Multiply, self.peepholes[2], cell))
        i = sigma(self.clipped(enter))
        if self.network.couples:
            f = emit(Scale, i, scale=-1.0, bias=1.0)
        else:
            f = sigma(self.clipped(forget))
        c = emit(Add, emit(Multiply, f, cell), emit(Multiply, i, tanh(self.clipped(new))))
        if self.peepholes:
            leave = emit(Add, leave, emit(Multiply, self.peepholes[1], c))
        return [emit(Multiply, sigma(self.clipped(leave)), last(c)), c]

    def _gru(self, x: SSAValue, states: list[SSAValue]) -> list[SSAValue]:
        emit, (hidden,) = self.emit, states
        x_z, x_r, x_h = self._gates(self.product(x, self.weights, 0))
        h_z, h_r, h_h = self._gates(self.product(hidden, self.recurrent, 1))
        sigma, tanh = self.curves
        z = sigma(self.clipped(emit(Add, x_z, h_z)))
        r = sigma(self.clipped(emit(Add, x_r, h_r)))
        if self.network.is_linear:
            inner = emit(Multiply, r, h_h)
        else:
            size = self.network.hidden
            inner = emit(
                Matmul,
                emit(Multiply, r, hidden),
                _part(emit, self.recurrent, 2, size),
                transpose_y=True,
            )
            if self.biases is not None:
                inner = emit(Add, inner, _part(emit, self.biases[1], 2, size))
        new = tanh(self.clipped(emit(Add, x_h, inner)))
        return [emit(Add, new, emit(Multiply, z, emit(Subtract, hidden, new)))]


def _activated(
    emit: OnnxEmitter, name: str, x: SSAValue, alpha: float | None, beta: float | None
) -> SSAValue:
    """An activation by ONNX's name for it here."""
    plain = {
        "tanh": activation.Tanh,
        "relu": activation.Relu,
        "sigmoid": activation.Sigmoid,
        "softsign": activation.Softsign,
    }
    key = name.lower()
    if key in plain:
        return emit(plain[key], x)
    if key == "softplus":
        return emit(activation.Softplus, x, threshold=50.0)
    if key == "affine":
        return emit.scaled(x, 1.0 if alpha is None else alpha, beta or 0.0)
    if key == "leakyrelu":
        return emit(activation.LeakyRelu, x, negative_slope=0.01 if alpha is None else alpha)
    if key == "hardsigmoid":
        slope, offset = (0.2 if alpha is None else alpha), (0.5 if beta is None else beta)
        return emit(activation.Hardsigmoid, x, slope=slope, offset=offset)
    if key == "elu":
        return emit(activation.Elu, x, alpha=1.0 if alpha is None else alpha)
    if key == "scaledtanh":
        inner = emit(activation.Tanh, emit.scaled(x, 1.0 if beta is None else beta))
        return emit.scaled(inner, 1.0 if alpha is None else alpha)
    raise emit.refuse(f"the activation {name!r}")


@reads("LSTM")
def lstm(
    emit: OnnxEmitter,
    *operands: SSAValue | None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
) -> Sequence[SSAValue]:
    return _run(
        emit,
        "LSTM",
        operands,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        activations=activations,
        clip=clip,
        direction=direction,
        hidden_size=hidden_size,
        input_forget=input_forget,
        layout=layout,
    )


@reads("GRU")
def gru(
    emit: OnnxEmitter,
    *operands: SSAValue | None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> Sequence[SSAValue]:
    return _run(
        emit,
        "GRU",
        operands,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        activations=activations,
        clip=clip,
        direction=direction,
        hidden_size=hidden_size,
        layout=layout,
        linear_before_reset=linear_before_reset,
    )


@reads("RNN")
def rnn(
    emit: OnnxEmitter,
    *operands: SSAValue | None,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> Sequence[SSAValue]:
    return _run(
        emit,
        "RNN",
        operands,
        activation_alpha=activation_alpha,
        activation_beta=activation_beta,
        activations=activations,
        clip=clip,
        direction=direction,
        hidden_size=hidden_size,
        layout=layout,
    )
