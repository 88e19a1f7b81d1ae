"""Recurrent networks of cells (paddle.fluid.layers.rnn)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graphopt.fluid.common import activate
from graphopt.fluid.layers.rnn_units import mix
from graphopt.fluid.layers.shaping import sequence_mask
from graphopt.fluid.layers.tensor import fill_constant_batch_size_like
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.parameters import ParamAttr, as_weight_attr
from graphopt.ir.program import Variable
from graphopt.nn.layer.recurrence import swap_time
from graphopt.static.nn.static_rnn import StaticRNN
from graphopt.tensor.attribute import shape
from graphopt.tensor.linalg import matmul, transpose
from graphopt.tensor.manipulation import concat, reshape, split, squeeze
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.math import add, multiply, scale
from graphopt.tensor.rearrange import flip

Nested = Any


def _map(function: Callable[..., Any], first: Nested, *others: Nested) -> Nested:
    """Apply a function to the leaves of structures of lists, tuples and dicts that are alike."""
    if isinstance(first, Mapping):
        return {key: _map(function, first[key], *(o[key] for o in others)) for key in first}
    if isinstance(first, (list, tuple)):
        made = [_map(function, *parts) for parts in zip(first, *others, strict=True)]
        return made if isinstance(first, list) else tuple(made)
    return function(first, *others)


def leaves(nested: Nested) -> list[Any]:
    """Collect the leaves of a structure of lists, tuples and dicts, in order."""
    found: list[Any] = []
    _map(found.append, nested)
    return found


class RNNCell:
    """Base of the cells: `call` computes outputs and new states from inputs and states.

    Paddle page: fluid.layers.RNNCell.
    """

    def call(self, inputs: Nested, states: Nested, **kwargs: Any) -> tuple[Nested, Nested]:
        """Compute the outputs and the new states, in the structure of `states`."""
        raise NotImplementedError(f"{type(self).__name__} must have a method 'call'")

    def __call__(self, inputs: Nested, states: Nested, **kwargs: Any) -> tuple[Nested, Nested]:
        return self.call(inputs, states, **kwargs)

    @property
    def state_shape(self) -> Nested:
        """The shapes of the states, without the batch."""
        raise NotImplementedError(f"{type(self).__name__} must have a property 'state_shape'")

    @property
    def state_dtype(self) -> Nested:
        """The dtypes of the states."""
        return "float32"

    def get_initial_states(
        self,
        batch_ref: Nested,
        shape: Nested = None,
        dtype: Any = "float32",
        init_value: float = 0,
        batch_dim_idx: int = 0,
    ) -> Nested:
        """Create states filled with one number, for the batch of `batch_ref`."""
        like = leaves(batch_ref)[0]
        element = self.state_dtype if dtype is None else dtype

        def fill(sizes: Any) -> Variable:
            whole = list(sizes) if sizes[0] == -1 else [-1, *sizes]
            return fill_constant_batch_size_like(like, whole, element, init_value, batch_dim_idx)

        return _over_shapes(fill, self.state_shape if shape is None else shape)


def _over_shapes(function: Callable[[Any], Any], shapes: Nested) -> Nested:
    """Apply a function as `_map` does, where a leaf is a list of numbers."""
    if isinstance(shapes, Mapping):
        return {key: _over_shapes(function, value) for key, value in shapes.items()}
    if all(isinstance(size, int) for size in shapes):
        return function(shapes)
    made = [_over_shapes(function, part) for part in shapes]
    return made if isinstance(shapes, list) else tuple(made)


class _Gated(RNNCell):
    """A cell with weights over the input and the hidden state, made at its first call."""

    def __init__(
        self,
        kind: str,
        hidden_size: int,
        attrs: tuple[Any, Any],
        activations: tuple[Any, Any],
        dtype: Any,
        name: str,
    ) -> None:
        self.hidden_size = arguments.integer(hidden_size, "hidden_size", kind)
        if arguments.dtype(dtype, "dtype", kind) not in ("float32", "float64"):
            raise TypeError(f"{kind}(): 'dtype' should be float32 or float64, found {dtype}")
        self._kind, self._attrs, self._dtype = kind, attrs, dtype
        # the name of the layer that Paddle's cell wraps
        self._helper = LayerHelper(f"{name}/Basic{kind.removesuffix('Cell')}Unit")
        self._gate, self._act = (
            value or default
            for value, default in zip(activations, ("sigmoid", "tanh"), strict=True)
        )
        self._made: dict[str, Variable] = {}

    def _check(self, **given: Variable) -> None:
        """Raise TypeError for inputs and states that are not Variables of float32 or float64."""
        for name, value in given.items():
            found = arguments.variable(value, name, self._kind)
            if found.has_type and found.dtype not in ("float32", "float64"):
                raise TypeError(
                    f"{self._kind}: '{name}' should be float32 or float64, found {found.dtype}"
                )

    def _through(self, x: Variable, part: str, size: int) -> Variable:
        """Multiply x by the weights of a part, and add its bias."""
        if part not in self._made:
            weight, bias = (part_of(as_weight_attr(attr, self._kind), part) for attr in self._attrs)
            shape = [x.shape[1], size]
            self._made[part] = self._helper.parameter(weight, shape, self._dtype)
            self._made[f"{part} bias"] = self._helper.parameter(
                bias, [size], self._dtype, is_bias=True
            )
        return add(matmul(x, self._made[part]), self._made[f"{part} bias"])

    def parameters(self) -> dict[str, Variable]:
        """Return the weights and biases that a first call has created, by their last names."""
        return {made.name.rsplit(".", 1)[-1]: made for made in self._made.values()}

    def _activate(self, x: Variable, act: Any) -> Variable:
        return activate(x, act) if isinstance(act, str) else act(x)


def part_of(attr: ParamAttr, part: str) -> ParamAttr:
    """Copy the attribute with the part appended to its name; unchanged without a name."""
    if attr.name is None or not part:
        return attr
    return ParamAttr(
        f"{attr.name}_{part}",
        attr.initializer,
        attr.learning_rate,
        attr.regularizer,
        attr.trainable,
        attr.do_model_average,
        attr.need_clip,
    )


class GRUCell(_Gated):
    """A gated recurrent unit (Paddle page: fluid.layers.GRUCell).

    Weights are [input + hidden, 2 * hidden] for the gates and [input + hidden, hidden] for the
    candidate. Activations are names or functions, by default sigmoid and tanh.
    """

    def __init__(
        self,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: Any = None,
        activation: Any = None,
        dtype: Any = "float32",
        name: str = "GRUCell",
    ) -> None:
        attrs, acts = (param_attr, bias_attr), (gate_activation, activation)
        super().__init__("GRUCell", hidden_size, attrs, acts, dtype, name)

    def call(self, inputs: Variable, states: Variable, **kwargs: Any) -> tuple[Variable, Variable]:
        self._check(inputs=inputs, states=states)
        size = self.hidden_size
        gates = self._through(concat([inputs, states], 1), "gate", 2 * size)
        reset, update = split(self._activate(gates, self._gate), 2, 1)
        joined = concat([inputs, multiply(reset, states)], 1)
        candidate = self._activate(self._through(joined, "candidate", size), self._act)
        new = mix(update, states, candidate, True)
        return new, new

    @property
    def state_shape(self) -> list[int]:
        return [self.hidden_size]


class LSTMCell(_Gated):
    """A long short-term memory (Paddle page: fluid.layers.LSTMCell).

    The weight is [input + hidden, 4 * hidden] for the input gate, the candidate, the forget gate
    and the output gate. The states are the hidden state and the cell.
    """

    def __init__(
        self,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: Any = None,
        activation: Any = None,
        forget_bias: float = 1.0,
        dtype: Any = "float32",
        name: str = "LSTMCell",
    ) -> None:
        attrs, acts = (param_attr, bias_attr), (gate_activation, activation)
        super().__init__("LSTMCell", hidden_size, attrs, acts, dtype, name)
        self._forget_bias = arguments.number(forget_bias, "forget_bias", "LSTMCell")

    def call(self, inputs: Variable, states: Nested, **kwargs: Any) -> tuple[Variable, Nested]:
        hidden, cell = states
        self._check(inputs=inputs, hidden=hidden, cell=cell)
        parts = split(self._through(concat([inputs, hidden], 1), "", 4 * self.hidden_size), 4, 1)
        enter, leave = (self._activate(parts[i], self._gate) for i in (0, 3))
        keep = self._activate(scale(parts[2], 1.0, self._forget_bias), self._gate)
        cell = add(multiply(cell, keep), multiply(enter, self._activate(parts[1], self._act)))
        hidden = multiply(self._activate(cell, self._act), leave)
        return hidden, [hidden, cell]

    @property
    def state_shape(self) -> list[list[int]]:
        return [[self.hidden_size], [self.hidden_size]]


def rnn(
    cell: RNNCell,
    inputs: Nested,
    initial_states: Nested = None,
    sequence_length: Variable | None = None,
    time_major: bool = False,
    is_reverse: bool = False,
    **kwargs: Any,
) -> tuple[Nested, Nested]:
    """Run a cell over sequences [n, t, …] (or [t, n, …] if `time_major`).

    Returns the outputs and the final states. States start as zeros by default, and do not change
    after `sequence_length` [n]. Paddle page: fluid.layers.rnn.
    """
    if initial_states is None:
        at = 1 if time_major else 0
        initial_states = cell.get_initial_states(batch_ref=inputs, batch_dim_idx=at)
    sequences = inputs if time_major else _map(swap_time, inputs)
    mask = None
    if sequence_length is not None:
        first = leaves(sequences)[0]
        steps: Any = first.shape[0] if first.shape[0] >= 0 else slice_(shape(first), [0], [0], [1])
        dtype = leaves(initial_states)[0].dtype
        mask = transpose(sequence_mask(sequence_length, steps, dtype), [1, 0])
    if is_reverse:
        sequences = _map(lambda x: flip(x, [0]), sequences)
        mask = None if mask is None else flip(mask, [0])
    walk = StaticRNN()
    with walk.step():
        items = _map(walk.step_input, sequences)
        live = None if mask is None else walk.step_input(mask)
        states = _map(lambda x: walk.memory(init=x), initial_states)
        outputs, new_states = cell.call(items, states, **kwargs)
        if live is not None:
            new_states = _map(lambda new, old: mask_state(live, new, old), new_states, states)
        _map(walk.update_memory, states, new_states)
        _map(walk.step_output, outputs)
        _map(walk.step_output, new_states)
    made = walk()
    made = iter(made if isinstance(made, list) else [made])
    outputs = _map(lambda _: next(made), outputs)
    finals = _map(lambda _: last_item(next(made)), new_states)
    if is_reverse:
        outputs = _map(lambda x: flip(x, [0]), outputs)
    return outputs if time_major else _map(swap_time, outputs), finals


def mask_state(live: Variable, new: Variable, old: Variable) -> Variable:
    """Select the new state where the sequence still goes on, else the old one."""
    share = reshape(live, [-1, *[1] * (len(new.shape) - 1)])
    return mix(share, old, new, False)


def last_item(x: Variable) -> Variable:
    """Slice the last item off the first axis."""
    return squeeze(slice_(x, [0], [-1], [2**31 - 1]), [0])
