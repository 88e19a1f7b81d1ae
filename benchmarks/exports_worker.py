"""One reader of exports.py, in its own process: run a written model on saved inputs.

    python exports_worker.py onnxruntime|openvino|iree FILE INPUTS.npz OUTPUTS.npz
    python exports_worker.py jax2onnx MODEL INPUTS.npz FILE.onnx

The last one writes a model instead, with graphopt in PYTHONPATH. An input has its name or, for
IREE, its position in the `.json` file beside the model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Arrays = Mapping[str, Any]


def by_onnxruntime(path: str, inputs: Arrays) -> list[Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    ports = session.get_inputs()
    known = all(port.name in inputs for port in ports)
    values = list(inputs.values())
    given = {p.name: inputs[p.name] if known else values[i] for i, p in enumerate(ports)}
    return list(session.run(None, given))


def by_openvino(path: str, inputs: Arrays) -> list[Any]:
    import openvino

    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(path, "CPU", settings)
    names = [port.get_names() for port in compiled.inputs]
    given = {n: v for n, v in inputs.items() if any(n in each for each in names)}
    found = compiled(given)
    return [found[port] for port in compiled.outputs]


def by_iree(path: str, inputs: Arrays) -> list[Any]:
    from iree import compiler, runtime

    about = json.loads(Path(f"{path}.json").read_text("utf-8"))
    code = compiler.compile_file(path, input_type="stablehlo", target_backends=["llvm-cpu"])
    context = runtime.SystemContext(config=runtime.Config("local-task"))
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, code))
    (module,) = (m for name, m in context.modules.items() if name != "hal")
    found = module.main(*(inputs[entry["name"]] for entry in about["arguments"]))
    return [np.asarray(v) for v in (found if isinstance(found, list | tuple) else [found])]


def write_by_jax2onnx(model: str, inputs: Arrays, target: str) -> None:
    import jax
    import jax2onnx
    from jax.extend.core import jaxpr_as_fun

    from graphopt import import_model
    from graphopt.models.export.function import function_of

    loaded = import_model(model)
    function = function_of(loaded, loaded.module(portable=True))
    given = [jax.ShapeDtypeStruct(inputs[p.name].shape, p.dtype.numpy) for p in function.feeds]
    with jax.enable_x64(True):
        # jax2onnx replaces functions of jax.numpy by its own, which have other parameters
        traced = jaxpr_as_fun(jax.make_jaxpr(function)(*given))
        jax2onnx.to_onnx(traced, given, return_mode="file", output_path=target)


READERS: Mapping[str, Callable[[str, Arrays], list[Any]]] = {
    "onnxruntime": by_onnxruntime,
    "openvino": by_openvino,
    "iree": by_iree,
}


def main(reader: str, path: str, inputs: str, target: str) -> None:
    """Run, or write, one model."""
    with np.load(inputs) as file:
        arrays = {name: file[name] for name in file.files}
    if reader == "jax2onnx":
        write_by_jax2onnx(path, arrays, target)
        return
    found = READERS[reader](path, arrays)
    np.savez(target, **{f"out{at}": np.asarray(value) for at, value in enumerate(found)})


if __name__ == "__main__":
    main(*sys.argv[1:])
