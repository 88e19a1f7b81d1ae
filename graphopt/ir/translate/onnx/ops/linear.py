"""Matrix products."""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.linalg.decompositions import Det
from graphopt.ir.dialect.ops.linalg.matrices import Einsum
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add
from graphopt.ir.translate.onnx.emitter import OnnxEmitter, dtype
from graphopt.ir.translate.onnx.registry import reads


@reads("MatMul")
def matmul(emit: OnnxEmitter, x: SSAValue, y: SSAValue) -> SSAValue:
    return emit(Matmul, x, y)


@reads("Gemm")
def gemm(
    emit: OnnxEmitter,
    x: SSAValue,
    y: SSAValue,
    bias: SSAValue | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> SSAValue:
    product = emit(Matmul, x, y, transpose_x=bool(transA), transpose_y=bool(transB))
    out = emit.scale(product, alpha)
    return out if bias is None else emit(Add, out, emit.scale(bias, beta))


@reads("Einsum")
def einsum(emit: OnnxEmitter, *operands: SSAValue, equation: str) -> SSAValue:
    """Emit an einsum; an implicit result has the letters that occur once, in alphabetical order."""
    terms, arrow, result = equation.replace(" ", "").partition("->")
    if not arrow:
        letters = sorted(letter for letter in set(terms) - set(",.") if terms.count(letter) == 1)
        result = ("..." if "." in terms else "") + "".join(letters)
    return emit(Einsum, list(operands), equation=f"{terms}->{result}")


@reads("Det")
def det(emit: OnnxEmitter, x: SSAValue) -> SSAValue:
    return emit.cast(emit(Det, x), dtype(x))
