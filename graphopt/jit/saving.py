"""`save`: the traced programs of a layer or a function in files that Paddle loads (jit.save)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphopt.frontend import nest
from graphopt.ir.formats.commit import write_files
from graphopt.ir.formats.pickle.writer import write_pickle
from graphopt.ir.program import Parameter, Variable
from graphopt.jit.static_function import StaticFunction
from graphopt.jit.trace import Trace
from graphopt.nn.layer.layers import Layer

# the arguments with an effect here
_CONFIGS = ("output_spec", "with_hook", "clip_extra", "skip_forward")


def save(layer: Any, path: str, input_spec: Sequence[Any] | None = None, **configs: Any) -> None:
    """Write a layer's `forward`, or a function, with its parameters (paddle.jit.save).

    The files are `path`.pdmodel and `path`.pdiparams, for each other method of `to_static`
    `path`.<method>.pdmodel and .pdiparams, and for a layer `path`.pdiparams.info, which has the
    names of the parameters in the layer. Parameters have their values in the global scope, initial
    ones if they were never trained; the programs are in test mode. `input_spec` is as for
    `to_static`, which may have it instead. `output_spec` lists the results of `forward` to keep, by
    position or as Variables of its trace. `skip_forward` saves only the other methods. A layer's
    hooks are saved as part of it.

    Raises TypeError for other objects than layers and functions, ValueError for an unknown
    argument, a path without a file name, and a function without an input_spec that was never
    called; ScopeError for a parameter without a value; and as `to_static`.
    """
    if not isinstance(layer, (Layer, StaticFunction)) and not callable(layer):
        raise TypeError(
            "The input of paddle.jit.save should be 'Layer' or 'Function', but received input "
            f"type is {type(layer)}."
        )
    if not os.path.basename(path):
        raise ValueError(
            "The input path MUST be format of dirname/file_prefix, but received file_prefix is "
            "empty string."
        )
    for name in configs:
        if name not in _CONFIGS:
            raise ValueError(
                f"The additional config ({name}) of `paddle.jit.save` is not supported."
            )
    functions = _functions(layer, input_spec, skip_forward=bool(configs.get("skip_forward")))
    if input_spec is not None and len(functions) > 1:
        raise ValueError(
            "If there are static functions other than 'forward' that need to be saved, the input "
            f"'input_spec' should be None, but received the type of 'input_spec' is "
            f"{type(input_spec)}."
        )
    used: dict[str, Variable] = {}
    for name, function in functions.items():
        trace = function.traced_for(input_spec)
        used.update((variable.name, variable) for variable in trace.parameters)
        prefix = path if name == "forward" else f"{path}.{name}"
        _write(prefix, trace, configs)
    if isinstance(layer, Layer) and used:
        info = write_pickle(_info(layer, used), protocol=2)
        write_files({Path(f"{path}.pdiparams.info"): info})


def _functions(
    layer: Any, input_spec: Sequence[Any] | None, *, skip_forward: bool
) -> dict[str, StaticFunction]:
    """Collect the functions of a layer to save, by method name."""
    if not isinstance(layer, Layer):
        is_static = isinstance(layer, StaticFunction)
        return {"forward": layer if is_static else StaticFunction(layer, input_spec)}
    found = {
        name: method
        for name in sorted({*dir(type(layer)), *vars(layer)})
        if isinstance(method := getattr(layer, name, None), StaticFunction)
    }
    if "forward" not in found:
        found["forward"] = StaticFunction(layer.forward, input_spec)
    if layer._forward_pre_hooks or layer._forward_post_hooks:
        found["forward"] = found["forward"].with_hooks()
    if skip_forward:
        del found["forward"]
    return found


def _write(prefix: str, trace: Trace, configs: dict[str, Any]) -> None:
    outputs = trace.output_variables
    if not outputs:
        raise ValueError(f"{prefix}: the function returns no tensor, so there is nothing to save")
    wanted = configs.get("output_spec")
    if wanted is not None:
        names = {v.name for v in nest.leaves(wanted) if isinstance(v, Variable)}
        chosen = [outputs[at] for at in nest.leaves(wanted) if isinstance(at, int)]
        outputs = chosen or [variable for variable in outputs if variable.name in names]
        if not outputs:
            raise ValueError(
                f"{prefix}: output_spec names none of the outputs "
                f"{[v.name for v in trace.output_variables]}"
            )
    trace.save(prefix, trace.inputs, outputs, clip_extra=configs.get("clip_extra", True))


def _info(layer: Layer, used: dict[str, Variable]) -> dict[str, dict[str, Any]]:
    """Collect the names of variables in the layer, and whether they are trained."""
    structured = {variable.name: name for name, variable in layer.state_dict().items()}
    structured.update((variable.name, name) for name, variable in layer.named_buffers())
    info: dict[str, dict[str, Any]] = {}
    for name, variable in used.items():
        entry: dict[str, Any] = {"structured_name": structured[name]} if name in structured else {}
        entry["stop_gradient"] = variable.stop_gradient
        if isinstance(variable, Parameter):
            entry["trainable"] = variable.trainable
        info[name] = entry
    return info
