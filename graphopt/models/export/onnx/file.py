"""An ONNX file of a model, with its parameters inside, or in a second file if they are large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx_ir as ir
from xdsl.dialects.builtin import ModuleOp

from graphopt.errors import UnsupportedError
from graphopt.ir.formats.commit import write_files
from graphopt.ir.formats.model import LoadedModel
from graphopt.models.export.function import ExportedFunction, function_of
from graphopt.models.export.onnx import OPSET
from graphopt.models.export.onnx.graph import IR_VERSIONS, graph_of
from graphopt.models.export.onnx.graph import refusals_of as refusals_of

INSIDE = 2**31 - 2**20
"""The most bytes of parameters in the file itself: protobuf reads no message of 2 GB."""
SMALL = 1024
"""The most bytes of a constant that stays in the file, where readers look for shapes."""


def checked_opset(opset: int | None) -> int:
    """Return the opset, by default the usual one; raise ValueError for an unsupported one."""
    if opset is not None and opset not in IR_VERSIONS:
        known = ", ".join(map(str, IR_VERSIONS))
        raise ValueError(f"opset {opset} is not supported; supported opsets are {known}")
    return opset or OPSET


def write(
    path: Path, model: LoadedModel, module: ModuleOp, opset: int | None = None
) -> tuple[list[Path], ExportedFunction]:
    """Write the files of `write_onnx`."""
    made, function = onnx_model(model, module, checked_opset(opset))
    held = [v for v in made.graph.initializers.values() if v.const_value is not None]
    sizes = [value.const_value.nbytes for value in held if value.const_value is not None]
    contents: dict[Path, Sequence[bytes | memoryview]] = {}
    files = [path]
    if sum(sizes) > INSIDE:
        files.append(path.with_name(f"{path.name}.data"))
        contents[files[1]] = _moved_out(held, files[1])
    contents[path] = [ir.to_proto(made).SerializeToString()]
    write_files({file: list(parts) for file, parts in contents.items()})
    return files, function


def _moved_out(held: Sequence[ir.Value], file: Path) -> list[bytes | memoryview]:
    """Collect the bytes of large parameters, and make the values refer to the data file."""
    parts: list[bytes | memoryview] = []
    at = 0
    for value in held:
        tensor = value.const_value
        assert tensor is not None and value.name is not None
        if tensor.nbytes <= SMALL:
            continue
        array = np.ascontiguousarray(tensor.numpy())
        parts.append(memoryview(array.reshape(-1).view(np.uint8).data))
        shape = ir.Shape(array.shape)
        value.const_value = ir.ExternalTensor(
            file.name, at, array.nbytes, tensor.dtype, shape=shape, name=value.name
        )
        at += array.nbytes
    return parts


def onnx_model(
    model: LoadedModel, module: ModuleOp, opset: int = OPSET
) -> tuple[ir.Model, ExportedFunction]:
    """Convert a module and its parameters to an ONNX model; return it and the function."""
    function = function_of(model, module, "arguments")
    written = function.plan.written
    if written:
        raise UnsupportedError(
            f"the program updates '{written[0].name}', but an ONNX model keeps no state; write the "
            "inference program (static.save_inference_model, or Program.clone(for_test=True))"
        )
    parameters: Mapping[str, object] = model.parameters
    values = {port.name: np.asarray(parameters[port.name]) for port in function.state}
    return graph_of(module, values, function.feeds, opset), function
