"""Several layers of long short-term memory with all weights in one parameter (layers.lstm)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphopt.fluid.layers.parametric import dropout
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.parameters import ParamAttr
from graphopt.ir.program import Variable
from graphopt.nn.functional.activation import sigmoid
from graphopt.static.nn.static_rnn import StaticRNN
from graphopt.tensor.linalg import matmul
from graphopt.tensor.manipulation import concat, reshape, split, squeeze
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import add, multiply, tanh
from graphopt.tensor.rearrange import flip

Weights = tuple[Variable, Variable, Variable]


def lstm(
    input: Variable,
    init_h: Variable,
    init_c: Variable,
    max_len: int,
    hidden_size: int,
    num_layers: int,
    dropout_prob: float = 0.0,
    is_bidirec: bool = False,
    is_test: bool = False,
    name: str | None = None,
    default_initializer: Any = None,
    seed: int = -1,
) -> tuple[Variable, Variable, Variable]:
    """Run layers of long short-term memory over [t, n, d], forward or in both directions.

    The states are [layers * directions, n, hidden]. Returns the outputs [t, n, directions * hidden]
    and the final hidden states and cells. As in cuDNN, one parameter has the matrices of each layer
    and direction, then their biases; gates are in the order input, forget, candidate, output.
    `max_len` has no effect. Paddle page: fluid.layers.lstm.
    """
    size = arguments.integer(hidden_size, "hidden_size", "lstm")
    layers = arguments.integer(num_layers, "num_layers", "lstm")
    if len(arguments.variable(input, "input", "lstm").shape) != 3:
        raise ValueError(f"lstm(): 'input' should be [t, n, d], found {list(input.shape)}")
    ways = 2 if is_bidirec else 1
    widths = [input.shape[2] if layer == 0 else size * ways for layer in range(layers)]
    total = sum(ways * 4 * size * (width + size + 2) for width in widths)
    helper = LayerHelper("cudnn_lstm", name)
    flat = helper.parameter(
        ParamAttr(), [total], input.dtype, default_initializer=default_initializer
    )
    weights = _weights(flat, widths, size, ways)
    hidden: list[Variable] = []
    cells: list[Variable] = []
    for layer in range(layers):
        if layer and dropout_prob:
            fixed = None if seed == -1 else seed
            input = dropout(input, dropout_prob, is_test, fixed, None, "upscale_in_train")
        outputs: list[Variable] = []
        for way in range(ways):
            at = layer * ways + way
            first = [squeeze(slice_(s, [0], [at], [at + 1]), [0]) for s in (init_h, init_c)]
            found = _walk(flip(input, [0]) if way else input, first[0], first[1], next(weights))
            outputs.append(flip(found[0], [0]) if way else found[0])
            hidden.append(slice_(found[0], [0], [-1], [2**31 - 1]))
            cells.append(slice_(found[1], [0], [-1], [2**31 - 1]))
        input = outputs[0] if ways == 1 else concat(outputs, 2)
    return input, concat(hidden, 0), concat(cells, 0)


def _weights(flat: Variable, widths: list[int], size: int, ways: int) -> Iterator[Weights]:
    """Slice the matrices over input and state, and the bias, of each layer and direction."""
    position, bias = 0, sum(ways * 4 * size * (width + size) for width in widths)
    for width in widths:
        for _ in range(ways):
            parts: list[Variable] = []
            for columns in (width, size):
                end = position + 4 * size * columns
                parts.append(reshape(slice_(flat, [0], [position], [end]), [4 * size, columns]))
                position = end
            pair = reshape(slice_(flat, [0], [bias], [bias + 8 * size]), [2, 4 * size])
            bias += 8 * size
            inner, outer = (slice_(pair, [0], [i], [i + 1]) for i in (0, 1))
            yield parts[0], parts[1], add(inner, outer)


def _walk(x: Variable, hidden: Variable, cell: Variable, weights: Weights) -> list[Variable]:
    """Compute the hidden states and cells [t, n, hidden] of one layer in one direction."""
    rows, states, bias = weights
    projected = add(matmul(x, rows, transpose_y=True), bias)
    walk = StaticRNN()
    with walk.step():
        own = walk.step_input(projected)
        before, kept = walk.memory(init=hidden), walk.memory(init=cell)
        gates = add(own, matmul(before, states, transpose_y=True))
        enter, keep, candidate, leave = split(gates, 4, 1)
        new_cell = add(multiply(sigmoid(keep), kept), multiply(sigmoid(enter), tanh(candidate)))
        new = multiply(sigmoid(leave), tanh(new_cell))
        walk.update_memory(before, new)
        walk.update_memory(kept, new_cell)
        walk.output(new, new_cell)
    found = walk()
    assert isinstance(found, list)
    return found
