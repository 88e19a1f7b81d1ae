"""Matrix products, and other maps with a weight."""

from __future__ import annotations

from graphopt.ir.dialect.ops.linear import Bilinear, Kron, Matmul, RowConv
from graphopt.models.export.onnx.nodes import LAST, Nodes, NotInOnnx, Value, sizes_of
from graphopt.models.export.onnx.registry import exports


@exports(Matmul)
def matmul(emit: Nodes, x: Value, y: Value, transpose_x: bool, transpose_y: bool) -> Value:
    x = transpose_last(emit, x) if transpose_x else x
    y = transpose_last(emit, y) if transpose_y else y
    return emit("MatMul", x, y)


def transpose_last(emit: Nodes, x: Value) -> Value:
    """Transpose the last two axes; return a vector unchanged."""
    axes = list(range(len(sizes_of(x))))
    return emit.transpose(x, [*axes[:-2], *axes[-2:][::-1]])


@exports(Bilinear, wide=True)
def bilinear(emit: Nodes, x: Value, y: Value, weight: Value, bias: Value | None) -> Value:
    out = emit("Einsum", x, weight, y, equation="ni,kij,nj->nk")
    return out if bias is None else emit("Add", out, bias)


@exports(RowConv, wide=True)
def row_conv(emit: Nodes, x: Value, filter: Value) -> Value:
    after = sizes_of(filter)[0] - 1
    if after < 0:
        raise NotInOnnx("the number of look-ahead steps is open")
    longer = emit("Pad", x, emit.ints([0, 0, 0, 0, after, 0]))
    parts: list[Value] = []
    for step in range(after + 1):
        end = LAST if step == after else step - after
        weights = emit.cut(filter, [0], [step], [step + 1])
        parts.append(emit("Mul", emit.cut(longer, [1], [step], [end]), weights))
    return parts[0] if len(parts) == 1 else emit("Sum", *parts)


@exports(Kron)
def kron(emit: Nodes, x: Value, y: Value) -> Value:
    rank = max(len(sizes_of(x)), len(sizes_of(y)))
    x, y = (emit.unsqueeze(v, *range(rank - len(sizes_of(v)))) for v in (x, y))
    rows = emit.unsqueeze(x, *range(1, 2 * rank, 2))
    each = emit.unsqueeze(y, *range(0, 2 * rank, 2))
    sizes = emit("Mul", emit("Shape", x), emit("Shape", y))
    return emit.reshape(emit("Mul", rows, each), sizes)
