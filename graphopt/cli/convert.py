"""graphopt convert: write a model in the format of another tool, and check the written files."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphopt.cli.model_arguments import add_dim, add_model, add_strategy
from graphopt.display.units import size
from graphopt.models.formats import FORMATS, PROGRAMS

if TYPE_CHECKING:
    from graphopt.models.export.write import Exported
    from graphopt.models.feeds import Sizes
    from graphopt.models.model import ImportedModel

ELSEWHERE = (
    "run it: use a StableHLO compiler such as XLA or IREE; "
    "docs/how-to/take-a-model-out.md shows the code for JAX"
)
EXAMPLE = "graphopt convert resnet18/model -o resnet18.jaxexport"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `graphopt convert`."""
    add_model(parser)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help=f"the file to write ({', '.join(FORMATS)})",
    )
    parser.add_argument(
        "--format", choices=FORMATS.values(), help="format to write (default: by the suffix of OUT)"
    )
    add_strategy(parser)
    add_dim(
        parser,
        "for dimensions that cannot stay unknown: a size for all, or the shape of an input",
    )
    parser.add_argument(
        "--parameters",
        choices=("inside", "arguments"),
        help="store parameters in the artifact or take them as arguments (executable formats)",
    )
    parser.add_argument(
        "--platforms",
        metavar="cpu,cuda,tpu",
        help="lower for these platforms (executable formats; StableHLO takes one)",
    )
    parser.add_argument("--opset", type=int, metavar="N", help="ONNX opset version (default: 20)")
    parser.add_argument(
        "--for",
        dest="reader",
        choices=("paddle", "openvino"),
        help="tool that will read the .pdmodel (default: paddle); OpenVINO reads fewer operators",
    )
    parser.add_argument(
        "--style",
        choices=("paddle", "jax"),
        help="library whose functions the .py file calls (default: paddle)",
    )
    parser.add_argument(
        "--check",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="run the model and the written files, and compare their outputs (default: yes)",
    )
    parser.add_argument(
        "--input", action="append", default=[], metavar="X.npz", help="inputs for --check"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the random inputs (default 0)")


def main(arguments: argparse.Namespace) -> int:
    """Write a model in another format; returns 1 when the check finds different numbers."""
    from graphopt.models.export.write import OPTIMIZED, format_of
    from graphopt.models.feeds import sizes_of
    from graphopt.models.model import import_model
    from graphopt.runtime.settings.progress import announce
    from graphopt.runtime.settings.strategy_text import strategy_of

    format = format_of(Path(arguments.output), arguments.format)
    text = arguments.build_strategy
    strategy = None if text is None else strategy_of(text)
    sizes = sizes_of(arguments.dim)
    model = import_model(arguments.model, arguments.params)
    options: dict[str, Any] = {}
    if format in PROGRAMS:
        platforms = arguments.platforms.split(",") if arguments.platforms else None
        options = {"sizes": sizes, "parameters": arguments.parameters, "platforms": platforms}
    elif sizes is not None and format in OPTIMIZED:
        options["sizes"] = sizes
    if arguments.opset is not None:
        options["opset"] = arguments.opset
    if arguments.reader is not None:
        options["reader"] = arguments.reader
    if arguments.style is not None:
        options["style"] = arguments.style
    with announce(lambda: f"writing {arguments.output}", files=False):
        exported = model.export(arguments.output, arguments.format, strategy, **options)
    for file in exported.files:
        print(f"wrote {file} ({size(file.stat().st_size)})")
    for note in exported.notes:
        print(f"note: {note}")
    command = how_to_run(exported, sizes)
    print(f"run it: {command}" if command else ELSEWHERE)
    return _check(model, exported, arguments, sizes) if arguments.check else 0


def how_to_run(exported: Exported, sizes: Sizes = None) -> str:
    """Compose a command that runs the written file on zeros; empty for a format without one."""
    path, shell_path = json.dumps(str(exported.path)), shlex.quote(str(exported.path))
    if exported.format == "jaxexport":
        return _python(
            "import jax, numpy as np",
            "from jax import export",
            *(['jax.config.update("jax_enable_x64", True)'] if _is_wide(exported) else []),
            f'f = export.deserialize(bytearray(open({path}, "rb").read()))',
            f"print(f.call({_zeros(exported, sizes)}))",
        )
    if exported.format == "onnx":
        assert exported.function is not None
        inputs = [e for e in exported.function.describe()["arguments"] if e["role"] == "input"]
        feed = ", ".join(f'"{entry["name"]}": {_zero(entry, sizes)}' for entry in inputs)
        return _python(
            "import numpy as np, onnxruntime",
            f"session = onnxruntime.InferenceSession({path})",
            f"print(session.run(None, {{{feed}}}))",
        )
    if exported.format.startswith("stablehlo"):
        return _by_iree(exported)
    return {
        "mlir": f"graphopt-opt {shell_path} --emit stablehlo",
        "safetensors": _python(
            "import safetensors.numpy", f"print(safetensors.numpy.load_file({path}).keys())"
        ),
        "npz": _python("import numpy", f"print(numpy.load({path}).files)"),
        "pdmodel": f"graphopt run {shell_path} --random",
        "source": f"python {shell_path}",
    }.get(exported.format, "")


# MLIR's names of the element types
_MLIR = {"float": "f", "bfloat": "bf", "int": "i", "uint": "ui"}


def _by_iree(exported: Exported) -> str:
    """Compose the commands of iree-base-compiler and iree-base-runtime for a file.

    Empty for open sizes or a state.
    """
    arguments = json.loads(exported.files[1].read_text("utf-8"))["arguments"]
    sizes = [size for entry in arguments for size in entry["shape"]]
    if any(entry["role"] != "input" for entry in arguments) or not all(
        isinstance(size, int) for size in sizes
    ):
        return ""
    path = shlex.quote(str(exported.path))
    code = shlex.quote(f"{exported.path}.vmfb")
    inputs = " ".join(f"--input={_mlir_type(entry)}" for entry in arguments)
    return (
        f"iree-compile {path} --iree-input-type=stablehlo --iree-hal-target-backends=llvm-cpu "
        f"--iree-llvmcpu-target-cpu=host -o {code} && "
        f"iree-run-module --module={code} --function=main {inputs}"
    )


def _mlir_type(entry: dict[str, Any]) -> str:
    """Format an argument for `iree-run-module`, which fills a bare type with zeros: 2x3xf32."""
    name = entry["dtype"]
    kind = name.rstrip("0123456789")
    element = "i1" if name == "bool" else f"{_MLIR.get(kind, kind)}{name[len(kind) :]}"
    return "x".join([*map(str, entry["shape"]), element])


def _python(*lines: str) -> str:
    return f"python -c {shlex.quote('; '.join(lines))}"


def _zeros(exported: Exported, sizes: Sizes) -> str:
    """Format the arguments of an exported function as NumPy code that makes zeros."""
    about = json.loads(exported.files[1].read_text("utf-8"))
    return ", ".join(_zero(entry, sizes) for entry in about["arguments"])


def _zero(entry: dict[str, Any], sizes: Sizes) -> str:
    """Format one argument as NumPy code that makes zeros, or ones for sequence lengths.

    An open dimension gets its size from `sizes`.
    """
    from graphopt.ir.program import LENGTHS
    from graphopt.models.feeds import BATCH

    dims = [dim if isinstance(dim, int) and dim >= 0 else None for dim in entry["shape"]]
    given = sizes.get(entry["name"]) if isinstance(sizes, dict) else None
    shape = [
        dim if dim is not None else given[position] if given is not None else sizes or BATCH
        for position, dim in enumerate(dims)
    ]
    function = "ones" if entry["name"].endswith(LENGTHS) else "zeros"
    return f'np.{function}({tuple(shape)}, "{entry["dtype"]}")'


def _is_wide(exported: Exported) -> bool:
    """True when an argument or result has a 64-bit type, for which JAX needs `jax_enable_x64`."""
    about = json.loads(exported.files[1].read_text("utf-8"))
    types = [entry["dtype"] for key in ("arguments", "results") for entry in about[key]]
    return any(dtype in ("int64", "uint64", "float64", "complex128") for dtype in types)


def _check(
    model: ImportedModel, exported: Exported, arguments: argparse.Namespace, sizes: Sizes
) -> int:
    """Compare the outputs of the model and of the written files; return 0 when they agree."""
    if exported.format in ("safetensors", "npz"):
        return _check_parameters(model, exported)
    from graphopt.models.export.check import difference, exported_outputs, model_outputs
    from graphopt.models.feeds import file_feed, random_feed
    from graphopt.runtime.settings.progress import announce

    if exported.function is not None and exported.function.is_random:
        print("not checked: the program draws random numbers")
        return 0
    if arguments.input:
        feed: dict[str, Any] = model.feed(file_feed(model, arguments.input))
    else:
        feed = random_feed(model, sizes, arguments.seed)
    try:
        with announce(lambda: "running the model", files=False):
            expected = model_outputs(model, feed)
    except Exception as error:
        if arguments.input:
            raise
        reason = str(error).strip().partition("\n")[0]
        print(f"not checked: the model does not accept random inputs ({reason}); give --input")
        return 0
    with announce(lambda: f"running {arguments.output}", files=False):
        found = exported_outputs(exported, model, feed)
    if found is None:
        print("not checked: onnxruntime is not installed")
        return 0
    gap, close = difference(found, expected)
    verdict = "the same outputs" if close else "DIFFERENT OUTPUTS"
    print(f"checked: {verdict}, largest difference {gap:.3g}")
    return 0 if close else 1


def _check_parameters(model: ImportedModel, exported: Exported) -> int:
    from graphopt.models.model import import_model
    from graphopt.runtime.state.scope import Scope, scope_guard

    with scope_guard(Scope()):
        again = import_model(model.path, exported.path)
    same = all(
        array.tobytes() == again.parameters[name].tobytes()
        for name, array in model.parameters.items()
    )
    print(f"checked: {'the same' if same else 'DIFFERENT'} parameters")
    return 0 if same else 1
