"""One call for every format: choose the format, write the files, and run them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphopt.ir.dialect.text import text_of
from graphopt.ir.formats.commit import write_files
from graphopt.models.formats import FORMATS, PROGRAMS
from graphopt.runtime.settings.jax_import import import_jax
from graphopt.runtime.settings.strategies import BuildStrategy

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from graphopt.ir.formats.model import LoadedModel
    from graphopt.models.export.function import ExportedFunction
    from graphopt.models.export.sizes import Sizes

OPTIMIZED = ("mlir", "onnx", "source", *PROGRAMS)


@dataclass(frozen=True)
class Exported:
    """The result of an export: the files, the main one first, and notes on its shortcomings.

    `function` is the exported function of executable formats.
    """

    format: str
    files: tuple[Path, ...]
    notes: tuple[str, ...] = ()
    function: ExportedFunction | None = field(default=None, repr=False)

    @property
    def path(self) -> Path:
        """The main file."""
        return self.files[0]


def format_of(path: Path, format: str | None = None) -> str:
    """Choose the format by the suffix unless given; raise ValueError for an unknown one."""
    if format is not None:
        if format not in FORMATS.values():
            raise ValueError(
                f"format should be one of {', '.join(FORMATS.values())}, found {format!r}"
            )
        return format
    for suffix, name in FORMATS.items():
        if path.name.endswith(suffix):
            return name
    if path.suffix == ".graphopt":
        raise ValueError(f"{path} would be a bundle, which `graphopt compile` writes")
    near = get_close_matches(path.suffix, FORMATS, 1)
    hint = f"; did you mean {near[0]}?" if near else "; use one, or give the format (--format)"
    raise ValueError(f"{path} has none of the suffixes {', '.join(FORMATS)}{hint}")


def export(
    model: LoadedModel,
    module: Callable[[BuildStrategy | None], ModuleOp],
    path: str | os.PathLike[str],
    format: str | None = None,
    build_strategy: BuildStrategy | None = None,
    *,
    sizes: Sizes = None,
    symbolic: bool | None = None,
    parameters: str | None = None,
    platforms: Sequence[str] | None = None,
    opset: int | None = None,
    reader: str | None = None,
    style: str | None = None,
) -> Exported:
    """Write a model in the format of the suffix of `path` (see `FORMATS`), or in `format`.

    * `module` builds the model's module with the optimizations of a BuildStrategy, or with none.
      `.onnx` and `.py` have those of `build_strategy`, or else of a plain one, which cleans up;
      `.pdmodel` and parameters have none.
    * `sizes`: numbers for sizes that the program leaves open: one for all, or shapes by input.
      `.onnx`, `.py` and `.mlir` use them only where an operator has to know them.
    * `symbolic`: let open sizes vary in the file where the ops allow it; `sizes` are for the other
      cases. The default of `.jaxexport`, not of StableHLO, because XLA compiles only modules whose
      sizes are numbers.
    * `parameters`: "inside" the function (the default) or "arguments" in front of the inputs, the
      only choice for a training step, whose new state comes in front of the outputs.
    * `platforms`: of `.jaxexport`, by default cpu, cuda and tpu; of StableHLO one, by default cpu.
    * `opset`: of `.onnx`, the version of its operators: 20, the default, to 23.
    * `style`: of `.py`, the library whose functions it calls: "paddle", the default, or "jax".
    * `reader`: of `.pdmodel`, the reader of the file: "paddle", the default, or "openvino", which
      knows fewer operators.

    A `.json` file beside an executable format has the names, dtypes and shapes of arguments and
    results in order, and `.state.npz` the values of the state arguments. Files are complete before
    they replace older ones.

    Raises ValueError for an unknown format and for options that the format lacks, UnsupportedError,
    naming the op, for a program that cannot be exported.
    """
    target = Path(path)
    name = format_of(target, format)
    if build_strategy is not None and name not in OPTIMIZED:
        raise ValueError(
            f"the format {name} holds the program as it was saved and ignores build_strategy; "
            f"formats with optimized programs are {', '.join(OPTIMIZED)}"
        )
    given = {"sizes": sizes, "symbolic": symbolic, "parameters": parameters, "platforms": platforms}
    if name in OPTIMIZED:  # formats whose sizes cannot stay open
        del given["sizes"]
    unused = [key for key, value in given.items() if value is not None]
    if unused and name not in PROGRAMS:
        raise ValueError(
            f"the format {name} does not take {', '.join(unused)}; {', '.join(PROGRAMS)} do"
        )
    if opset is not None and name != "onnx":
        raise ValueError(f"the format {name} does not take opset; only onnx does")
    if reader is not None and name != "pdmodel":
        raise ValueError(f"the format {name} does not take reader; only pdmodel does")
    if style is not None and name != "source":
        raise ValueError(f"the format {name} does not take style; only source does")
    target.parent.mkdir(parents=True, exist_ok=True)
    if name == "mlir":
        write_files({target: [module_text(module(build_strategy)).encode()]})
        return Exported(name, (target,))
    if name == "safetensors":
        from graphopt.models.export.safetensors_file import write_safetensors

        write_safetensors(target, model.parameters)
        return Exported(name, (target,))
    if name == "npz":
        from graphopt.models.export.npz_file import write_npz

        write_npz(target, model.parameters)
        return Exported(name, (target,))
    if name == "pdmodel":
        from graphopt.models.export.paddle import write_pdmodel

        return Exported(name, tuple(write_pdmodel(target, model, reader or "paddle")))
    if name == "source":
        from graphopt.models.export.source import write_source

        plain = BuildStrategy()
        plain.fuse_bn_add_act_ops = False
        files = write_source(target, model, module(build_strategy or plain), style or "paddle")
        return Exported(name, tuple(files))
    import_jax()
    if name == "onnx":
        from graphopt.models.export.onnx import write_onnx

        cleaned = module(build_strategy or BuildStrategy())
        files, function = write_onnx(target, model, cleaned, opset)
        return Exported(name, tuple(files), function=function)
    from graphopt.models.export.function import function_of

    function = function_of(model, module(build_strategy), parameters)
    return _write_program(model, function, target, name, sizes, symbolic, platforms)


def module_text(module: ModuleOp) -> str:
    """Print a module in the text form that graphopt-opt reads."""
    return f"{text_of(module)}\n"


def _write_program(
    model: LoadedModel,
    function: ExportedFunction,
    path: Path,
    format: str,
    sizes: Sizes,
    symbolic: bool | None,
    platforms: Sequence[str] | None,
) -> Exported:
    from graphopt.models.export.npz_file import npz_bytes
    from graphopt.models.export.program import PLATFORMS, export_function, serialize_artifact

    is_artifact = format == "jaxexport"
    targets = tuple(platforms or (PLATFORMS if is_artifact else ("cpu",)))
    if not is_artifact and len(targets) != 1:
        raise ValueError(f"StableHLO is for one platform, not for {', '.join(targets)}")
    if symbolic is None:
        symbolic = is_artifact
    artifact, notes = export_function(function, sizes, targets, symbolic=symbolic)
    if format == "jaxexport":
        content = serialize_artifact(artifact)
    elif format == "stablehlo":
        content = artifact.mlir_module_serialized
    else:
        content = artifact.mlir_module().encode()
    about: dict[str, Any] = {"format": format, "platforms": list(artifact.platforms)}
    about |= _with_exported_shapes(function.describe(), artifact)
    sidecar = path.with_name(f"{path.name}.json")
    files = [path, sidecar]
    contents: dict[Path, list[bytes | memoryview]] = {path: [content]}
    if function.state:
        state = path.with_name(f"{path.name}.state.npz")
        about["state"] = state.name
        values = {port.name: model.parameters[port.name] for port in function.state}
        contents[state] = [npz_bytes(values)]
        files.append(state)
    text = json.dumps({**about, "notes": notes}, indent=1)
    write_files({**contents, sidecar: [f"{text}\n".encode()]})
    return Exported(format, tuple(files), tuple(notes), function)


def _with_exported_shapes(about: dict[str, Any], artifact: Any) -> dict[str, Any]:
    """Set the exported sizes in the description; varying sizes stay symbols."""
    for key, types in (("arguments", artifact.in_avals), ("results", artifact.out_avals)):
        for entry, type_ in zip(about[key], types, strict=True):
            entry["shape"] = [dim if isinstance(dim, int) else str(dim) for dim in type_.shape]
    return about
