"""Models as readable source code, in functions of Paddle or of JAX.

A script stands alone: its weights are in a `.safetensors` file beside it, which it reads itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.retyped import retype_module
from graphopt.ir.dialect.signature import FEED, Port
from graphopt.ir.dialect.types import UNKNOWN, Tensor, tensor
from graphopt.ir.dtypes import DType
from graphopt.ir.formats.commit import write_files
from graphopt.models.export.safetensors_file import NAMES as _NAMES
from graphopt.models.export.safetensors_file import safetensors_bytes
from graphopt.models.export.source.calls import literal
from graphopt.models.export.source.functions import SourceFunction, divide
from graphopt.models.export.source.program import SourceProgram, read_program
from graphopt.models.export.source.script import (
    JAX_FUNCTIONS,
    TAKEN,
    FunctionText,
    identifier,
    wrap_line,
)

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from graphopt.ir.formats.model import LoadedModel

STYLES = ("paddle", "jax")
# the sizes of open axes in the example that a script runs
EXAMPLE_SIZES = (2, 4, 8, 16, 32, 64, 128, 256)


def write_source(path: Path, model: LoadedModel, module: ModuleOp, style: str) -> list[Path]:
    """Write a model as a script, and its weights beside it; return both files, the script first.

    Raises UnsupportedError with all ops that have no readable form, before anything is written, and
    for a program that updates state; ValueError for an unknown style.
    """
    if style not in STYLES:
        raise ValueError(f"style should be one of {', '.join(STYLES)}, found {style!r}")
    program = read_program(module, model.fed_names, style)
    weights = path.with_suffix(".safetensors")
    arrays = {
        ".".join(place): np.asarray(model.parameters[name])
        for name, place in program.weights.items()
    }
    text = source_of(program, path.stem, weights.name, style, _example_size(module))
    contents: dict[Path, Sequence[bytes | memoryview]] = {path: [text.encode()]}
    if arrays:
        contents[weights] = [safetensors_bytes(arrays)]
    write_files({file: list(parts) for file, parts in contents.items()})
    return list(contents)


def _example_size(module: ModuleOp) -> int:
    """Find a size for the open axes of all inputs with which every op has a result.

    A window of 3 by 3 does not fit 2 by 2 pixels. Falls back to the smallest size.
    """

    def type_for(size: int, port: Port) -> Tensor:
        shape = [size if each == UNKNOWN else each for each in port.shape]
        return tensor(shape, port.dtype) if port.kind == FEED else port.type

    for size in EXAMPLE_SIZES:
        if retype_module(module, partial(type_for, size), PdOp.attr_values) is not None:
            return size
    return EXAMPLE_SIZES[0]


def source_of(
    program: SourceProgram,
    title: str,
    weights: str,
    style: str,
    example_size: int = EXAMPLE_SIZES[0],
) -> str:
    """Write the script; it runs on inputs whose open axes have `example_size`."""
    functions, calls = divide(program.calls, program.outputs)
    program.calls = calls
    parts = [_function(each) for each in functions]
    names = _argument_names(program, functions)
    parts.append(_network(program, names))
    body = "\n\n\n".join(parts)
    has_weights = bool(program.weights)
    fill = _JAX if style == "jax" else _PADDLE
    helpers = _helpers(body) if style == "jax" else []
    load = _LOAD.format(name=literal(weights))
    text = fill.format(
        size=example_size,
        title=re.sub(r'[\\"]', "_", title),
        body="\n\n\n".join([*helpers, body]),
        weights=weights,
        x64='jax.config.update("jax_enable_x64", True)\n\n' if program.is_wide else "",
        inputs=_inputs(program.inputs),
        names=", ".join(names),
        read=_read(program) if has_weights else "",
        load=load if has_weights else "{}",
        make_weights=_MAKE_WEIGHTS.format(load=load) if has_weights else _NO_WEIGHTS,
        set_weights=_SET_WEIGHTS if has_weights else "",
        one="[outputs]" if len(program.outputs) == 1 else "list(outputs)",
        imports=_imports("\n\n".join([*helpers, body]), style, has_weights),
    )
    return re.sub(r"\n{4,}", "\n\n\n", text)


def _read(program: SourceProgram) -> str:
    """Compose the function that reads weights, for the dtypes in use."""
    own = dict.fromkeys(_NAMES[dtype] for dtype in program.dtypes)
    names = {
        name: f'"{dtype}"' if DType(dtype).is_of_numpy else f"jnp.{dtype}"
        for dtype, name in _NAMES.items()
    }
    rows = ", ".join(f'"{name}": {names[name]}' for name in own)
    return _READ.replace("DTYPES_OF_WEIGHTS", f"{{{rows}}}")


def _argument_names(program: SourceProgram, functions: Sequence[SourceFunction]) -> list[str]:
    """Name the parameters of the inputs, distinct from the functions that the script calls."""
    names: list[str] = []
    taken = {*TAKEN, *(function.name for function in functions)}
    for port in program.inputs:
        name = identifier(port.name)
        while name in taken:
            name += "_"
        taken.add(name)
        names.append(name)
    return names


def _function(function: SourceFunction) -> str:
    body = FunctionText()
    for value in function.values:
        body.names[value] = body.new_name(set(body.names.values()) | set(function.parameters))
    head = ", ".join(["w", *body.names.values(), *function.parameters])
    body.reserved = frozenset(function.parameters)
    lines = body.write(function.calls, [function.result])
    return "\n".join([*wrap_line(f"def {function.name}({head}):"), *lines])


def _network(program: SourceProgram, names: Sequence[str]) -> str:
    body = FunctionText(dict(zip(program.values, names, strict=True)))
    body.fixed = {v for v, name in body.names.items() if name != "x"}
    head = ", ".join(["w", *names])
    lines = body.write(program.calls, program.outputs)
    jitted = ["@jax.jit"] if program.is_traced else []
    return "\n".join([*jitted, *wrap_line(f"def network({head}):"), *lines])


def _helpers(body: str) -> list[str]:
    """Collect the sources of the helper functions that a text calls, directly or indirectly."""
    called = re.compile(r"(?<![\w.])(\w+)\(")
    wanted, queue = set[str](), [body]
    while queue:
        for name in called.findall(queue.pop()):
            if name in JAX_FUNCTIONS and name not in wanted:
                wanted.add(name)
                queue.append(JAX_FUNCTIONS[name])
    return [text for name, text in JAX_FUNCTIONS.items() if name in wanted]


def _imports(text: str, style: str, has_weights: bool) -> str:
    lines = ["import json"] * has_weights + ["from pathlib import Path"] * has_weights
    lines += ["import sys"] if style == "paddle" else []
    lines = sorted(lines, key=lambda line: line.startswith("from"))
    third = ["import jax"] if style == "jax" else []
    if style == "jax":
        third += ["import jax.numpy as jnp"] if "jnp." in text else []
    third += ["import numpy as np"]
    if style == "jax":
        third += ["from jax import lax"] if re.search(r"\blax\.", text) else []
    else:
        third += ["import paddle"]
        third += ["import paddle.nn.functional as F"] if re.search(r"\bF\.", text) else []
    return "\n".join([*lines, *([""] if lines else []), *third])


def _inputs(inputs: Sequence[Port]) -> str:
    rows: list[str] = []
    for port in inputs:
        sizes = [None if size < 0 else size for size in port.shape]
        shape = json.dumps(sizes).replace("null", "None")
        rows.append(f'    {literal(port.name)}: ({shape}, "{port.dtype}"),')
    return "\n".join(rows)


_READ = '''

def read_weights(path):
    """The arrays of a .safetensors file, by layer and by what they are for."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    weights = {}
    for name, entry in json.loads(data[8:start]).items():
        layer, _, role = name.rpartition(".")
        begin, end = (start + at for at in entry["data_offsets"])
        dtype = DTYPES_OF_WEIGHTS[entry["dtype"]]
        array = np.frombuffer(data[begin:end], dtype).reshape(entry["shape"])
        weights.setdefault(layer, {})[role] = array
    return weights
