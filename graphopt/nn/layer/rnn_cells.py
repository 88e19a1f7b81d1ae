"""Recurrent cells: one step of a recurrent network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.initializers.fill import Constant, Uniform
from graphopt.frontend.mode import get_default_dtype
from graphopt.ir.program import Parameter, Variable
from graphopt.nn.functional.activation import relu, sigmoid
from graphopt.nn.layer.batch import batch_filled
from graphopt.nn.layer.layers import Layer
from graphopt.nn.layer.structure import first, map_structure
from graphopt.tensor.linalg import matmul
from graphopt.tensor.manipulation import split
from graphopt.tensor.math import add, multiply, subtract, tanh


def is_shape(value: Any) -> bool:
    """True for one shape, a list or tuple of integers."""
    return isinstance(value, (list, tuple)) and all(isinstance(item, int) for item in value)


class RNNCellBase(Layer):
    """Base of the cells; creates the initial states (paddle.nn.RNNCellBase).

    A cell takes the inputs of one step and the states, and returns its outputs and new states. It
    defines `state_shape`, without the batch, and may define `state_dtype`.
    """

    def get_initial_states(
        self,
        batch_ref: Any,
        shape: Any = None,
        dtype: Any = None,
        init_value: float = 0.0,
        batch_dim_idx: int = 0,
    ) -> Any:
        """Create states of `init_value`, shaped and nested as `shape` or the cell's `state_shape`.

        They have as many rows as `batch_ref` on its axis `batch_dim_idx`, and the default dtype
        unless `dtype` or the cell's `state_dtype` is set.
        """
        reference = arguments.variable(first(batch_ref), "batch_ref", "get_initial_states")
        axis = arguments.integer(batch_dim_idx, "batch_dim_idx", "get_initial_states")
        shape = self.state_shape if shape is None else shape
        if dtype is None:
            try:
                dtype = self.state_dtype
            except NotImplementedError:
                dtype = get_default_dtype()

        def make(sizes: Any, element: Any) -> Variable:
            sizes = list(sizes[1:] if sizes[0] == -1 else sizes)
            return batch_filled(reference, axis, init_value, sizes, element)

        if not isinstance(dtype, (list, tuple, dict)):
            return map_structure(lambda sizes: make(sizes, dtype), shape, is_leaf=is_shape)
        return map_structure(make, shape, dtype, is_leaf=is_shape)

    @property
    def state_shape(self) -> Any:
        """The shape of each state, without the batch."""
        raise NotImplementedError(f"{type(self).__name__} does not define state_shape")

    @property
    def state_dtype(self) -> Any:
        """The dtype of each state."""
        raise NotImplementedError(f"{type(self).__name__} does not define state_dtype")


class GatedCell(RNNCellBase):
    """A cell whose gates read the inputs and the hidden state through weights and biases.

    Weights are [gates * hidden_size, ...]; all start uniformly within 1 / sqrt(hidden_size). A
    weight whose attribute is False is frozen at 1, a bias at 0.
    """

    gates = 1
    proj_size = 0

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        proj_size: int = 0,
    ) -> None:
        super().__init__()
        cell = type(self).__name__
        self.input_size = arguments.integer(input_size, "input_size", cell)
        self.hidden_size = arguments.integer(hidden_size, "hidden_size", cell)
        if hidden_size <= 0:
            raise ValueError(
                f"hidden_size of {cell} must be greater than 0, but now equals to {hidden_size}"
            )
        self.proj_size = arguments.integer(proj_size, "proj_size", cell)
        if not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"{cell}(): proj_size must be at least 0 and smaller than hidden_size "
                f"{hidden_size}, found {proj_size}"
            )
        rows, size = self.gates * hidden_size, proj_size or hidden_size
        self.weight_ih: Any = self._weight([rows, input_size], weight_ih_attr)
        self.weight_hh: Any = self._weight([rows, size], weight_hh_attr)
        self.bias_ih: Any = self._weight([rows], bias_ih_attr, is_bias=True)
        self.bias_hh: Any = self._weight([rows], bias_hh_attr, is_bias=True)
        if proj_size:
            self.weight_ho: Any = self._weight([hidden_size, size], weight_hh_attr)

    def _weight(self, shape: list[int], attr: Any, is_bias: bool = False) -> Parameter:
        bound = 1.0 / math.sqrt(self.hidden_size)
        frozen = attr is False
        start = Constant(0.0 if is_bias else 1.0) if frozen else Uniform(-bound, bound)
        made = self.create_parameter(
            shape, None if frozen else attr, is_bias=is_bias, default_initializer=start
        )
        assert made is not None
        if frozen:
            made.stop_gradient = True
        return made

    def _project(self, inputs: Variable, hidden: Variable) -> tuple[Variable, Variable]:
        """Multiply inputs and hidden state by their weights, and add their biases."""
        arguments.variable(inputs, "inputs", type(self).__name__)
        return (
            add(matmul(inputs, self.weight_ih, transpose_y=True), self.bias_ih),
            add(matmul(hidden, self.weight_hh, transpose_y=True), self.bias_hh),
        )

    @property
    def mode(self) -> str:
        """The name of this cell in the operator for whole sequences."""
        raise NotImplementedError

    @property
    def state_shape(self) -> Any:
        return (self.hidden_size,)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class SimpleRNNCell(GatedCell):
    """act(x @ Wih^T + bih + h @ Whh^T + bhh), act tanh or relu (paddle.nn.SimpleRNNCell).

    Takes inputs [batch, input_size] and a state [batch, hidden_size] (zeros unless given), and
    returns the new state twice.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        activation: str = "tanh",
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr
        )
        self.activation = arguments.choice(
            activation, "activation", "SimpleRNNCell", ("tanh", "relu")
        )

    def forward(
        self, inputs: Variable, states: Variable | None = None
    ) -> tuple[Variable, Variable]:
        hidden = self.get_initial_states(inputs) if states is None else states
        gates = add(*self._project(inputs, hidden))
        hidden = tanh(gates) if self.activation == "tanh" else relu(gates)
        return hidden, hidden

    @property
    def mode(self) -> str:
        return f"RNN_{self.activation.upper()}"

    def extra_repr(self) -> str:
        activation = "" if self.activation == "tanh" else f", activation={self.activation}"
        return super().extra_repr() + activation


