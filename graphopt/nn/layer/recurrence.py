"""Running a cell over sequences: by one operator for built-in cells, else step by step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.ir.program import Variable
from graphopt.nn.layer.rnn_cells import GatedCell, GRUCell, LSTMCell, SimpleRNNCell
from graphopt.nn.layer.structure import first, leaves, map_structure
from graphopt.tensor.creation import full
from graphopt.tensor.linalg import transpose
from graphopt.tensor.logic import less_than
from graphopt.tensor.manipulation import concat, squeeze, stack, unsqueeze
from graphopt.tensor.rearrange import flip, unbind
from graphopt.tensor.search import where

BUILT_IN = (SimpleRNNCell, LSTMCell, GRUCell)


def swap_time(x: Variable) -> Variable:
    """Swap batch-major and time-major order."""
    return transpose(x, [1, 0, *range(2, len(x.shape))])


def all_weights(cells: Sequence[GatedCell]) -> list[Variable]:
    """List the weights of cells in the rnn operator's order: weights, biases, projections."""
    weights = [w for cell in cells for w in (cell.weight_ih, cell.weight_hh)]
    biases = [b for cell in cells for b in (cell.bias_ih, cell.bias_hh)]
    return [*weights, *biases, *(cell.weight_ho for cell in cells if cell.proj_size)]


def emit_rnn(
    helper: LayerHelper,
    inputs: Variable,
    states: Sequence[Variable],
    cells: Sequence[GatedCell],
    sequence_length: Variable | None,
    *,
    type: str = "rnn",
    dropout_state: Variable | None = None,
    **attrs: Any,
) -> tuple[Variable, list[Variable]]:
    """Emit the rnn operator on time-major inputs and stacked states; return outputs and states."""
    out, *finals = (helper.temporary() for _ in range(len(states) + 1))
    reserve = helper.temporary(stop_gradient=True)
    cell = cells[0]
    slots = {
        "Input": inputs,
        "PreState": list(states),
        "WeightList": all_weights(cells),
        "SequenceLength": sequence_length,
    }
    outputs = {"Out": out, "State": finals, "Reserve": reserve, "DropoutState": dropout_state}
    common = {
        "dropout_prob": 0.0,
        "is_bidirec": False,
        "input_size": cell.input_size,
        "hidden_size": cell.hidden_size,
        "num_layers": 1,
        "mode": cell.mode,
        "is_test": False,
        "seed": 0,
    }
    helper.append_op(type, slots, outputs, {**common, **attrs})
    reserve.shape, reserve.dtype = (), "uint8"
    return out, finals


def run_cell(
    cell: Any,
    inputs: Any,
    initial_states: Any = None,
    sequence_length: Variable | None = None,
    time_major: bool = False,
    is_reverse: bool = False,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """Run a cell over all steps; return its outputs and final states.

    Inputs are [batch, time, ...] (or, with `time_major`, [time, batch, ...]), and so are outputs.
    Past a sequence's length [batch] its states do not change. Raises UnsupportedError for a user's
    own cell if the number of steps is unknown.
    """
    if sequence_length is not None:
        arguments.variable(sequence_length, "sequence_length", "RNN")
    if initial_states is None:
        axis = 1 if time_major else 0
        initial_states = cell.get_initial_states(batch_ref=inputs, batch_dim_idx=axis)
    if is_plain(cell, inputs) and not kwargs:
        inputs = inputs if time_major else swap_time(inputs)
        outputs, finals = _by_operator(cell, inputs, initial_states, sequence_length, is_reverse)
        return outputs if time_major else swap_time(outputs), finals
    axis = 0 if time_major else 1
    return _unroll_cell(cell, inputs, initial_states, sequence_length, axis, is_reverse, kwargs)


def is_plain(cell: Any, inputs: Any) -> bool:
    """True for a built-in cell with its own forward and without hooks, on ordinary sequences."""
    if type(cell) not in BUILT_IN:
        return False
    changed = "forward" in vars(cell) or cell._forward_pre_hooks or cell._forward_post_hooks
    return not changed and isinstance(inputs, Variable) and len(inputs.shape) == 3


def _by_operator(
    cell: GatedCell,
    inputs: Variable,
    states: Any,
    sequence_length: Variable | None,
    is_reverse: bool,
) -> tuple[Variable, Any]:
    """Run time-major inputs through one operator.

    Paddle's own operator supports neither outputs of padded steps nor a projection.
    """
    own = sequence_length is not None or cell.proj_size
    attrs: dict[str, Any] = {}
    if own:
        attrs = {"type": "pd_rnn", "is_reverse": is_reverse, "zero_padding": False}
        attrs["proj_size"] = cell.proj_size
    backwards = is_reverse and not own
    inputs = flip(inputs, 0) if backwards else inputs
    stacked = [unsqueeze(arguments.variable(s, "initial_states", "RNN"), 0) for s in leaves(states)]
    helper = LayerHelper("rnn")
    out, finals = emit_rnn(helper, inputs, stacked, [cell], sequence_length, **attrs)
    out = flip(out, 0) if backwards else out
    finals = [squeeze(final, 0) for final in finals]
    return out, tuple(finals) if len(finals) > 1 else finals[0]


def _unroll_cell(
    cell: Any,
    inputs: Any,
    states: Any,
    sequence_length: Variable | None,
    time_axis: int,
    is_reverse: bool,
    kwargs: Any,
) -> tuple[Any, Any]:
    """Call the cell once per step."""
    steps = arguments.variable(first(inputs), "inputs", "RNN").shape[time_axis]
    if steps <= 0:
        raise UnsupportedError(
            f"RNN(): the cell {type(cell).__name__} is called once for each step, so the time "
            f"dimension of 'inputs' must be known when the program is built, found "
            f"{list(first(inputs).shape)}. Declare it with a fixed length, or use SimpleRNNCell, "
            "LSTMCell or GRUCell, which take any length"
        )
    by_step = [unbind(x, time_axis) for x in leaves(inputs)]
    outputs: list[Any] = []
    for step in reversed(range(steps)) if is_reverse else range(steps):
        now = iter([parts[step] for parts in by_step])
        out, new = cell(map_structure(lambda _, now=now: next(now), inputs), states, **kwargs)
        if sequence_length is not None:
            live = less_than(full([1], step, sequence_length.dtype), sequence_length)
            new = map_structure(lambda n, s, live=live: _choose(live, n, s), new, states)
        states = new
        outputs.append(out)
    outputs = outputs[::-1] if is_reverse else outputs
    return map_structure(lambda *parts: stack(parts, time_axis), *outputs), states


def _choose(live: Variable, new: Variable, old: Variable) -> Variable:
    """Select the new state of the sequences [batch] that continue, the old state of the others."""
    for _ in new.shape[1:]:
        live = unsqueeze(live, -1)
    return where(live, new, old)


def run_cells(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    initial_states: Any = None,
    sequence_length: Variable | None = None,
    time_major: bool = False,
    **kwargs: Any,
) -> tuple[Any, Any]:
    """Run cells in both directions; join the outputs in the last axis, return both states."""
    forward, backward = (None, None) if initial_states is None else initial_states
    out_fw, end_fw = run_cell(cell_fw, inputs, forward, sequence_length, time_major, **kwargs)
    out_bw, end_bw = run_cell(
        cell_bw, inputs, backward, sequence_length, time_major, True, **kwargs
    )
    outputs = map_structure(lambda a, b: concat([a, b], -1), out_fw, out_bw)
    return outputs, (end_fw, end_bw)
