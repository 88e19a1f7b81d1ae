"""Linear equations by elimination, ops derived from it, and products of several matrices."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops.linalg import decompositions as ops
from graphopt.ir.dialect.ops.linalg.matrices import Cholesky, Inverse
from graphopt.models.export.onnx.loops import Values, scan
from graphopt.models.export.onnx.nodes import (
    LAST,
    Nodes,
    NotInOnnx,
    Value,
    dtype_of,
    sizes_of,
)
from graphopt.models.export.onnx.ops.linear import transpose_last
from graphopt.models.export.onnx.registry import exports


@exports(ops.Det, wide=True)
def det(emit: Nodes, x: Value) -> Value:
    return emit("Det", x)


@exports(ops.MultiDot, wide=True)
def multi_dot(emit: Nodes, x: tuple[Value, ...]) -> Value:
    product = x[0]
    for each in x[1:]:
        product = emit("MatMul", product, each)
    return product


def _known_rows(x: Value) -> int:
    rows = sizes_of(x)[-2]
    if rows < 1:
        raise NotInOnnx(
            "the matrices are empty" if rows == 0 else "the size of the matrices is open"
        )
    return rows


def _numbers(emit: Nodes, count: int) -> Value:
    return emit.ints(range(count))


def _at(emit: Nodes, values: Value, place: Value, axis: int) -> Value:
    """Gather one row or column of matrices [b, n, m]; keep the axis."""
    return emit("Gather", values, emit.reshape(place, [1]), axis=axis)


def eliminate(emit: Nodes, matrices: Value, rows: int, *, above: bool) -> tuple[Value, ...]:
    """Run Gaussian elimination of [b, rows, m] with partial pivoting.

    With `above` the first `rows` columns become the identity and the rest the solution. Without,
    the first result holds both factors in one matrix. The other results are the pivots [rows, b]
    and the rows [rows, b] that they came from.
    """
    places = _numbers(emit, rows)
    zero = emit.number(0, matrices)

    def step(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
        (state,), (k,) = states, items
        column = inner("Abs", inner.squeeze(_at(inner, state, k, 2), 2))
        candidates = inner("Where", inner("Less", places, k), inner.number(-1, state), column)
        best = inner("ArgMax", candidates, axis=1, keepdims=1)
        order = inner("Where", inner("Equal", places, best), k, places)
        order = inner("Where", inner("Equal", places, k), best, order)
        index = inner("Expand", inner.unsqueeze(order, 2), inner("Shape", state))
        state = inner("GatherElements", state, index, axis=1)
        pivot_row = _at(inner, state, k, 1)
        pivot = _at(inner, pivot_row, k, 2)
        own = inner.unsqueeze(inner("Equal", places, k), 0, 2)
        column = _at(inner, state, k, 2)
        if above:
            row = inner("Div", pivot_row, pivot)
            column = inner("Where", own, zero, column)
            state = inner("Where", own, row, inner("Sub", state, inner("Mul", column, row)))
        else:
            below = inner.unsqueeze(inner("Greater", places, k), 0, 2)
            safe = inner("Equal", pivot, zero)
            factor = inner("Div", column, inner("Where", safe, inner.number(1, state), pivot))
            factor = inner("Where", below, factor, zero)
            columns = inner.range(inner("Shape", state, start=2))
            right = inner("Greater", columns, k)
            change = inner("Mul", factor, inner("Where", right, pivot_row, zero))
            state = inner("Sub", state, change)
            here = inner("And", below, inner("Equal", columns, k))
            state = inner("Where", here, factor, state)
        flat = [inner.reshape(value, [-1]) for value in (pivot, best)]
        return [state], flat

    (found,), (pivots, swaps) = scan(emit, [matrices], [places], step)
    return found, pivots, swaps


def solve_rows(emit: Nodes, x: Value, y: Value, rows: int) -> Value:
    """Solve x @ result = y for x [..., n, n] and y [..., n, m]; batch axes broadcast."""
    batch = emit("Concat", emit("Shape", x, end=-2), emit.ints([1, 1]), axis=0)
    x = emit("Expand", x, emit("Concat", emit("Shape", y, end=-2), emit.ints([1, 1]), axis=0))
    y = emit("Expand", y, batch)
    both = emit("Concat", x, y, axis=-1)
    width = emit("Shape", both, start=-1)
    flat = emit("Reshape", both, emit("Concat", emit.ints([-1, rows]), width, axis=0))
    found, _, _ = eliminate(emit, flat, rows, above=True)
    right = emit.cut(found, [2], [rows], [LAST])
    return emit("Reshape", right, emit("Shape", y))


@exports(ops.Solve, wide=True)
def solve(emit: Nodes, x: Value, y: Value) -> Value:
    vectors = ops.is_vector_side(sizes_of(x), sizes_of(y))
    right = emit.unsqueeze(y, -1) if vectors else y
    found = solve_rows(emit, x, right, _known_rows(x))
    return emit.squeeze(found, -1) if vectors else found


@exports(Inverse, wide=True)
def inverse(emit: Nodes, x: Value) -> Value:
    rows = _known_rows(x)
    identity = emit.constant(np.eye(rows, dtype=dtype_of(x).numpy))
    return solve_rows(emit, x, identity, rows)


def _triangle(emit: Nodes, x: Value, upper: bool, unit: bool, rows: int) -> Value:
    part = emit("Trilu", x, upper=int(upper))
    if not unit:
        return part
    own = emit.constant(np.eye(rows, dtype=bool))
    return emit("Where", own, emit.number(1, x), part)


@exports(ops.TriangularSolve, wide=True)
def triangular_solve(
    emit: Nodes, x: Value, y: Value, upper: bool, transpose: bool, unitriangular: bool
) -> Value:
    rows = _known_rows(x)
    factor = _triangle(emit, x, upper, unitriangular, rows)
    factor.shape = x.shape
    return solve_rows(emit, transpose_last(emit, factor) if transpose else factor, y, rows)


@exports(ops.CholeskySolve, wide=True)
def cholesky_solve(emit: Nodes, x: Value, y: Value, upper: bool) -> Value:
    """Solve a linear system for the right side x; y is the Cholesky factor of its matrix."""
    rows = _known_rows(y)
    factor = _triangle(emit, y, upper, False, rows)
    factor.shape = y.shape
    other = transpose_last(emit, factor)
    first, second = (other, factor) if upper else (factor, other)
    return solve_rows(emit, second, solve_rows(emit, first, x, rows), rows)


@exports(Cholesky, wide=True)
def cholesky(emit: Nodes, x: Value, upper: bool) -> Value:
    """Factor column by column; subtract each column's outer product from the rest."""
    rows = _known_rows(x)
    lower = transpose_last(emit, x) if upper else x
    flat = emit("Reshape", lower, emit.ints([-1, rows, rows]))
    places, zero = _numbers(emit, rows), emit.number(0, x)

    def step(inner: Nodes, states: Values, items: Values) -> tuple[Values, Values]:
        (state,), (k,) = states, items
        column = inner.squeeze(_at(inner, state, k, 2), 2)
        root = inner("Sqrt", inner("Gather", column, inner.reshape(k, [1]), axis=1))
        above = inner("Less", places, k)
        own = inner("Where", above, zero, inner("Div", column, root))
        change = inner("Mul", inner.unsqueeze(own, 2), inner.unsqueeze(own, 1))
        return [inner("Sub", state, change)], [own]

    _, (columns,) = scan(emit, [flat], [places], step)
    factor = emit.transpose(columns, (1, 0, 2) if upper else (1, 2, 0))
    return emit("Reshape", factor, emit("Shape", x))


