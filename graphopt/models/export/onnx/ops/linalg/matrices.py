"""Linear algebra without decompositions."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.linalg import matrices as ops
from graphopt.ir.dialect.types import UNKNOWN, normalize_axis
from graphopt.models.export.onnx.nodes import Array, Nodes, NotInOnnx, Value, sizes_of
from graphopt.models.export.onnx.registry import exports


@exports(ops.Einsum)
def einsum(emit: Nodes, inputs: tuple[Value, ...], equation: str) -> Value:
    _check_broadcasts(inputs, equation.partition("->")[0].replace(" ", "").split(","))
    return emit("Einsum", *inputs, equation=equation)


def _check_broadcasts(inputs: tuple[Value, ...], terms: list[str]) -> None:
    """Raise NotInOnnx if a size of 1 broadcasts under one letter, or under the dots."""
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
        raise NotInOnnx("the operands broadcast, which ONNX's Einsum does not support")


@exports(ops.Diagonal)
def diagonal(emit: Nodes, input: Value, offset: int, axis1: int, axis2: int) -> Value:
    """Move both axes last, flatten them, and gather the elements of the diagonal."""
    sizes, rank = sizes_of(input), len(sizes_of(input))
    first, second = normalize_axis(axis1, rank), normalize_axis(axis2, rank)
    rows, columns = sizes[first], sizes[second]
    if UNKNOWN in (rows, columns):
        raise NotInOnnx("the sizes of the matrices are open")
    others = [axis for axis in range(rank) if axis not in (first, second)]
    last = emit.transpose(input, [*others, first, second])
    flat = emit.reshape(last, [*[0] * len(others), rows * columns])
    return emit("Gather", flat, emit.constant(_places(rows, columns, offset)), axis=len(others))


def _places(rows: int, columns: int, offset: int) -> Array:
    """Compute the flat indices of a diagonal of a matrix."""
    return np.diagonal(np.arange(rows * columns).reshape(rows, columns), offset).copy()


@exports(ops.Trace)
def trace(emit: Nodes, input: Value, offset: int, axis1: int, axis2: int) -> Value:
    elements = diagonal(emit, input, offset, axis1, axis2)
    return emit("ReduceSum", elements, emit.ints([-1]), keepdims=0)


def place_on_diagonal(emit: Nodes, vectors: Value, offset: int, fill: Value) -> Value:
    """Build matrices in two new last axes, with the last axis of `vectors` on a diagonal."""
    length = sizes_of(vectors)[-1]
    if length == UNKNOWN:
        raise NotInOnnx("the length of the diagonal is open")
    size, numbers = length + abs(offset), np.arange(length)
    source, on = np.zeros((size, size), np.int64), np.zeros((size, size), bool)
    place = numbers - min(offset, 0), numbers + max(offset, 0)
    source[place], on[place] = numbers, True
    if not length:
        raise NotInOnnx("the diagonal is empty")
    spread = emit("Gather", vectors, emit.constant(source), axis=len(sizes_of(vectors)) - 1)
    return emit("Where", emit.constant(on), spread, fill)


@exports(ops.Diag)
def diag(emit: Nodes, x: Value, offset: int, padding_value: float) -> Value:
    if len(sizes_of(x)) == 2:
        return diagonal(emit, x, offset, 0, 1)
    return place_on_diagonal(emit, x, offset, emit.number(padding_value, x))


@exports(ops.Cross, wide=True)
def cross(emit: Nodes, x: Value, y: Value, axis: int) -> Value:
    if len(sizes_of(x)) != len(sizes_of(y)):
        raise NotInOnnx("the operands have different ranks")
    at = ops.cross_axis(sizes_of(x), axis)

    def turn_axes(value: Value, *order: int) -> Value:
        return emit("Gather", value, emit.ints(order), axis=at)

    first = emit("Mul", turn_axes(x, 1, 2, 0), turn_axes(y, 2, 0, 1))
    return emit("Sub", first, emit("Mul", turn_axes(x, 2, 0, 1), turn_axes(y, 1, 2, 0)))
