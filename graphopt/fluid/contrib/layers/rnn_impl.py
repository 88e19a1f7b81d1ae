"""Recurrent networks of several layers and directions (paddle.fluid.contrib.layers)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphopt.fluid.layers.parametric import dropout
from graphopt.fluid.layers.rnn import GRUCell, LSTMCell, last_item, leaves, mask_state, part_of
from graphopt.fluid.layers.shaping import sequence_mask
from graphopt.frontend import arguments
from graphopt.frontend.calls import publish
from graphopt.frontend.missing import explain as _explain
from graphopt.frontend.parameters import ParamAttr, as_weight_attr
from graphopt.ir.program import Variable
from graphopt.nn.layer.layers import Layer
from graphopt.static.nn.static_rnn import StaticRNN
from graphopt.tensor.attribute import shape
from graphopt.tensor.linalg import transpose
from graphopt.tensor.manipulation import concat, reshape, squeeze, stack
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.rearrange import flip

Cell = GRUCell | LSTMCell
# (name, weight attributes, bias attributes) -> cell
Maker = Callable[[str, ParamAttr, ParamAttr], Cell]


def basic_gru(
    input: Variable,
    init_hidden: Variable | None,
    hidden_size: int,
    num_layers: int = 1,
    sequence_length: Variable | None = None,
    dropout_prob: float = 0.0,
    bidirectional: bool = False,
    batch_first: bool = True,
    param_attr: Any = None,
    bias_attr: Any = None,
    gate_activation: Any = None,
    activation: Any = None,
    dtype: Any = "float32",
    name: str = "basic_gru",
) -> tuple[Variable, Variable]:
    """Run layers of gated recurrent units over sequences [n, t, size] (contrib.layers.basic_gru).

    `batch_first=False` swaps n and t. The initial states, zeros by default, and the final ones are
    [layers * directions, n, hidden]. The outputs of both directions are concatenated along the last
    axis. After `sequence_length` [n] the states stay, and are the outputs. Dropout is between the
    layers and on the outputs.
    """

    def make(own: str, weight: ParamAttr, bias: ParamAttr) -> GRUCell:
        return GRUCell(hidden_size, weight, bias, gate_activation, activation, dtype, own)

    attrs = as_weight_attr(param_attr, "basic_gru"), as_weight_attr(bias_attr, "basic_gru")
    cells = _cells(make, num_layers, bidirectional, attrs, name)
    first = None if init_hidden is None else [_by_layer(init_hidden, cells, hidden_size)]
    out, lasts = _over(cells, input, first, sequence_length, dropout_prob, batch_first)
    return out, lasts[0]


def basic_lstm(
    input: Variable,
    init_hidden: Variable | None,
    init_cell: Variable | None,
    hidden_size: int,
    num_layers: int = 1,
    sequence_length: Variable | None = None,
    dropout_prob: float = 0.0,
    bidirectional: bool = False,
    batch_first: bool = True,
    param_attr: Any = None,
    bias_attr: Any = None,
    gate_activation: Any = None,
    activation: Any = None,
    forget_bias: float = 1.0,
    dtype: Any = "float32",
    name: str = "basic_lstm",
) -> tuple[Variable, Variable, Variable]:
    """Run layers of long short-term memories over sequences (contrib.layers.basic_lstm).

    Works as `basic_gru` with two states: it returns the outputs, the final hidden states and the
    final cells.
    """

    def make(own: str, weight: ParamAttr, bias: ParamAttr) -> LSTMCell:
        acts = gate_activation, activation
        return LSTMCell(hidden_size, weight, bias, *acts, forget_bias, dtype, own)

    attrs = as_weight_attr(param_attr, "basic_lstm"), as_weight_attr(bias_attr, "basic_lstm")
    cells = _cells(make, num_layers, bidirectional, attrs, name)
    first = None
    if init_hidden is not None and init_cell is not None:
        first = [_by_layer(state, cells, hidden_size) for state in (init_hidden, init_cell)]
    out, lasts = _over(cells, input, first, sequence_length, dropout_prob, batch_first)
    return out, lasts[0], lasts[1]


def _cells(
    make: Maker, layers: int, bidirectional: bool, attrs: tuple[ParamAttr, ParamAttr], name: str
) -> list[list[Cell]]:
    """Build the cells of each direction, one per layer, under Paddle's names."""
    made: list[list[Cell]] = []
    ways = (("", "fw"), ("_reverse", "bw"))
    for middle, way in ways[: 2 if bidirectional else 1]:
        weight, bias = attrs
        made.append(
            [
                make(
                    f"{name}{middle}_layers_{layer}",
                    part_of(weight, f"{way}_w_{layer}"),
                    part_of(bias, f"{way}_b_{layer}"),
                )
                for layer in range(layers)
            ]
        )
    return made