@exports(ops.Slogdet, wide=True)
def slogdet(emit: Nodes, x: Value) -> Value:
    rows = _known_rows(x)
    flat = emit("Reshape", x, emit.ints([-1, rows, rows]))
    _, pivots, swaps = eliminate(emit, flat, rows, above=False)
    moved = emit("Equal", swaps, emit.unsqueeze(_numbers(emit, rows), 1))
    turns = emit("Where", moved, emit.number(1, x), emit.number(-1, x))
    signs = emit("Mul", emit("Sign", pivots), turns)
    sign = emit("ReduceProd", signs, emit.ints([0]), keepdims=1)
    size = emit("ReduceSum", emit("Log", emit("Abs", pivots)), emit.ints([0]), keepdims=1)
    both = emit("Concat", sign, size, axis=0)
    return emit("Reshape", both, emit("Concat", emit.ints([2]), emit.shape(x, 0, -2), axis=0))


@exports(ops.Lu, wide=True)
def lu(emit: Nodes, x: Value) -> tuple[Value, Value, Value]:
    rows, columns = sizes_of(x)[-2:]
    if rows != columns:
        raise NotInOnnx("the matrices are not square")
    rows = _known_rows(x)
    flat = emit("Reshape", x, emit.ints([-1, rows, rows]))
    both, pivots, swaps = eliminate(emit, flat, rows, above=False)
    front = emit.shape(x, 0, -2)
    places = emit("Add", emit.transpose(swaps, (1, 0)), emit.number(1, "int64"))
    places = emit("Reshape", places, emit("Concat", front, emit.ints([rows]), axis=0))
    flawed = emit.cast(emit("Equal", pivots, emit.number(0, x)), "int32")
    first = emit("ArgMax", flawed, axis=0, keepdims=0)
    some = emit("ReduceMax", flawed, emit.ints([0]), keepdims=0)
    number = emit("Add", emit.cast(first, "int32"), emit.number(1, "int32"))
    singular = emit("Reshape", emit("Mul", number, some), front)
    return emit("Reshape", both, emit("Shape", x)), emit.cast(places, "int32"), singular


@exports(ops.MatrixPower, wide=True)
def matrix_power(emit: Nodes, x: Value, n: int) -> Value:
    """Compute the power by repeated squaring; invert first for a negative exponent."""
    base, power = (inverse(emit, x), -n) if n < 0 else (x, n)
    if power == 0:
        rows = _known_rows(x)
        return emit("Expand", emit.constant(np.eye(rows, dtype=dtype_of(x).numpy)), emit.shape(x))
    product: Value | None = None
    while power:
        if power % 2:
            product = base if product is None else emit("MatMul", product, base)
        power //= 2
        base = emit("MatMul", base, base) if power else base
    assert product is not None
    return product
