"""Other shapes, orders and dtypes of the same elements (paddle.*)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt import arguments
from graphopt.ir.program import Variable
from graphopt.layer_helper import LayerHelper, emit


def cast(x: Variable, dtype: Any) -> Variable:
    """x with another dtype (paddle.cast)."""
    arguments.variable(x, "x", "cast")
    target = arguments.dtype(dtype, "dtype", "cast")
    attrs = {"in_dtype": x.dtype.code, "out_dtype": target.code}
    return emit("cast", {"X": x}, attrs, stop_gradient=not target.is_differentiable)


def reshape(x: Variable, shape: Any, name: str | None = None) -> Variable:
    """The elements in another shape: 0 copies a dimension, one -1 is the rest (paddle.reshape).

    Raises ProgramError when the number of elements differs.
    """
    arguments.variable(x, "x", "reshape")
    attrs = {"shape": arguments.shape(shape, "reshape")}
    return emit("reshape2", {"X": x}, attrs, name=name)


def flatten(
    x: Variable, start_axis: int = 0, stop_axis: int = -1, name: str | None = None
) -> Variable:
    """The axes from start to stop joined into one (paddle.flatten).

    Raises ProgramError when an axis is out of range or start comes after stop.
    """
    arguments.variable(x, "x", "flatten")
    attrs = {
        "start_axis": arguments.integer(start_axis, "start_axis", "flatten"),
        "stop_axis": arguments.integer(stop_axis, "stop_axis", "flatten"),
    }
    return emit("flatten_contiguous_range", {"X": x}, attrs, layer="flatten", name=name)


def squeeze(x: Variable, axis: Any = None, name: str | None = None) -> Variable:
    """Without the axes of size 1, those given or all of them (paddle.squeeze)."""
    arguments.variable(x, "x", "squeeze")
    return emit("squeeze2", {"X": x}, {"axes": arguments.axes(axis, "squeeze")}, name=name)


def unsqueeze(x: Variable, axis: Any, name: str | None = None) -> Variable:
    """With axes of size 1 at these positions of the result (paddle.unsqueeze)."""
    arguments.variable(x, "x", "unsqueeze")
    attrs = {"axes": arguments.integers(axis, "axis", "unsqueeze")}
    return emit("unsqueeze2", {"X": x}, attrs, name=name)


# In a static program the in-place forms make new variables, as in Paddle.
reshape_ = reshape
squeeze_ = squeeze
unsqueeze_ = unsqueeze


def concat(x: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Tensors of one rank and dtype joined along an axis (paddle.concat)."""
    inputs = arguments.variables(x, "x", "concat")
    return emit("concat", {"X": inputs}, {"axis": _axis(axis, "concat")}, name=name)


def stack(x: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Tensors of one shape and dtype joined along a new axis (paddle.stack)."""
    inputs = arguments.variables(x, "x", "stack")
    return emit("stack", {"X": inputs}, {"axis": _axis(axis, "stack")}, name=name, out="Y")


def _axis(axis: Any, function: str) -> int:
    return arguments.integer(axis, "axis", function)


def split(
    x: Variable, num_or_sections: Any, axis: int = 0, name: str | None = None
) -> list[Variable]:
    """x cut along an axis in equal parts, or in parts of these sizes (paddle.split).

    One size may be -1 for the rest. Raises ProgramError when the sizes do not add up.
    """
    arguments.variable(x, "x", "split")
    at = _axis(axis, "split")
    if isinstance(num_or_sections, (list, tuple)):
        sections = arguments.integers(num_or_sections, "num_or_sections", "split")
        attrs = {"axis": at, "num": 0, "sections": sections}
    else:
        num = arguments.integer(num_or_sections, "num_or_sections", "split")
        attrs = {"axis": at, "num": num, "sections": []}
    count = len(attrs["sections"]) or attrs["num"]
    helper = LayerHelper("split", name)
    parts = [helper.temporary() for _ in range(count)]
    helper.append_op("split", {"X": x}, {"Out": parts}, attrs)
    return parts


def chunk(x: Variable, chunks: int, axis: int = 0, name: str | None = None) -> list[Variable]:
    """x cut along an axis in `chunks` equal parts (paddle.chunk)."""
    return split(x, arguments.integer(chunks, "chunks", "chunk"), axis, name)


def slice(input: Variable, axes: Any, starts: Any, ends: Any) -> Variable:
    """The range starts[i] to ends[i] of each axis axes[i] (paddle.slice).

    Negative bounds count from the end; bounds outside are cut off. Raises UnsupportedError for
    bounds that are Variables.
    """
    arguments.variable(input, "input", "slice")
    attrs = {
        "axes": arguments.integers(axes, "axes", "slice"),
        "starts": arguments.integers(starts, "starts", "slice"),
        "ends": arguments.integers(ends, "ends", "slice"),
        "decrease_axis": [],
    }
    return emit("slice", {"Input": input}, attrs)


def expand(x: Variable, shape: Any, name: str | None = None) -> Variable:
    """Axes of size 1 repeated up to `shape`; -1 keeps an axis (paddle.expand)."""
    arguments.variable(x, "x", "expand")
    return emit("expand_v2", {"X": x}, {"shape": arguments.shape(shape, "expand")}, name=name)


def broadcast_to(x: Variable, shape: Any, name: str | None = None) -> Variable:
    """The same as `expand` (paddle.broadcast_to)."""
    return expand(x, shape, name)


def gather(
    x: Variable, index: Variable, axis: int | None = None, name: str | None = None
) -> Variable:
    """The slices of x along an axis (0) that a 1-D integer tensor names (paddle.gather).

    Numbers outside the axis raise when the program runs.
    """
    inputs = {"X": arguments.variable(x, "x", "gather")}
    inputs["Index"] = arguments.variable(index, "index", "gather")
    attrs = {"axis": 0 if axis is None else _axis(axis, "gather")}
    return emit("gather", inputs, attrs, name=name)
