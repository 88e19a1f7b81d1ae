"""Layers and functions as models of ONNX (paddle.onnx)."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphopt import jit
from graphopt.frontend.calls import publish
from graphopt.models.model import read_model

PADDLE_OPSET = 9
"""Paddle's default, for which there is no warning."""


def export(
    layer: Any,
    path: str,
    input_spec: Sequence[Any] | None = None,
    opset_version: int = PADDLE_OPSET,
    **configs: Any,
) -> None:
    """Write a layer's `forward`, or a function, as `path`.onnx (paddle.onnx.export).

    `input_spec` and `configs` are passed to `paddle.jit.save`. The file has the operators of opset
    20, or of `opset_version` from 21 to 23: ONNX's own version converter makes an older opset of
    them, and readers of an older one are rare.

    Raises ValueError for a path without a file name or an opset that cannot be written,
    UnsupportedError that lists all ops without ONNX operators, and the errors of `paddle.jit.save`.
    """
    from graphopt.models.export.onnx import OPSET

    file_prefix = os.path.basename(path)
    if file_prefix == "":
        raise ValueError(
            "The input path MUST be format of dirname/file_prefix, but the file_prefix is empty "
            f"in received path: {path}"
        )
    if PADDLE_OPSET != opset_version < OPSET:
        warnings.warn(
            f"opset {opset_version} is not written; {path}.onnx has opset {OPSET}", stacklevel=2
        )
    with tempfile.TemporaryDirectory() as folder:
        saved = str(Path(folder) / "layer")
        jit.save(layer, saved, input_spec, **configs)
        read_model(saved).export(f"{path}.onnx", opset=max(opset_version, OPSET))


publish(globals(), __name__)