'''

_JAX = '''"""{title} in functions of JAX, written by `graphopt convert`."""

{imports}

{x64}INPUTS = {{
{inputs}
}}


{body}
{read}

if __name__ == "__main__":
    weights = {load}
    example = [
        np.zeros([{size} if size is None else size for size in shape], dtype)
        for shape, dtype in INPUTS.values()
    ]
    outputs = network(weights, *example)
    for output in jax.tree.leaves(outputs):
        print(output.shape, output.dtype)
'''

_LOAD = "read_weights(Path(__file__).with_name({name}))"

_PADDLE = '''"""{title} in functions of Paddle, written by `graphopt convert`."""

{imports}

INPUTS = {{
{inputs}
}}


{body}
{read}

def build():
    """The executor, the program with its weights, its inputs and its outputs."""
    paddle.enable_static()
    place = paddle.CPUPlace()
    executor, program = paddle.static.Executor(place), paddle.static.Program()
    with paddle.static.program_guard(program, paddle.static.Program()):
{make_weights}        inputs = [paddle.static.data(name, *kind) for name, kind in INPUTS.items()]
        outputs = network(w, *inputs)
        outputs = {one}
{set_weights}    return executor, program, inputs, outputs


if __name__ == "__main__":
    executor, program, inputs, outputs = build()
    if sys.argv[1:]:
        paddle.static.save_inference_model(sys.argv[1], inputs, outputs, executor, program=program)
    example = {{
        name: np.zeros([{size} if size is None else size for size in shape], dtype)
        for name, (shape, dtype) in INPUTS.items()
    }}
    for output in executor.run(program, feed=example, fetch_list=outputs):
        print(output.shape, output.dtype)
'''

_MAKE_WEIGHTS = """\
        arrays = {load}
        w = {{
            layer: {{
                role: paddle.static.create_parameter(
                    array.shape, str(array.dtype), name=f"{{layer}}.{{role}}"
                )
                for role, array in roles.items()
            }}
            for layer, roles in arrays.items()
        }}
"""
_NO_WEIGHTS = """\
        w = {}
"""
_SET_WEIGHTS = """\
        executor.run(paddle.static.default_startup_program())
    for layer, roles in arrays.items():
        for role, array in roles.items():
            variable = paddle.static.global_scope().find_var(f"{layer}.{role}")
            variable.get_tensor().set(array, place)
"""
