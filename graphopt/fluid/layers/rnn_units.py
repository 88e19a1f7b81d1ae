"""Single steps of recurrent networks with the weights of 1.8 (paddle.fluid.layers)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from graphopt.fluid.common import activate
from graphopt.fluid.layers.parametric import fc
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.one_layer import made_by
from graphopt.frontend.parameters import as_param_attr, as_weight_attr
from graphopt.ir.program import Variable, unique_name
from graphopt.nn.functional.activation import sigmoid
from graphopt.tensor.creation import assign
from graphopt.tensor.linalg import matmul
from graphopt.tensor.manipulation import concat, reshape, split
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import add, multiply, scale, subtract, tanh

# the numbers of activations in older programs
_NUMBERED = ("identity", "sigmoid", "tanh", "relu")


def _apply_activation(x: Variable, act: str, what: str) -> Variable:
    arguments.choice(act, what, "gru_unit", _NUMBERED)
    return x if act == "identity" else activate(x, act)


def mix(gate: Variable, old: Variable, new: Variable, origin_mode: bool) -> Variable:
    """Compute gate * new + (1 - gate) * old, or the reverse in `origin_mode`."""
    first, second = (old, new) if origin_mode else (new, old)
    return add(second, multiply(gate, subtract(first, second)))


def gru_unit(
    input: Variable,
    hidden: Variable,
    size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    origin_mode: bool = False,
) -> tuple[Variable, Variable, Variable]:
    """Run one step of a gated recurrent unit on projected inputs [n, 3d] (fluid.layers.gru_unit).

    `size` is 3d; the weight [d, 3d] holds the matrix [d, 2d] of both gates, then the matrix [d, d]
    of the candidate. Returns the new hidden state [n, d], the old one times the reset gate, and the
    gates and the candidate [n, 3d]; gradients flow through the first result alone.
    """
    function = "gru_unit"
    arguments.variable(input, "input", function)
    arguments.variable(hidden, "hidden", function)
    if arguments.integer(size, "size", function) % 3:
        raise ValueError(
            f"{function}(): 'size' should be three times the hidden size, found {size}"
        )
    d = size // 3
    helper = LayerHelper(function)
    weight = helper.parameter(as_weight_attr(param_attr, function), [d, size], input.dtype)
    attr, bias = as_param_attr(bias_attr), None
    if attr is not None:
        bias = helper.parameter(attr, [1, size], input.dtype, is_bias=True)
    acts = activation, gate_activation
    step = partial(_gru, input, hidden, weight, bias, acts, origin_mode)
    return made_by(helper.name, [2, 1, 0], step)


def _gru(
    input: Variable,
    hidden: Variable,
    weight: Variable,
    bias: Variable | None,
    acts: tuple[str, str],
    origin_mode: bool,
) -> tuple[Variable, Variable, Variable]:
    """Compute the results of `gru_unit`; `acts` are the activations of candidate and gates."""
    d = weight.shape[0]
    input = input if bias is None else add(input, bias)
    flat = reshape(weight, [-1])
    both = reshape(slice_(flat, [0], [0], [2 * d * d]), [d, 2 * d])
    last = reshape(slice_(flat, [0], [2 * d * d], [3 * d * d]), [d, d])
    own, rest = split(input, [2 * d, d], 1)
    gates = _apply_activation(add(own, matmul(hidden, both)), acts[1], "gate_activation")
    update, reset = split(gates, 2, 1)
    kept = multiply(reset, hidden)
    candidate = _apply_activation(add(rest, matmul(kept, last)), acts[0], "activation")
    new = mix(update, hidden, candidate, origin_mode)
    return new, _constant(kept), _constant(concat([gates, candidate], 1))


def _constant(x: Variable) -> Variable:
    """Copy x without a gradient, as 1.8 does."""
    made = assign(x)
    made.stop_gradient = True
    return made


def lstm_unit(
    x_t: Variable,
    hidden_t_prev: Variable,
    cell_t_prev: Variable,
    forget_bias: float = 0.0,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Run one step of a long short-term memory; return the new hidden state and cell [n, d].

    The input and the old hidden state go through one fully connected layer to the input, forget and
    output gates and the candidate. Paddle page: fluid.layers.lstm_unit.
    """
    function = "lstm_unit"
    width = arguments.variable(cell_t_prev, "cell_t_prev", function).shape[1]
    for what, value in (("x_t", x_t), ("hidden_t_prev", hidden_t_prev)):
        if len(arguments.variable(value, what, function).shape) != 2:
            raise ValueError(f"{function}(): '{what}' should have rank 2, found {[*value.shape]}")
    joined = concat([x_t, hidden_t_prev], 1)
    parts = split(fc(joined, 4 * width, param_attr=param_attr, bias_attr=bias_attr), 4, 1)
    extra = arguments.number(forget_bias, "forget_bias", function)
    step = partial(_lstm, parts, cell_t_prev, extra)
    return made_by(name or unique_name.generate(function), [1, 0], step)


def _lstm(parts: Sequence[Variable], old: Variable, extra: float) -> tuple[Variable, Variable]:
    """Compute the step from the projected inputs of the gates and of the candidate."""
    enter, leave = sigmoid(parts[0]), sigmoid(parts[2])
    keep = sigmoid(scale(parts[1], 1.0, extra))
    cell = add(multiply(keep, old), multiply(enter, tanh(parts[3])))
    return multiply(leave, tanh(cell)), cell
