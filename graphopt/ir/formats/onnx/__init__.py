"""ONNX files: bytes to checked records, and a `Program` whose operators are ONNX's nodes.

The reader is the one of Paddle's protobuf files with other messages, so nothing needs to be
installed to read a model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graphopt.ir.formats.limits import Limits
from graphopt.ir.formats.onnx.control import CONTROLS
from graphopt.ir.formats.onnx.importer import import_onnx
from graphopt.ir.formats.onnx.reader import read_onnx
from graphopt.ir.program import Program
from graphopt.ir.translate.blocks.declare import declare_types


def load_onnx(
    data: bytes, source: str, limits: Limits, folder: Path | None
) -> tuple[Program, dict[str, np.ndarray[Any, Any]]]:
    """Decode an ONNX file to a program and the values of its parameters.

    Raises FormatError, LimitError and UnsafeError for files that cannot be trusted, and
    UnsupportedError that lists all nodes without a translation.
    """
    model = read_onnx(data, source, limits, folder)
    program, parameters = import_onnx(model, CONTROLS, Path(source).name)
    declare_types(program, source)
    return program, parameters
