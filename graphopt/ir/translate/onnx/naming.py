"""Operator types for ONNX's nodes, and the names of ONNX's element types."""

from __future__ import annotations

from graphopt.ir.dtypes import DType, find_dtype
from graphopt.ir.program import Program

# The attribute with the version of the ONNX operator set that an operator belongs to.
OPSET = "onnx_opset"
_PREFIX = "onnx"


def operator_type(domain: str, type: str) -> str:
    """Build an operator type: `onnx.Conv`, or `onnx.com.microsoft.Gelu` for another domain."""
    return f"{_PREFIX}.{domain}.{type}" if domain else f"{_PREFIX}.{type}"


def is_onnx_type(type: str) -> bool:
    """True for the type of an operator that was a node of ONNX."""
    return type.startswith(f"{_PREFIX}.")


def opset_of(program: Program) -> int:
    """Return the version of ONNX's operators in a program; 0 if it has none."""
    ops = (op for block in program.blocks for op in block.ops)
    return max((op.attrs.get(OPSET, 0) for op in ops if is_onnx_type(op.type)), default=0)


# The name of each element type, by its number in TensorProto.DataType.
_ELEMENTS = {
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
    17: "float8_e4m3fn",
    18: "float8_e4m3fnuz",
    19: "float8_e5m2",
    20: "float8_e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4_e2m1fn",
    24: "float8_e8m0fnu",
    25: "uint2",
    26: "int2",
}


def element_type(number: int) -> DType | str:
    """Map an element type of ONNX to its dtype; to its name if the dialect has none."""
    name = _ELEMENTS.get(number, f"type {number}")
    return find_dtype(name) or name
