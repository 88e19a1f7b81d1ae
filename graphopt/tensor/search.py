"""Extremes, sorting, searching, and selection by a condition (paddle.*)."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.frontend.sizes import size
from graphopt.ir.program import Variable
from graphopt.tensor.data_sized import nonzero


def _index_of(
    type: str, x: Any, axis: int | None, keepdim: bool, dtype: Any, name: str | None
) -> Variable:
    function = type.replace("_", "")
    arguments.variable(x, "x", function)
    attrs = {
        "axis": 0 if axis is None else arguments.integer(axis, "axis", function),
        "keepdims": arguments.flag(keepdim, "keepdim", function),
        "flatten": axis is None,
        "dtype": arguments.dtype(dtype, "dtype", function).code,
    }
    return emit(type, {"X": x}, attrs, layer=function, name=name, stop_gradient=True)


def argmax(
    x: Variable,
    axis: int | None = None,
    keepdim: bool = False,
    dtype: Any = "int64",
    name: str | None = None,
) -> Variable:
    """Find the index of the first maximum along `axis`, or of the flattened tensor.

    The result is int64 or int32. Paddle page: paddle.argmax.
    """
    return _index_of("arg_max", x, axis, keepdim, dtype, name)


def argmin(
    x: Variable,
    axis: int | None = None,
    keepdim: bool = False,
    dtype: Any = "int64",
    name: str | None = None,
) -> Variable:
    """Find the index of the first minimum along `axis`, or of the flattened tensor.

    The result is int64 or int32. Paddle page: paddle.argmin.
    """
    return _index_of("arg_min", x, axis, keepdim, dtype, name)


def topk(
    x: Variable,
    k: Any,
    axis: int | None = None,
    largest: bool = True,
    sorted: bool = True,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Find the k largest (or smallest) elements along `axis` and their int64 indices.

    `axis` is -1 by default. k may be a Variable of one element. Raises ProgramError unless k is
    from 1 to the size of the axis. Paddle page: paddle.topk.
    """
    count = size(k, "k", "topk", "K")
    inputs = {"X": arguments.variable(x, "x", "topk"), **count.inputs}
    attrs = {
        "k": count.value,
        "axis": -1 if axis is None else arguments.integer(axis, "axis", "topk"),
        "largest": arguments.flag(largest, "largest", "topk"),
        "sorted": arguments.flag(sorted, "sorted", "topk"),
    }
    helper = LayerHelper("top_k_v2", name)
    values, indices = helper.emit_all("top_k_v2", inputs, attrs, ("Out", "Indices"))
    indices.stop_gradient = True
    return values, indices


def where(condition: Variable, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Select x where the condition holds, else y (paddle.where).

    x and y broadcast, and may be numbers. Without them, return the indices of the true elements:
    `nonzero(condition, as_tuple=True)`.
    """
    from graphopt.tensor.creation import full
    from graphopt.tensor.scaled import promote

    arguments.variable(condition, "condition", "where")
    if x is None and y is None:
        return nonzero(condition, as_tuple=True)
    if x is None or y is None:
        raise ValueError("where(): either both or neither of 'x' and 'y' should be given")
    like = next((value.dtype for value in (x, y) if isinstance(value, Variable)), None)
    x, y = (value if isinstance(value, Variable) else full([], value, like) for value in (x, y))
    x, y = promote(x, y)
    return emit("where", {"Condition": condition, "X": x, "Y": y}, name=name)


def _sort_along(
    x: Any, axis: int, descending: bool, function: str, name: str | None
) -> tuple[Variable, Variable]:
    arguments.variable(x, "x", function)
    attrs = {
        "axis": arguments.integer(axis, "axis", function),
        "descending": arguments.flag(descending, "descending", function),
    }
    helper = LayerHelper(function, name)
    values, indices = helper.emit_all("argsort", {"X": x}, attrs, ("Out", "Indices"))
    indices.stop_gradient = True
    return values, indices


def sort(
    x: Variable,
    axis: int = -1,
    descending: bool = False,
    stable: bool = False,
    name: str | None = None,
) -> Variable:
    """Sort the elements along `axis`; always stable (paddle.sort)."""
    return _sort_along(x, axis, descending, "sort", name)[0]


def argsort(
    x: Variable,
    axis: int = -1,
    descending: bool = False,
    stable: bool = False,
    name: str | None = None,
) -> Variable:
    """Find the int64 indices that sort x; equal elements keep their order (paddle.argsort)."""
    return _sort_along(x, axis, descending, "argsort", name)[1]


def kthvalue(
    x: Variable,
    k: int,
    axis: int | None = None,
    keepdim: bool = False,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Find the k-th smallest element along `axis` (-1) and its int64 index (paddle.kthvalue)."""
    arguments.variable(x, "x", "kthvalue")
    attrs = {
        "k": arguments.integer(k, "k", "kthvalue"),
        "axis": -1 if axis is None else arguments.integer(axis, "axis", "kthvalue"),
        "keepdim": arguments.flag(keepdim, "keepdim", "kthvalue"),
    }
    helper = LayerHelper("kthvalue", name)
    values, indices = helper.emit_all("kthvalue", {"X": x}, attrs, ("Out", "Indices"))
    indices.stop_gradient = True
    return values, indices


def searchsorted(
    sorted_sequence: Variable,
    values: Variable,
    out_int32: bool = False,
    right: bool = False,
    name: str | None = None,
    *,
    side: str | None = None,
    sorter: Variable | None = None,
) -> Variable:
    """Find insertion positions in the last axis of sorted sequences (paddle.searchsorted).

    `sorter` has the indices that sort them. Raises ValueError where `side` contradicts `right`.
    """
    right = arguments.flag(right, "right", "searchsorted")
    if side is not None:
        if arguments.choice(side, "side", "searchsorted", ("left", "right")) == "left" and right:
            raise ValueError("searchsorted(): side='left' contradicts right=True")
        right = side == "right"
    if sorter is not None:
        arrays = {
            "Input": arguments.variable(sorted_sequence, "sorted_sequence", "searchsorted"),
            "Index": arguments.variable(sorter, "sorter", "searchsorted"),
        }
        sorted_sequence = emit("take_along_axis", arrays, {"Axis": -1}, out="Result")
    inputs = {
        "SortedSequence": arguments.variable(sorted_sequence, "sorted_sequence", "searchsorted"),
        "Values": arguments.variable(values, "values", "searchsorted"),
    }
    attrs = {
        "out_int32": arguments.flag(out_int32, "out_int32", "searchsorted"),
        "right": right,
    }
    return emit("searchsorted", inputs, attrs, name=name, stop_gradient=True)


def histogram(
    input: Variable,
    bins: int = 100,
    min: float = 0,
    max: float = 0,
    weight: Variable | None = None,
    density: bool = False,
    name: str | None = None,
) -> Variable:
    """Count the elements in equal bins from min to max, int64 (paddle.histogram).

    If min and max are equal, the bins cover the elements. `weight` sums the weights of the elements
    instead; `density` divides by the total and by the bin size. Both give float32.
    """
    arguments.variable(input, "input", "histogram")
    inputs = {"X": input}
    if weight is not None:
        inputs["Weight"] = arguments.variable(weight, "weight", "histogram")
    attrs = {
        "bins": arguments.integer(bins, "bins", "histogram"),
        "min": arguments.number(min, "min", "histogram"),
        "max": arguments.number(max, "max", "histogram"),
    }
    if arguments.flag(density, "density", "histogram"):
        attrs["density"] = True
    return emit("histogram", inputs, attrs, name=name, stop_gradient=True)


lazy.join_package(globals())
