"""Imported models in the formats of other tools; one file here per format.

| suffix | holds | read by |
|---|---|---|
| `.pdmodel` (and `.pdiparams`) | the program in Paddle's format | Paddle 2.x, graphopt |
| `.jaxexport` | a function with its parameters | JAX alone: `jax.export` |
| `.stablehlo`, `.stablehlo.mlir` | StableHLO as portable bytecode or text | XLA and its relatives |
| `.onnx` | the program in ONNX's operators | ONNX Runtime and its relatives |
| `.py` (and `.safetensors`) | source in functions of Paddle or JAX | Paddle or JAX alone |
| `.mlir` | the (optimized) `pd` module, parameters by reference | graphopt-opt |
| `.safetensors`, `.npz` | the parameters | any tool that reads arrays |
"""

from graphopt.models.export.write import Exported as Exported
from graphopt.models.export.write import export as export
from graphopt.models.export.write import format_of as format_of
from graphopt.models.formats import FORMATS as FORMATS
