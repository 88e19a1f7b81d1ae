"""Recurrent layers over sequences of different lengths (paddle.fluid.layers)."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper
from graphopt.frontend.parameters import as_param_attr, as_weight_attr
from graphopt.frontend.sequence_notes import note
from graphopt.frontend.sequences import of_one_level
from graphopt.ir.program import Variable
from graphopt.ir.program.kinds import SLOT
from graphopt.ir.program.lengths import levels_of


def _rows(input: Variable, width: int, function: str) -> dict[str, Variable]:
    """Check the input rows of a layer for their width; return them and their lengths by slot."""
    shape = arguments.variable(input, "input", function).shape
    if len(shape) != 2 or shape[1] not in (width, -1):
        raise ValueError(
            f"{function}(): 'input' should be [rows, {width}], found {list(shape)}; put a fc of "
            "this size before it"
        )
    return {"Input": input, SLOT: of_one_level(input, function, "input")}


def _states(function: str, **given: tuple[Variable | None, int]) -> dict[str, Variable]:
    """Check the initial states, each [sequences, size]; return by slot those that are set."""
    found: dict[str, Variable] = {}
    for slot, (state, size) in given.items():
        name = f"{slot[0].lower()}_0"
        if state is None:
            continue
        shape = arguments.variable(state, name, function).shape
        if len(shape) != 2 or shape[1] not in (size, -1):
            raise ValueError(
                f"{function}(): '{name}' should be [sequences, {size}], found {list(shape)}"
            )
        found[slot] = state
    return found


def _activations(function: str, **given: str) -> dict[str, str]:
    from graphopt.ir.dialect.ops.sequence.recurrent import ACTIVATIONS

    return {n: arguments.choice(value, n, function, ACTIVATIONS) for n, value in given.items()}


def _bias(helper: LayerHelper, attr: Any, width: int, dtype: Any, function: str) -> Variable:
    if attr is False:
        raise ValueError(f"{function}(): 'bias_attr' should not be False in {function}")
    return helper.parameter(as_weight_attr(attr, function), [1, width], dtype, is_bias=True)


def dynamic_lstm(
    input: Variable,
    size: int,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    dtype: Any = "float32",
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Run a long short-term memory over sequences (fluid.layers.dynamic_lstm).

    Returns the hidden states and the cells. The input is [rows, 4d], projected by a fc before it,
    `size` is 4d. The weight is [d, 4d], the bias [1, 4d], or [1, 7d] with the weights of the
    peepholes. The initial states are 0, or h_0 and c_0 [sequences, d]. As in Paddle, no gradient
    flows through the returned cells.
    """
    function = "dynamic_lstm"
    width = arguments.integer(size, "size", function) // 4 * 4
    d = width // 4
    inputs = _rows(input, width, function) | _states(function, H0=(h_0, d), C0=(c_0, d))
    attrs: dict[str, Any] = {
        "use_peepholes": arguments.flag(use_peepholes, "use_peepholes", function),
        "is_reverse": arguments.flag(is_reverse, "is_reverse", function),
    }
    attrs |= _activations(
        function,
        gate_activation=gate_activation,
        cell_activation=cell_activation,
        candidate_activation=candidate_activation,
    )
    helper = LayerHelper("lstm", name)
    weight = as_weight_attr(param_attr, function)
    inputs["Weight"] = helper.parameter(weight, [d, width], dtype)
    inputs["Bias"] = _bias(helper, bias_attr, 7 * d if use_peepholes else width, dtype, function)
    hidden, cell = helper.emit_all("lstm", inputs, attrs, ("Hidden", "Cell"))
    return note(hidden, levels_of(input)), note(cell, levels_of(input))


def dynamic_lstmp(
    input: Variable,
    size: int,
    proj_size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    proj_activation: str = "tanh",
    dtype: Any = "float32",
    name: str | None = None,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    cell_clip: float | None = None,
    proj_clip: float | None = None,
) -> tuple[Variable, Variable]:
    """Run `dynamic_lstm` with hidden states projected to `proj_size` (layers.dynamic_lstmp).

    Returns the projected states [rows, p] and the cells [rows, d]. The weights are [p, 4d] and
    [d, p]; h_0 is [sequences, p]. Cells and projections are clipped to `cell_clip` and `proj_clip`.
    As in Paddle 1.8, a `proj_activation` other than identity stands for the `cell_activation`, and
    no gradient flows through the returned cells.
    """
    function = "dynamic_lstmp"
    width = arguments.integer(size, "size", function) // 4 * 4
    d, p = width // 4, arguments.integer(proj_size, "proj_size", function)
    inputs = _rows(input, width, function) | _states(function, H0=(h_0, p), C0=(c_0, d))
    clips = {"cell_clip": cell_clip, "proj_clip": proj_clip}
    attrs: dict[str, Any] = {
        n: 0.0 if value is None else arguments.number(value, n, function)
        for n, value in clips.items()
    }
    if min(attrs.values()) < 0:
        raise ValueError(f"{function}(): 'cell_clip' and 'proj_clip' should not be negative")
    attrs |= {
        "use_peepholes": arguments.flag(use_peepholes, "use_peepholes", function),
        "is_reverse": arguments.flag(is_reverse, "is_reverse", function),
    }
    attrs |= _activations(
        function,
        gate_activation=gate_activation,
        cell_activation=cell_activation,
        candidate_activation=candidate_activation,
        proj_activation=proj_activation,
    )
    helper = LayerHelper("lstmp", name)
    weight = as_weight_attr(param_attr, function)
    inputs["Weight"] = helper.parameter(weight, [p, width], dtype)
    inputs["ProjWeight"] = helper.parameter(weight, [d, p], dtype)
    inputs["Bias"] = _bias(helper, bias_attr, 7 * d if use_peepholes else width, dtype, function)
    made, cell = helper.emit_all("lstmp", inputs, attrs, ("Projection", "Cell"))
    return note(made, levels_of(input)), note(cell, levels_of(input))


def dynamic_gru(
    input: Variable,
    size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    candidate_activation: str = "tanh",
    h_0: Variable | None = None,
    origin_mode: bool = False,
) -> Variable:
    """Run a gated recurrent unit over sequences: hidden states [rows, d] (layers.dynamic_gru).

    The input is [rows, 3d], projected by a fc before it, `size` is d. The weight [d, 3d] holds the
    matrix [d, 2d] of both gates, then the matrix [d, d] of the candidate; `origin_mode` swaps the
    states that the update gate keeps and takes. The initial state is 0, or h_0 [sequences, d].
    """
    function = "dynamic_gru"
    d = arguments.integer(size, "size", function)
    inputs = _rows(input, 3 * d, function) | _states(function, H0=(h_0, d))
    helper = LayerHelper("gru")
    inputs["Weight"] = helper.parameter(
        as_weight_attr(param_attr, function), [d, 3 * d], input.dtype
    )
    bias = as_param_attr(bias_attr)
    if bias is not None:
        inputs["Bias"] = helper.parameter(bias, [1, 3 * d], input.dtype, is_bias=True)
    chosen = _activations(
        function, gate_activation=gate_activation, candidate_activation=candidate_activation
    )
    attrs: dict[str, Any] = {
        "is_reverse": arguments.flag(is_reverse, "is_reverse", function),
        "gate_activation": chosen["gate_activation"],
        "activation": chosen["candidate_activation"],
        "origin_mode": arguments.flag(origin_mode, "origin_mode", function),
    }
    return note(helper.emit("gru", inputs, attrs, out="Hidden"), levels_of(input))
