"""The element types of ONNX, which it writes as numbers."""

from __future__ import annotations

from graphopt.ir.dtypes import DType

# The name of each element type in TensorProto.DataType; None where the dialect has no such type.
NAMES = {
    1: "float32",
    2: "uint8",
    3: "int8",
    4: "uint16",
    5: "int16",
    6: "int32",
    7: "int64",
    8: "string",
    9: "bool",
    10: "float16",
    11: "float64",
    12: "uint32",
    13: "uint64",
    14: "complex64",
    15: "complex128",
    16: "bfloat16",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
}
_ABSENT = ("string", "uint16", "uint32", "uint64", "uint4", "int4", "uint2", "int2")


def element_type(number: int) -> DType | str:
    """The dtype of an element type; its name where the dialect has none."""
    name = NAMES.get(number, f"type {number}")
    absent = name in _ABSENT or name not in NAMES.values() or name.startswith(("float8", "float4"))
    return name if absent else DType(name)
