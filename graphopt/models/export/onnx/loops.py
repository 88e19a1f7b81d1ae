"""Scans that rules write themselves: one step of a recurrence along the first axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value, dtype_of, sizes_of

Step = Callable[[Nodes, Value, Sequence[Value]], tuple[Value, Value]]


def scanned(
    emit: Nodes, state: Value, sequences: Sequence[Value], step: Step, reverse: bool
) -> Value:
    """The results of all steps; a step makes the next state and a result of the state and items.

    Raises NotInOnnx where there is no step: ONNX Runtime fails then.
    """
    if any(sizes_of(value)[0] == 0 for value in sequences if value.shape is not None):
        raise NotInOnnx("it has no steps")
    own = Nodes(emit.shared, base=emit.base)
    inputs = [
        ir.Value(name=emit.shared.name(f"{emit.base}.item"), type=value.type)
        for value in (state, *sequences)
    ]
    following, result = step(own, inputs[0], inputs[1:])
    outputs = [own("Identity", following), own("Identity", result)]
    for node in own.nodes:
        node.name = node.outputs[0].name
    body = ir.Graph(inputs, outputs, nodes=own.nodes, name="step")
    _, found = emit.all(
        "Scan",
        *(state, *sequences),
        dtypes=[dtype_of(state), dtype_of(result)],
        body=body,
        num_scan_inputs=len(sequences),
        scan_input_directions=[int(reverse)] * len(sequences),
        scan_output_directions=[int(reverse)],
    )
    return found