def _over(
    directions: Sequence[Sequence[Cell]],
    input: Variable,
    first: Sequence[Variable] | None,
    lengths: Variable | None,
    dropout_prob: float,
    batch_first: bool,
) -> tuple[Variable, list[Variable]]:
    """Run all directions; return the last layer's outputs, and the final states by kind."""
    x = arguments.variable(input, "input", "basic_rnn")
    x = transpose(x, [1, 0, 2]) if batch_first else x
    mask = None
    if lengths is not None:
        steps: Any = x.shape[0] if x.shape[0] >= 0 else slice_(shape(x), [0], [0], [1])
        mask = transpose(sequence_mask(lengths, steps, "float32"), [1, 0])
    outs: list[Variable] = []
    lasts: list[list[list[Variable]]] = []
    for number, cells in enumerate(directions):
        if first is None:
            states = [leaves(c.get_initial_states(x, batch_dim_idx=1)) for c in cells]
        else:
            count = len(directions)
            states = [[_at(s, i * count + number) for s in first] for i in range(len(cells))]
        # the second direction reads from the end
        reversed_ = [v if v is None or number == 0 else flip(v, [0]) for v in (x, mask)]
        out, last = _direction(cells, reversed_, states, dropout_prob)
        outs.append(out if number == 0 else flip(out, [0]))
        lasts.append(last)
    whole = outs[0] if len(outs) == 1 else concat(outs, 2)
    by_layer = [states for layer in zip(*lasts, strict=True) for states in layer]
    ends = [stack(list(kind)) for kind in zip(*by_layer, strict=True)]
    return transpose(whole, [1, 0, 2]) if batch_first else whole, ends


def _by_layer(state: Variable, cells: Sequence[Sequence[Cell]], size: int) -> Variable:
    """Reshape initial states to [layers * directions, n, size]."""
    return reshape(state, [len(cells) * len(cells[0]), -1, size])


def _at(x: Variable, index: int) -> Variable:
    """Slice an item off the first axis."""
    return squeeze(slice_(x, [0], [index], [index + 1]), [0])


def _direction(
    cells: Sequence[Cell],
    read: Sequence[Variable | None],
    first: Sequence[Sequence[Variable]],
    dropout_prob: float,
) -> tuple[Variable, list[list[Variable]]]:
    """Run the layers over the steps of `read`, the inputs and their mask.

    Returns the outputs and the final states of each layer.
    """
    walk = StaticRNN()
    with walk.step():
        item: Any
        item, live = (None if v is None else walk.step_input(v) for v in read)
        for cell, begun in zip(cells, first, strict=True):
            old = [walk.memory(init=state) for state in begun]
            states: Any = old if len(old) > 1 else old[0]
            new = leaves(cell.call(item, states)[1])
            if live is not None:
                new = [mask_state(live, n, o) for n, o in zip(new, old, strict=True)]
            for before, after in zip(old, new, strict=True):
                walk.update_memory(before, after)
                walk.step_output(after)
            item = new[0]
            if dropout_prob:
                item = dropout(item, dropout_prob, dropout_implementation="upscale_in_train")
        walk.step_output(item)
    outputs: Any = walk()
    made: list[Variable] = list(outputs)
    kinds = len(first[0])
    lasts = [
        [last_item(state) for state in made[i * kinds : (i + 1) * kinds]] for i in range(len(cells))
    ]
    return made[-1], lasts


class _Unit(Layer):
    """One step of a cell as a layer."""

    def __init__(self, name_scope: str, dtype: Any, cell: Cell) -> None:
        super().__init__(name_scope, dtype)
        self._cell = cell

    def _call_unit(self, input: Variable, states: Any) -> Any:
        new = self._cell.call(input, states)[1]
        for name, parameter in self._cell.parameters().items():
            self._parameters[name] = parameter
        return new


class BasicGRUUnit(_Unit):
    """One step of a gated recurrent unit, as a layer (contrib.layers.BasicGRUUnit)."""

    def __init__(
        self,
        name_scope: str,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: Any = None,
        activation: Any = None,
        dtype: Any = "float32",
    ) -> None:
        attrs, acts = (param_attr, bias_attr), (gate_activation, activation)
        super().__init__(name_scope, dtype, GRUCell(hidden_size, *attrs, *acts, dtype, name_scope))

    def forward(self, input: Variable, pre_hidden: Variable) -> Variable:
        """Compute the new hidden state [n, hidden]."""
        return self._call_unit(input, pre_hidden)


class BasicLSTMUnit(_Unit):
    """One step of a long short-term memory, as a layer (contrib.layers.BasicLSTMUnit)."""

    def __init__(
        self,
        name_scope: str,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: Any = None,
        activation: Any = None,
        forget_bias: float = 1.0,
        dtype: Any = "float32",
    ) -> None:
        attrs, acts = (param_attr, bias_attr), (gate_activation, activation)
        cell = LSTMCell(hidden_size, *attrs, *acts, forget_bias, dtype, name_scope)
        super().__init__(name_scope, dtype, cell)

    def forward(
        self, input: Variable, pre_hidden: Variable, pre_cell: Variable
    ) -> tuple[Variable, Variable]:
        """Compute the new hidden state and cell [n, hidden]."""
        hidden, cell = self._call_unit(input, [pre_hidden, pre_cell])
        return hidden, cell


publish(globals(), __name__)
_explain(globals())
