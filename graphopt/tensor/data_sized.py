"""Operators whose result size depends on the data (paddle.*).

A program with one of them runs op by op, each an XLA program of its own, because XLA fixes all
sizes when it compiles; it runs on one device. Where the size can be fixed, `where(mask, x, 0)` and
the like are much faster.
"""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.ir.program import Variable
from graphopt.tensor.manipulation import slice as slice_
from graphopt.tensor.manipulation import squeeze


def nonzero(x: Variable, as_tuple: bool = False) -> Any:
    """Find the indices of the elements that are not 0, int64 [count, rank] (paddle.nonzero).

    With `as_tuple`, return one vector of indices per axis instead.
    """
    found = emit("where_index", {"Condition": arguments.variable(x, "x", "nonzero")})
    found.stop_gradient = True
    if not as_tuple:
        return found
    return tuple(squeeze(slice_(found, [1], [i], [i + 1]), [1]) for i in range(len(x.shape)))


def masked_select(x: Variable, mask: Variable, name: str | None = None) -> Variable:
    """Select the elements of x where the bool mask is true, in order (paddle.masked_select)."""
    inputs = {"X": arguments.variable(x, "x", "masked_select")}
    inputs["Mask"] = arguments.variable(mask, "mask", "masked_select")
    return emit("masked_select", inputs, name=name, out="Y")


def _index_dtype(dtype: Any, function: str) -> int:
    element = arguments.dtype(dtype, "dtype", function)
    if element not in ("int32", "int64"):
        raise TypeError(f"{function}(): 'dtype' must be int32 or int64, found {element}")
    return element.code


def unique(
    x: Variable,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """Find the distinct elements, or slices along `axis`, in sorted order (paddle.unique).

    Each flag adds a result of `dtype`: the index of the first occurrence of each distinct element,
    the index of each element of x among the distinct ones, and the number of occurrences. No
    gradient flows through the results.
    """
    wanted = {
        "Indices": arguments.flag(return_index, "return_index", "unique"),
        "Index": arguments.flag(return_inverse, "return_inverse", "unique"),
        "Counts": arguments.flag(return_counts, "return_counts", "unique"),
    }
    attrs = {
        "dtype": _index_dtype(dtype, "unique"),
        "return_index": return_index,
        "return_inverse": return_inverse,
        "return_counts": return_counts,
        "axis": [] if axis is None else [arguments.integer(axis, "axis", "unique")],
        "is_sorted": True,
    }
    return _several("unique", x, wanted, attrs, name)


def unique_consecutive(
    x: Variable,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """Collapse runs of equal elements, or of slices along `axis` (paddle.unique_consecutive).

    Each flag adds a result of `dtype`: the index of each element's run, and the run lengths.
    """
    wanted = {
        "Index": arguments.flag(return_inverse, "return_inverse", "unique_consecutive"),
        "Counts": arguments.flag(return_counts, "return_counts", "unique_consecutive"),
    }
    attrs = {
        "dtype": _index_dtype(dtype, "unique_consecutive"),
        "return_inverse": return_inverse,
        "return_counts": return_counts,
        "axis": [] if axis is None else [arguments.integer(axis, "axis", "unique_consecutive")],
    }
    return _several("unique_consecutive", x, wanted, attrs, name)


def _several(
    type: str, x: Variable, wanted: dict[str, bool], attrs: dict[str, Any], name: str | None
) -> Any:
    """Emit an operator; return its main output and the other requested outputs."""
    helper = LayerHelper(type, name)
    slots = ("Out", *wanted)
    inputs = {"X": arguments.variable(x, "x", type)}
    made = helper.emit_all(type, inputs, attrs, slots, stop_gradient=True)
    flags = (True, *wanted.values())
    results = [value for value, is_wanted in zip(made, flags, strict=True) if is_wanted]
    return results[0] if len(results) == 1 else tuple(results)


def bincount(
    x: Variable, weights: Variable | None = None, minlength: int = 0, name: str | None = None
) -> Variable:
    """Count the occurrences of 0, 1, … max(x) in the vector x, or sum their weights.

    The result has at least `minlength` bins. Paddle page: paddle.bincount.
    """
    inputs = {"X": arguments.variable(x, "x", "bincount")}
    if weights is not None:
        inputs["Weights"] = arguments.variable(weights, "weights", "bincount")
    attrs = {"minlength": arguments.integer(minlength, "minlength", "bincount")}
    if attrs["minlength"] < 0:
        raise ValueError(f"bincount(): 'minlength' must not be negative, found {minlength}")
    return emit("bincount", inputs, attrs, name=name, stop_gradient=True)
