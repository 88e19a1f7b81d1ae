"""The parts of a Transformer."""

from __future__ import annotations

from graphopt.ir.dialect.ops import transformer as ops
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Value, dtype_of
from graphopt.models.export.onnx.ops.linear import transposed
from graphopt.models.export.onnx.registry import exports


@exports(ops.FusedDotProductAttention, wide=True)
def fused_dot_product_attention(
    emit: Nodes,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None,
    scaling_factor: float,
    fill: float,
    dropout_probability: float,
    dropout_implementation: str,
    is_test: bool,
    transpose_k: bool,
) -> Value:
    if dropout_probability and not is_test:
        raise NotInOnnx("it drops elements in training")
    k = k if transpose_k else transposed(emit, k)
    scores = emit("MatMul", emit("Mul", q, emit.number(scaling_factor, q)), k)
    if mask is not None and dtype_of(mask) == "bool":
        scores = emit("Where", mask, scores, emit.number(fill, q))
    elif mask is not None:
        scores = emit("Add", scores, emit.cast(mask, dtype_of(scores)))
    shares = emit("Softmax", scores, axis=-1)
    if dropout_probability and dropout_implementation != "upscale_in_train":
        shares = emit("Mul", shares, emit.number(1 - dropout_probability, q))
    return emit("MatMul", shares, v)
