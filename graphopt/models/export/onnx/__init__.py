"""ONNX export: one rule per op, in files named as in the dialect and the lowering.

`onnx` and `onnx-ir` are imported only when a model is written.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphopt.errors import UnsupportedError

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from graphopt.ir.formats.model import LoadedModel
    from graphopt.models.export.function import ExportedFunction

OPSET = 20
"""The version of ONNX's operators that is written by default."""


def _import_needed(module: str) -> Any:
    """Import a module of this package; raise UnsupportedError if a required package is missing."""
    try:
        return import_module(f"{__name__}.{module}")
    except ModuleNotFoundError as error:
        if error.name not in ("onnx", "onnx_ir"):
            raise
        raise UnsupportedError(
            f".onnx files need the package {error.name}: pip install 'graphopt[onnx]'"
        ) from None


def write_onnx(
    path: Path, model: LoadedModel, module: ModuleOp, opset: int | None = None
) -> tuple[list[Path], ExportedFunction]:
    """Write a model as `.onnx`; return the files, the main one first, and the function in them.

    Raises UnsupportedError for a program that updates state, and with all ops that ONNX has no
    operators for; ValueError for an opset that cannot be written. Nothing is written then.
    """
    return _import_needed("file").write(path, model, module, opset)


def refusals(module: ModuleOp, opset: int | None = None) -> dict[tuple[str, str], list[str]]:
    """Map ops that ONNX has no operators for, with the reason, to the names of their results."""
    file = _import_needed("file")
    return file.refusals_of(module, file.checked_opset(opset))