class LSTMCell(GatedCell):
    """A step of an LSTM; its gates are input, forget, cell, output (paddle.nn.LSTMCell).

    Takes inputs [batch, input_size] and states (h, c), each [batch, hidden_size] (zeros unless
    given), and returns h and the new (h, c). With `proj_size`, h is [batch, proj_size].
    """

    gates = 4

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        proj_size: int = 0,
        name: str | None = None,
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            weight_ih_attr,
            weight_hh_attr,
            bias_ih_attr,
            bias_hh_attr,
            proj_size,
        )

    def forward(
        self, inputs: Variable, states: Sequence[Variable] | None = None
    ) -> tuple[Variable, tuple[Variable, Variable]]:
        hidden, cell = self.get_initial_states(inputs) if states is None else states
        i, f, candidate, o = split(add(*self._project(inputs, hidden)), 4, axis=-1)
        kept = multiply(sigmoid(f), cell)
        cell = add(kept, multiply(sigmoid(i), tanh(candidate)))
        hidden = multiply(sigmoid(o), tanh(cell))
        hidden = matmul(hidden, self.weight_ho) if self.proj_size else hidden
        return hidden, (hidden, cell)

    @property
    def mode(self) -> str:
        return "LSTM"

    @property
    def state_shape(self) -> Any:
        return ((self.proj_size or self.hidden_size,), (self.hidden_size,))


class GRUCell(GatedCell):
    """A step of a GRU; its gates are reset, update, candidate (paddle.nn.GRUCell).

    Takes inputs [batch, input_size] and a state [batch, hidden_size] (zeros unless given), and
    returns the new state twice.
    """

    gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            input_size, hidden_size, weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr
        )

    def forward(
        self, inputs: Variable, states: Variable | None = None
    ) -> tuple[Variable, Variable]:
        hidden = self.get_initial_states(inputs) if states is None else states
        x_gates, h_gates = self._project(inputs, hidden)
        x_r, x_z, x_c = split(x_gates, 3, axis=1)
        h_r, h_z, h_c = split(h_gates, 3, axis=1)
        candidate = tanh(add(x_c, multiply(sigmoid(add(x_r, h_r)), h_c)))
        update = sigmoid(add(x_z, h_z))
        hidden = add(multiply(subtract(hidden, candidate), update), candidate)
        return hidden, hidden

    @property
    def mode(self) -> str:
        return "GRU"
