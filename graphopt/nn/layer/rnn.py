"""Recurrent networks over sequences: cells run in one or both directions, and stacks of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable
from graphopt.nn.functional.common import dropout
from graphopt.nn.layer.batch import batch_filled
from graphopt.nn.layer.container import LayerList
from graphopt.nn.layer.layers import Layer
from graphopt.nn.layer.recurrence import emit_rnn, is_plain, run_cell, run_cells, swap_time
from graphopt.nn.layer.rnn_cells import GatedCell, GRUCell, LSTMCell, SimpleRNNCell
from graphopt.nn.layer.structure import leaves
from graphopt.tensor.creation import full
from graphopt.tensor.manipulation import expand, stack
from graphopt.tensor.rearrange import unbind


class RNN(Layer):
    """A cell over sequences, from the end with `is_reverse` (paddle.nn.RNN).

    Takes inputs [batch, time, ...] ([time, batch, ...] with `time_major`), initial states (by
    default the cell's own) and lengths [batch], past which states do not change; returns the
    outputs of all steps and the final states. A user's own cell is called once per step, so an
    unknown number of steps raises UnsupportedError.
    """

    def __init__(self, cell: Any, is_reverse: bool = False, time_major: bool = False) -> None:
        super().__init__()
        self.cell = cell
        self.is_reverse = arguments.flag(is_reverse, "is_reverse", "RNN")
        self.time_major = arguments.flag(time_major, "time_major", "RNN")

    def forward(
        self,
        inputs: Any,
        initial_states: Any = None,
        sequence_length: Variable | None = None,
        **kwargs: Any,
    ) -> tuple[Any, Any]:
        return run_cell(
            self.cell,
            inputs,
            initial_states,
            sequence_length,
            self.time_major,
            self.is_reverse,
            **kwargs,
        )


class BiRNN(Layer):
    """Two cells over sequences, one from each end (paddle.nn.BiRNN).

    As RNN; the outputs of both are joined in the last axis, and states are pairs.
    """

    def __init__(self, cell_fw: Any, cell_bw: Any, time_major: bool = False) -> None:
        super().__init__()
        self.cell_fw, self.cell_bw = cell_fw, cell_bw
        if cell_fw.input_size != cell_bw.input_size:
            raise ValueError(
                f"input size of forward cell({cell_fw.input_size}) does not equal that of "
                f"backward cell({cell_bw.input_size})"
            )
        self.time_major = arguments.flag(time_major, "time_major", "BiRNN")

    def forward(
        self,
        inputs: Any,
        initial_states: Any = None,
        sequence_length: Variable | None = None,
        **kwargs: Any,
    ) -> tuple[Any, Any]:
        if initial_states is not None and (
            not isinstance(initial_states, (list, tuple)) or len(initial_states) != 2
        ):
            raise ValueError("BiRNN(): initial_states must be a pair, forward and backward")
        return run_cells(
            self.cell_fw,
            self.cell_bw,
            inputs,
            initial_states,
            sequence_length,
            self.time_major,
            **kwargs,
        )


class RNNBase(LayerList):
    """Layers of cells over sequences, in one or both directions; see LSTM, GRU and SimpleRNN."""

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        proj_size: int = 0,
    ) -> None:
        super().__init__()
        layer = type(self).__name__
        arguments.choice(direction, "direction", layer, ("forward", "bidirect", "bidirectional"))
        self.mode = mode
        self.input_size = arguments.integer(input_size, "input_size", layer)
        self.hidden_size = arguments.integer(hidden_size, "hidden_size", layer)
        self.num_layers = arguments.integer(num_layers, "num_layers", layer)
        if num_layers < 1:
            raise ValueError(f"{layer}(): num_layers must be at least 1, found {num_layers}")
        self.dropout = arguments.number(dropout, "dropout", layer)
        if not 0 <= dropout <= 1:
            raise ValueError(f"{layer}(): dropout must be from 0 to 1, found {dropout}")
        self.time_major = arguments.flag(time_major, "time_major", layer)
        self.num_directions = 1 if direction == "forward" else 2
        self.state_components = 2 if mode == "LSTM" else 1
        self.proj_size = arguments.integer(proj_size, "proj_size", layer)
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        width = input_size
        for _ in range(num_layers):
            cells = [self._cell(width, attrs) for _ in range(self.num_directions)]
            if self.num_directions == 1:
                self.append(RNN(cells[0], time_major=time_major))
            else:
                self.append(BiRNN(*cells[:2], time_major=time_major))
            width = self.num_directions * (proj_size or hidden_size)
        for name, parameter in zip(self._parameter_names(attrs), self.parameters(), strict=False):
            setattr(self, name, parameter)
        weights = [each for cell in self._cells() for each in (cell.weight_ih, cell.weight_hh)]
        biases = [each for cell in self._cells() for each in (cell.bias_ih, cell.bias_hh)]
        names = tuple([each.name for each in (*weights, *biases)])
        weights[0].block.program.flat_weights[f"{self._full_name}.w_0"] = names

    def _cell(self, width: int, attrs: tuple[Any, ...]) -> GatedCell:
        if self.mode == "LSTM":
            return LSTMCell(width, self.hidden_size, *attrs, proj_size=self.proj_size)
        if self.mode == "GRU":
            return GRUCell(width, self.hidden_size, *attrs)
        return SimpleRNNCell(width, self.hidden_size, self.mode[len("RNN_") :].lower(), *attrs)

    def _parameter_names(self, attrs: tuple[Any, ...]) -> list[str]:
        """List the short names; as in Paddle, without biases whose attribute is False."""
        kinds = ["weight_ih", "weight_hh"]
        kinds += [] if attrs[2] is False else ["bias_ih"]
        kinds += [] if attrs[3] is False else ["bias_hh"]
        suffixes = ("", "_reverse")[: self.num_directions]
        return [
            f"{kind}_l{layer}{suffix}"
            for layer in range(self.num_layers)
            for suffix in suffixes
            for kind in kinds
        ]

    def flatten_parameters(self) -> None:
        """Do nothing: the weights need not be contiguous in memory."""

    def _cells(self) -> list[Any]:
        """List the cells by layer, forward before backward."""
        rnns: list[Any] = list(self)
        if self.num_directions == 1:
            return [rnn.cell for rnn in rnns]
        return [cell for rnn in rnns for cell in (rnn.cell_fw, rnn.cell_bw)]

    def _zeros(self, inputs: Variable) -> list[Variable]:
        """Create the initial states if none are given."""
        axis = 1 if self.time_major else 0
        sizes = [self.proj_size or self.hidden_size, self.hidden_size][: self.state_components]
        count = self.num_layers * self.num_directions
        batch = inputs.shape[axis]
        if batch >= 0:
            return [full([count, batch, size], 0.0, inputs.dtype) for size in sizes]
        zeros = [batch_filled(inputs, axis, 0.0, [1, size], inputs.dtype) for size in sizes]
        return [expand(swap_time(zero), [count, -1, -1]) for zero in zeros]

    def forward(
        self,
        inputs: Variable,
        initial_states: Any = None,
        sequence_length: Variable | None = None,
    ) -> tuple[Variable, Any]:
        layer = type(self).__name__
        if len(arguments.variable(inputs, "inputs", layer).shape) != 3:
            raise ValueError(
                f"{layer}(): the inputs should be [batch, time, {self.input_size}] (or time first, "
                f"with time_major), found {list(inputs.shape)}"
            )
        if sequence_length is not None:
            arguments.variable(sequence_length, "sequence_length", layer)
        if initial_states is None:
            states = self._zeros(inputs)
        else:
            given = [initial_states] if isinstance(initial_states, Variable) else initial_states
            states = arguments.variables(given, "initial_states", layer)
        if len(states) != self.state_components:
            raise ValueError(
                f"{layer}(): initial_states should hold {self.state_components} Variables, found "
                f"{len(states)}"
            )
        cells = self._cells()
        if self.proj_size or not all(is_plain(cell, inputs) for cell in cells):
            return self._by_layer(inputs, states, sequence_length)
        x = inputs if self.time_major else swap_time(inputs)
        attrs = {
            "dropout_prob": self.dropout,
            "is_bidirec": self.num_directions == 2,
            "num_layers": self.num_layers,
            "is_test": not self.training,
        }
        helper = LayerHelper(self._full_name, self._full_name)
        # Paddle's kernel keeps its generator's state in a variable of this name
        name = f"{self._full_name}.dropout_state__non_persistable"
        dropout_state = helper.main_program.current_block().create_var(name, (), "uint8")
        out, finals = emit_rnn(
            helper, x, states, cells, sequence_length, dropout_state=dropout_state, **attrs
        )
        out = out if self.time_major else swap_time(out)
        return out, tuple(finals) if len(finals) > 1 else finals[0]

    def _by_layer(
        self, x: Variable, states: Sequence[Variable], sequence_length: Variable | None
    ) -> tuple[Variable, Any]:
        """Run each layer separately, where one operator cannot express all of them."""
        by_cell: list[Any] = list(zip(*(unbind(state) for state in states), strict=True))
        by_cell = [parts if len(parts) > 1 else parts[0] for parts in by_cell]
        final: list[Variable] = []
        for number, rnn in enumerate(self):
            if number and self.dropout:
                x = dropout(x, self.dropout, training=self.training)
            start = by_cell[number]
            if self.num_directions == 2:
                start = by_cell[2 * number : 2 * number + 2]
            x, end = rnn(x, start, sequence_length)
            final += leaves(end)
        ends = [stack(final[i :: self.state_components]) for i in range(self.state_components)]
        return x, tuple(ends) if len(ends) > 1 else ends[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += f", num_layers={self.num_layers}" if self.num_layers != 1 else ""
        text += f", time_major={self.time_major}" if self.time_major else ""
        return text + (f", dropout={self.dropout}" if self.dropout else "")


class SimpleRNN(RNNBase):
    """Layers of plain recurrent cells, act tanh or relu (paddle.nn.SimpleRNN).

    Takes inputs [batch, time, input_size] ([time, batch, ...] with `time_major`), initial states
    [layers * directions, batch, hidden_size] and lengths [batch]; returns the outputs [batch, time,
    directions * hidden_size], 0 past the lengths, and the final states. In training a share
    `dropout` of the values between layers is dropped.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        activation: str = "tanh",
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        arguments.choice(activation, "activation", "SimpleRNN", ("tanh", "relu"))
        sizes = (input_size, hidden_size, num_layers, direction, time_major, dropout)
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        super().__init__(f"RNN_{activation.upper()}", *sizes, *attrs)
        self.activation = activation


class LSTM(RNNBase):
    """Layers of LSTM cells (paddle.nn.LSTM); as SimpleRNN, with states (h, c).

    With `proj_size`, h and the outputs have that size instead of `hidden_size`, and outputs past
    the lengths are the cell's.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        proj_size: int = 0,
        name: str | None = None,
    ) -> None:
        sizes = (input_size, hidden_size, num_layers, direction, time_major, dropout)
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        super().__init__("LSTM", *sizes, *attrs, proj_size)


class GRU(RNNBase):
    """Layers of GRU cells (paddle.nn.GRU); as SimpleRNN."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        sizes = (input_size, hidden_size, num_layers, direction, time_major, dropout)
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        super().__init__("GRU", *sizes, *attrs)


lazy.join_package(globals())
