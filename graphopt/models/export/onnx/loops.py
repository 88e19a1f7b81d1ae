"""Scans that rules write directly: one step of a recurrence along the first axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import onnx_ir as ir

from graphopt.models.export.onnx.nodes import (
    Nodes,
    NotInOnnx,
    Value,
    dtype_of,
    finish_nodes,
    sizes_of,
)

Values: TypeAlias = Sequence[Value]
# (nodes of the step, states before it, its items) -> (states after it, results)
Step: TypeAlias = Callable[[Nodes, Values, Values], tuple[Values, Values]]


def scan(
    emit: Nodes, states: Values, sequences: Values, step: Step, reverse: bool = False
) -> tuple[Values, Values]:
    """Emit a Scan; return the states after the last step, and the results of all steps.

    Raises NotInOnnx for a scan without steps, which ONNX Runtime cannot run.
    """
    if any(sizes_of(value)[0] == 0 for value in sequences if value.shape is not None):
        raise NotInOnnx("the number of steps is 0")
    own = Nodes(emit.shared, base=emit.base)
    inputs = [
        ir.Value(name=emit.shared.name(f"{emit.base}.item"), type=value.type)
        for value in (*states, *sequences)
    ]
    for value, state in zip(inputs, states, strict=False):
        value.shape = state.shape
    following, results = step(own, inputs[: len(states)], inputs[len(states) :])
    outputs = [own("Identity", value) for value in (*following, *results)]
    body = ir.Graph(inputs, outputs, nodes=finish_nodes(own.nodes, outputs), name="step")
    found = emit.all(
        "Scan",
        *states,
        *sequences,
        dtypes=[dtype_of(value) for value in outputs],
        body=body,
        num_scan_inputs=len(sequences),
        scan_input_directions=[int(reverse)] * len(sequences),
        # an empty list has no type
        scan_output_directions=[int(reverse)] * len(results) or None,
    )
    return found[: len(states)], found[len(states) :]
