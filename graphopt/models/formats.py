"""The file formats of models, by suffix."""

from __future__ import annotations

# longer suffixes come first
FORMATS = {
    ".stablehlo.mlir": "stablehlo-text",
    ".stablehlo": "stablehlo",
    ".jaxexport": "jaxexport",
    ".mlir": "mlir",
    ".onnx": "onnx",
    ".py": "source",
    ".safetensors": "safetensors",
    ".npz": "npz",
    ".pdmodel": "pdmodel",
}
PROGRAMS = ("jaxexport", "stablehlo", "stablehlo-text")
