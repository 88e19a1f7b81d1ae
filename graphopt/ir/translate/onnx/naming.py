"""The names of ONNX's nodes among the operators of a program."""

from __future__ import annotations

from graphopt.ir.program import Program

# The attribute of an operator that has the version of ONNX's operators which it belongs to.
OPSET = "onnx_opset"
_PREFIX = "onnx"


def operator_type(domain: str, type: str) -> str:
    """The type of the operator: `onnx.Conv`, or `onnx.com.microsoft.Gelu` of another domain."""
    return f"{_PREFIX}.{domain}.{type}" if domain else f"{_PREFIX}.{type}"


def is_onnx_type(type: str) -> bool:
    """True for the type of an operator that was a node of ONNX."""
    return type.startswith(f"{_PREFIX}.")


def opset_of(program: Program) -> int:
    """The version of ONNX's operators in a program; 0 when it has none."""
    ops = (op for block in program.blocks for op in block.ops)
    return max((op.attrs.get(OPSET, 0) for op in ops if is_onnx_type(op.type)), default=0)
