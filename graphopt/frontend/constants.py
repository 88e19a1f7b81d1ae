"""Constants of a script, encoded as the attributes of an `assign_value` operator and decoded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import EMPTY, Variable

# the attribute with the values of each dtype, as in Paddle's saved programs
_ATTRIBUTES = {
    "bool": "bool_values",
    "float16": "fp32_values",
    "bfloat16": "fp32_values",
    "float32": "fp32_values",
    "float64": "fp64_values",
    "int8": "int8_values",
    "uint8": "int32_values",
    "int16": "int32_values",
    "int32": "int32_values",
    "int64": "int64_values",
}


def value_attrs(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Encode an array as attributes of an `assign_value`; raise TypeError for complex dtypes."""
    dtype = as_dtype(array.dtype)
    if dtype not in _ATTRIBUTES:
        raise TypeError(f"a constant of dtype {dtype} cannot be written into a program")
    values = array.ravel().tolist()
    return {"shape": list(array.shape), "dtype": dtype.code, _ATTRIBUTES[dtype]: values}


def array_of(attrs: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """Decode the array from the attributes of an `assign_value`."""
    dtype = as_dtype(attrs["dtype"])
    return np.array(attrs[_ATTRIBUTES[dtype]], dtype.numpy).reshape(attrs["shape"])


def constant_of(variable: Variable) -> np.ndarray[Any, Any] | None:
    """Compute a Variable's value from the attributes of its only writer; None if impossible."""
    program = variable.block.program
    writers = [
        op for block in program.blocks for op in block.ops if variable.name in op.output_arg_names
    ]
    if len(writers) != 1 or any(name != EMPTY for name in writers[0].input_arg_names):
        return None
    op = writers[0]
    if op.type == "assign_value":
        return array_of(op.attrs)
    if op.type != "fill_constant" or any(size < 0 for size in op.attr("shape")):
        return None
    dtype = as_dtype(op.attr("dtype")).numpy
    return np.full(tuple(op.attr("shape")), op.attrs.get("str_value") or op.attr("value"), dtype)
