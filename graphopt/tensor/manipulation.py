"""Reshaping, splitting, joining and casting (paddle.*)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphopt.frontend import arguments, lazy
from graphopt.frontend.in_place import in_place
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.frontend.sizes import size, sizes
from graphopt.frontend.sub_blocks import is_array
from graphopt.ir.program import Variable
from graphopt.tensor.array import tensor_array_to_tensor


def cast(x: Variable, dtype: Any) -> Variable:
    """Cast x to another dtype (paddle.cast)."""
    arguments.variable(x, "x", "cast")
    target = arguments.dtype(dtype, "dtype", "cast")
    attrs = {"in_dtype": x.dtype.code, "out_dtype": target.code}
    return emit("cast", {"X": x}, attrs, stop_gradient=not target.is_differentiable)


def reshape(x: Variable, shape: Any, name: str | None = None) -> Variable:
    """Reshape x; 0 copies a dimension, one -1 takes the rest (paddle.reshape).

    The shape may be a Variable, or have Variables in it. Raises ProgramError when the number of
    elements differs.
    """
    arguments.variable(x, "x", "reshape")
    dims = sizes(shape, "shape", "reshape", "Shape", "ShapeTensor")
    return emit("reshape2", {"X": x, **dims.inputs}, {"shape": dims.value}, name=name)


def flatten(
    x: Variable, start_axis: int = 0, stop_axis: int = -1, name: str | None = None
) -> Variable:
    """Flatten the axes from `start_axis` to `stop_axis` into one (paddle.flatten).

    Raises ProgramError when an axis is out of range or start comes after stop.
    """
    arguments.variable(x, "x", "flatten")
    attrs = {
        "start_axis": arguments.integer(start_axis, "start_axis", "flatten"),
        "stop_axis": arguments.integer(stop_axis, "stop_axis", "flatten"),
    }
    return emit("flatten_contiguous_range", {"X": x}, attrs, layer="flatten", name=name)


def squeeze(x: Variable, axis: Any = None, name: str | None = None) -> Variable:
    """Remove axes of size 1, the ones in `axis` or all of them (paddle.squeeze)."""
    arguments.variable(x, "x", "squeeze")
    axes = arguments.axes(axis, "squeeze")
    return emit("squeeze2", {"X": x}, {"axes": axes}, layer="squeeze", name=name)


def unsqueeze(x: Variable, axis: Any, name: str | None = None) -> Variable:
    """Insert axes of size 1 at these positions of the result (paddle.unsqueeze)."""
    arguments.variable(x, "x", "unsqueeze")
    axes = sizes(axis, "axis", "unsqueeze", "AxesTensor", "AxesTensorList")
    return emit("unsqueeze2", {"X": x, **axes.inputs}, {"axes": axes.value}, name=name)


reshape_ = in_place(reshape, reshapes=True)
squeeze_ = in_place(squeeze, reshapes=True)
unsqueeze_ = in_place(unsqueeze, reshapes=True)


def concat(x: Sequence[Variable] | Variable, axis: Any = 0, name: str | None = None) -> Variable:
    """Concatenate tensors of one rank and dtype, or an array's elements (paddle.concat)."""
    if isinstance(x, Variable) and is_array(x):
        return tensor_array_to_tensor(x, _axis(axis, "concat"), name)[0]
    inputs = arguments.variables([x] if isinstance(x, Variable) else x, "x", "concat")
    at = size(axis, "axis", "concat", "AxisTensor")
    return emit("concat", {"X": inputs, **at.inputs}, {"axis": at.value}, name=name)


def stack(x: Sequence[Variable] | Variable, axis: int = 0, name: str | None = None) -> Variable:
    """Stack tensors of one shape and dtype, or an array's elements, on a new axis (stack)."""
    if isinstance(x, Variable) and is_array(x):
        return tensor_array_to_tensor(x, _axis(axis, "stack"), name, use_stack=True)[0]
    inputs = arguments.variables(x, "x", "stack")
    return emit("stack", {"X": inputs}, {"axis": _axis(axis, "stack")}, name=name, out="Y")


def _axis(axis: Any, function: str) -> int:
    return arguments.integer(axis, "axis", function)


def split(
    x: Variable, num_or_sections: Any, axis: Any = 0, name: str | None = None
) -> list[Variable]:
    """Split x along an axis into equal parts, or parts of these sizes (paddle.split).

    One size may be -1 for the rest; sizes and the axis may be Variables. Raises ProgramError when
    the sizes do not add up.
    """
    at = size(axis, "axis", "split", "AxisTensor")
    inputs = {"X": arguments.variable(x, "x", "split"), **at.inputs}
    attrs = {"axis": at.value, "num": 0, "sections": []}
    if isinstance(num_or_sections, (list, tuple)):
        parts = sizes(num_or_sections, "num_or_sections", "split", "", "SectionsTensorList")
        attrs["sections"] = parts.value
        inputs |= parts.inputs
    else:
        attrs["num"] = arguments.integer(num_or_sections, "num_or_sections", "split")
        arguments.at_least(1, [attrs["num"]], "num_or_sections", "split")
    helper = LayerHelper("split", name)
    made = [helper.temporary() for _ in range(len(attrs["sections"]) or attrs["num"])]
    helper.append_op("split", inputs, {"Out": made}, attrs)
    return made


def chunk(x: Variable, chunks: int, axis: int = 0, name: str | None = None) -> list[Variable]:
    """Split x along an axis into `chunks` equal parts (paddle.chunk)."""
    return split(x, arguments.integer(chunks, "chunks", "chunk"), axis, name)


def slice(input: Variable, axes: Any, starts: Any, ends: Any) -> Variable:
    """Slice each axis axes[i] from starts[i] to ends[i] (paddle.slice).

    Negative bounds count from the end; bounds out of range are clamped. Bounds may be Variables.
    """
    inputs = {"Input": arguments.variable(input, "input", "slice")}
    attrs = {"axes": arguments.integers(axes, "axes", "slice"), "decrease_axis": []}
    low = sizes(starts, "starts", "slice", "StartsTensor", "StartsTensorList")
    high = sizes(ends, "ends", "slice", "EndsTensor", "EndsTensorList")
    attrs |= {"starts": low.value, "ends": high.value}
    return emit("slice", {**inputs, **low.inputs, **high.inputs}, attrs)


def expand(x: Variable, shape: Any, name: str | None = None) -> Variable:
    """Broadcast x to `shape`, which may be a Variable; -1 keeps an axis (paddle.expand)."""
    arguments.variable(x, "x", "expand")
    dims = sizes(shape, "shape", "expand", "Shape", "expand_shapes_tensor")
    inputs = {"X": x, **dims.inputs}
    return emit("expand_v2", inputs, {"shape": dims.value}, layer="expand", name=name)


def broadcast_to(x: Variable, shape: Any, name: str | None = None) -> Variable:
    """Broadcast x as `expand` does (paddle.broadcast_to)."""
    return expand(x, shape, name)


def gather(x: Variable, index: Variable, axis: Any = None, name: str | None = None) -> Variable:
    """Gather slices of x along an axis (0) by a 1-D integer index (paddle.gather).

    An index out of range raises when the program runs.
    """
    inputs = {"X": arguments.variable(x, "x", "gather")}
    inputs["Index"] = arguments.variable(index, "index", "gather")
    at = size(0 if axis is None else axis, "axis", "gather", "Axis")
    return emit("gather", {**inputs, **at.inputs}, {"axis": at.value}, name=name)


lazy.join_package(globals())
