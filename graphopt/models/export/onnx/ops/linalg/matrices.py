"""Linear algebra beyond matrix products."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.linalg import matrices as ops
from graphopt.ir.dialect.types import UNKNOWN, normalize_axis
from graphopt.models.export.onnx.emitter import Array, Emitter, NotInOnnx, Value, sizes_of
from graphopt.models.export.onnx.registry import exports


@exports(ops.Einsum)
def einsum(emit: Emitter, inputs: tuple[Value, ...], equation: str) -> Value:
    _check_broadcasts(inputs, equation.partition("->")[0].replace(" ", "").split(","))
    return emit("Einsum", *inputs, equation=equation)


def _check_broadcasts(inputs: tuple[Value, ...], terms: list[str]) -> None:
    """NotInOnnx where a size of 1 meets another one under the same letter, or under the dots."""
    sizes: dict[str, set[int]] = {}
    ranks: set[int] = set()
    for value, term in zip(inputs, terms, strict=True):
        before, dots, after = term.partition("...")
        shape = sizes_of(value)
        if dots:
            ranks.add(len(shape) - len(before) - len(after))
        ends = (*shape[: len(before)], *shape[len(shape) - len(after) :])
        for letter, size in zip(before + after, ends, strict=True):
            sizes.setdefault(letter, set()).add(size)
    if len(ranks) > 1 or any(1 in found and len(found) > 1 for found in sizes.values()):
        raise NotInOnnx("its operands broadcast, which those of ONNX's Einsum do not")


@exports(ops.Diagonal)
def diagonal(emit: Emitter, input: Value, offset: int, axis1: int, axis2: int) -> Value:
    """Elements by number along two axes that come last and are joined."""
    sizes, rank = sizes_of(input), len(sizes_of(input))
    first, second = normalize_axis(axis1, rank), normalize_axis(axis2, rank)
    rows, columns = sizes[first], sizes[second]
    if UNKNOWN in (rows, columns):
        raise NotInOnnx("the sizes of its matrices are open")
    others = [axis for axis in range(rank) if axis not in (first, second)]
    last = emit.transpose(input, [*others, first, second])
    flat = emit.reshape(last, [*[0] * len(others), rows * columns])
    return emit("Gather", flat, emit.constant(_places(rows, columns, offset)), axis=len(others))


def _places(rows: int, columns: int, offset: int) -> Array:
    """The numbers of the elements of a diagonal in a flat matrix."""
    return np.diagonal(np.arange(rows * columns).reshape(rows, columns), offset).copy()


@exports(ops.Trace)
def trace(emit: Emitter, input: Value, offset: int, axis1: int, axis2: int) -> Value:
    elements = diagonal(emit, input, offset, axis1, axis2)
    return emit("ReduceSum", elements, emit.ints([-1]), keepdims=0)
