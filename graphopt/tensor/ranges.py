"""Ranges, identity matrices, triangles and diagonals (paddle.*)."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit, emit_whole
from graphopt.frontend.mode import get_default_dtype
from graphopt.ir.dtypes import DType
from graphopt.ir.program import Variable
from graphopt.tensor.creation import assign, full, zeros_like
from graphopt.tensor.manipulation import cast

_WHOLE = (int, np.integer)


def arange(
    start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, name: str | None = None
) -> Variable:
    """Create numbers from start up to, but without, end (paddle.arange).

    `arange(n)` starts at 0. Without `dtype` it is int64 for integers, else the default dtype. With
    bounds that are Variables, the run decides the number of elements.
    """
    if end is None:
        start, end = 0, start
    bounds = {"start": start, "end": end, "step": step}
    whole = all(
        not value.dtype.is_differentiable
        if isinstance(value, Variable)
        else isinstance(value, _WHOLE)
        for value in bounds.values()
    )
    element = _element(dtype, "arange", "int64" if whole else None)
    if any(isinstance(value, Variable) for value in bounds.values()):
        slots = _tensors(bounds, element, "arange")
        return emit("range", slots, {}, name=name, stop_gradient=True)
    attrs: dict[str, Any] = {
        what: arguments.number(value, what, "arange") for what, value in bounds.items()
    }
    attrs["dtype"] = element.code
    if not attrs["step"]:
        raise ValueError("arange(): 'step' must not be 0")
    return emit("range", {}, attrs, name=name, stop_gradient=True)


def _tensors(values: Mapping[str, Any], dtype: DType, function: str) -> dict[str, Variable]:
    """Convert numbers and Variables to input slots, named `Start` and so on, of one dtype."""
    return {
        what.capitalize(): cast(value, dtype)
        if isinstance(value, Variable)
        else full([1], arguments.number(value, what, function), dtype)
        for what, value in values.items()
    }


def _element(dtype: Any, function: str, default: str | None = None) -> DType:
    if dtype is not None:
        return arguments.dtype(dtype, "dtype", function)
    return DType(default) if default else get_default_dtype()


def linspace(
    start: Any, stop: Any, num: int, dtype: Any = None, name: str | None = None
) -> Variable:
    """Create `num` evenly spaced numbers from start to stop, both included (paddle.linspace).

    Each of the three may be a Variable of one element. `dtype` is by default the default dtype.
    """
    element = _element(dtype, "linspace")
    if any(isinstance(value, Variable) for value in (start, stop, num)):
        slots = _tensors({"start": start, "stop": stop}, element, "linspace")
        slots |= _tensors({"num": num}, DType("int32"), "linspace")
        attrs = {"dtype": element.code}
        return emit("linspace", slots, attrs, name=name, stop_gradient=True)
    attrs = {
        "start": arguments.number(start, "start", "linspace"),
        "stop": arguments.number(stop, "stop", "linspace"),
        "num": arguments.integer(num, "num", "linspace"),
        "dtype": element.code,
    }
    return emit("linspace", {}, attrs, name=name, stop_gradient=True)


def logspace(
    start: Any,
    stop: Any,
    num: int,
    base: float = 10.0,
    dtype: Any = None,
    name: str | None = None,
) -> Variable:
    """Create `num` powers of `base` with evenly spaced exponents (paddle.logspace).

    The exponents go from start to stop, both included. `dtype` is by default the default dtype.
    Raises UnsupportedError for arguments that are Variables.
    """
    attrs = {
        "start": arguments.number(start, "start", "logspace"),
        "stop": arguments.number(stop, "stop", "logspace"),
        "num": arguments.integer(num, "num", "logspace"),
        "base": arguments.number(base, "base", "logspace"),
        "dtype": _element(dtype, "logspace").code,
    }
    return emit("logspace", {}, attrs, name=name, stop_gradient=True)


def eye(
    num_rows: int, num_columns: int | None = None, dtype: Any = None, name: str | None = None
) -> Variable:
    """Create a matrix with ones on the diagonal, square without `num_columns` (paddle.eye).

    Raises TypeError for a negative size.
    """
    rows = arguments.integer(num_rows, "num_rows", "eye")
    columns = rows if num_columns is None else arguments.integer(num_columns, "num_columns", "eye")
    if rows < 0 or columns < 0:
        raise TypeError(f"eye(): 'num_rows' and 'num_columns' should not be negative, found {rows}")
    attrs = {
        "num_rows": rows,
        "num_columns": -1 if num_columns is None else columns,
        "dtype": _element(dtype, "eye").code,
    }
    return emit("eye", {}, attrs, name=name, stop_gradient=True)


def _triangle_indices(
    function: str, row: int, col: int | None, offset: int, dtype: Any
) -> Variable:
    rows = arguments.integer(row, "row", function)
    columns = rows if col is None else arguments.integer(col, "col", function)
    if rows < 0 or columns < 0:
        raise TypeError(f"{function}(): 'row' and 'col' should not be negative")
    at = arguments.integer(offset, "offset", function)
    kind = arguments.dtype(dtype, "dtype", function)
    if kind not in ("int32", "int64"):
        raise TypeError(f"{function}(): 'dtype' should be int32 or int64, but received {kind}")
    indices = np.tril_indices if function == "tril_indices" else np.triu_indices
    made = assign(np.stack(indices(rows, at, columns)).astype(str(kind)))
    made.stop_gradient = True
    return made


def tril_indices(
    row: int, col: int | None = None, offset: int = 0, dtype: Any = "int64"
) -> Variable:
    """List the row and column indices of a lower triangle, [2, n] (paddle.tril_indices)."""
    return _triangle_indices("tril_indices", row, col, offset, dtype)


def triu_indices(
    row: int, col: int | None = None, offset: int = 0, dtype: Any = "int64"
) -> Variable:
    """List the row and column indices of an upper triangle, [2, n] (paddle.triu_indices)."""
    return _triangle_indices("triu_indices", row, col, offset, dtype)


def empty(shape: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """Create a tensor whose values do not matter; they are 0 (paddle.empty)."""
    return full(shape, 0.0, dtype, name)


def empty_like(x: Variable, dtype: Any = None, name: str | None = None) -> Variable:
    """Create a tensor in the shape of x whose values do not matter; they are 0 (empty_like)."""
    return zeros_like(x, dtype, name)


@arguments.accept_old_names(input="x")
def tril(x: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """Keep the lower triangle up to a diagonal, and zero the rest (paddle.tril)."""
    return _triangle(x, diagonal, "tril", name)


@arguments.accept_old_names(input="x")
def triu(x: Variable, diagonal: int = 0, name: str | None = None) -> Variable:
    """Keep the upper triangle from a diagonal on, and zero the rest (paddle.triu)."""
    return _triangle(x, diagonal, "triu", name)


def _triangle(x: Variable, diagonal: int, function: str, name: str | None) -> Variable:
    rank = len(arguments.variable(x, "x", function).shape)
    if rank < 2:
        raise ValueError(
            f"{function}(): input shape in {function} must be at least 2-D, found {rank}-D"
        )
    if isinstance(diagonal, bool) or not isinstance(diagonal, Integral):
        raise TypeError(
            f"{function}(): diagonal in {function} must be a python Int, found {diagonal!r}"
        )
    at = int(diagonal)
    attrs = {"diagonal": at, "lower": function == "tril"}
    return emit_whole("tril_triu", {"X": x}, attrs, layer=function, name=name)


def diag(
    x: Variable, offset: int = 0, padding_value: float = 0, name: str | None = None
) -> Variable:
    """Build a matrix with vector x on a diagonal, or extract a diagonal of a matrix (diag)."""
    arguments.variable(x, "x", "diag")
    attrs = {
        "offset": arguments.integer(offset, "offset", "diag"),
        "padding_value": arguments.number(padding_value, "padding_value", "diag"),
    }
    return emit("diag_v2", {"X": x}, attrs, name=name)


def diagonal(
    x: Variable, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None
) -> Variable:
    """Extract a diagonal of the matrices in two axes, as a new last axis (paddle.diagonal)."""
    return _of_diagonal("diagonal", x, offset, axis1, axis2, name)


@arguments.accept_old_names(input="x", dim1="axis1", dim2="axis2")
def trace(
    x: Variable, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None
) -> Variable:
    """Sum a diagonal of the matrices in two axes (paddle.trace)."""
    return _of_diagonal("trace", x, offset, axis1, axis2, name)


def _of_diagonal(
    type: str, x: Variable, offset: int, axis1: int, axis2: int, name: str | None
) -> Variable:
    arguments.variable(x, "x", type)
    given = {"offset": offset, "axis1": axis1, "axis2": axis2}
    attrs = {what: arguments.integer(value, what, type) for what, value in given.items()}
    return emit(type, {"Input": x}, attrs, name=name)
