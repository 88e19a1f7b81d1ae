"""Values written in a script as the attributes of an `assign_value` operator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphopt.ir.dtypes import as_dtype

# the attribute that holds the values of each dtype, as in Paddle's saved programs
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
    """The attributes of an `assign_value` that makes this array; TypeError for complex ones."""
    dtype = as_dtype(array.dtype)
    if dtype not in _ATTRIBUTES:
        raise TypeError(f"a constant of dtype {dtype!s} cannot be written into a program")
    values = array.ravel().tolist()
    return {"shape": list(array.shape), "dtype": dtype.code, _ATTRIBUTES[dtype]: values}


def array_of(attrs: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """The array that an `assign_value` with these attributes makes."""
    dtype = as_dtype(attrs["dtype"])
    return np.array(attrs[_ATTRIBUTES[dtype]], dtype.numpy).reshape(attrs["shape"])
