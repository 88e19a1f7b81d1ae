"""A block of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

from graphopt.ir.dialect.ops.crop import Crop
from graphopt.models.export.onnx.nodes import LAST, Nodes, Value
from graphopt.models.export.onnx.registry import exports


@exports(Crop)
def crop(emit: Nodes, x: Value, shape: Sequence[int], offsets: Sequence[int]) -> Value:
    """Slice a block of a tensor; a size of -1 extends to the end."""
    ends = [LAST if size == -1 else at + size for at, size in zip(offsets, shape, strict=True)]
    return emit.cut(x, range(len(shape)), offsets, ends) if shape else x
