"""Repeating, reversing, shifting, cropping and unstacking (paddle.*)."""

from __future__ import annotations

from typing import Any

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import LayerHelper, emit
from graphopt.frontend.one_layer import one_layer
from graphopt.frontend.sizes import SizeInputs, has_variable, sizes
from graphopt.ir.dtypes import as_dtype
from graphopt.ir.program import Variable
from graphopt.tensor.linalg import transpose
from graphopt.tensor.manipulation import expand, reshape


def tile(x: Variable, repeat_times: Any, name: str | None = None) -> Variable:
    """Repeat x along every axis (paddle.tile)."""
    arguments.variable(x, "x", "tile")
    times = sizes(repeat_times, "repeat_times", "tile", "RepeatTimes", "repeat_times_tensor")
    return emit("tile", {"X": x, **times.inputs}, {"repeat_times": times.value}, name=name)


def expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """Broadcast x to the shape of y (paddle.expand_as)."""
    inputs = {"X": arguments.variable(x, "x", "expand_as")}
    inputs["Y"] = arguments.variable(y, "y", "expand_as")
    attrs = {"target_shape": list(y.shape)}
    return emit("expand_as_v2", inputs, attrs, layer="expand_as", name=name)


def broadcast_tensors(input: Any, name: str | None = None) -> list[Variable]:
    """Broadcast tensors to their common shape (paddle.broadcast_tensors)."""
    inputs = arguments.variables(input, "input", "broadcast_tensors")
    if any(size < 0 for x in inputs for size in x.shape):
        return _broadcast_at_run(inputs)
    rank = max((len(x.shape) for x in inputs), default=0)
    # at each axis, a tensor whose size is not 1 decides
    shape = [
        max(((1,) * rank + tuple(x.shape))[-rank + at :][0] for x in inputs) if rank else 1
        for at in range(rank)
    ]
    return [expand(x, shape, name) for x in inputs]


def _broadcast_at_run(inputs: list[Variable]) -> list[Variable]:
    """Broadcast tensors of unknown sizes to the shape of a sum of zeros like them."""
    attrs = {"value": 0.0, "dtype": as_dtype("float32").code}
    zeros = [emit("fill_any_like", {"X": x}, attrs, stop_gradient=True) for x in inputs]
    joint = zeros[0]
    for other in zeros[1:]:
        joint = emit("elementwise_add", {"X": joint, "Y": other})
    return [expand_as(x, joint) for x in inputs]


@arguments.accept_old_names(input="x", dims="axis")
def flip(x: Variable, axis: Any, name: str | None = None) -> Variable:
    """Reverse the order of elements along these axes (paddle.flip)."""
    arguments.variable(x, "x", "flip")
    return emit("flip", {"X": x}, {"axis": arguments.integers(axis, "axis", "flip")}, name=name)


def reverse(x: Variable, axis: Any, name: str | None = None) -> Variable:
    """Reverse axes as `flip` does (paddle.reverse)."""
    return flip(x, axis, name)


@arguments.accept_old_names(input="x", dims="axis")
def roll(x: Variable, shifts: Any, axis: Any = None, name: str | None = None) -> Variable:
    """Roll elements along axes, or along the flattened tensor without axes (paddle.roll)."""
    arguments.variable(x, "x", "roll")
    by = sizes(shifts, "shifts", "roll", "ShiftsTensor", "")
    attrs = {"shifts": by.value, "axis": arguments.axes(axis, "roll")}
    return emit("roll", {"X": x, **by.inputs}, attrs, name=name)


def unbind(input: Variable, axis: int = 0) -> list[Variable]:
    """Split x along an axis of known size into slices without the axis (paddle.unbind)."""
    return _apart("unbind", "Out", arguments.variable(input, "input", "unbind"), axis, None)


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """Split x along an axis into `num` slices without the axis (paddle.unstack)."""
    return _apart("unstack", "Y", arguments.variable(x, "x", "unstack"), axis, num)


def _apart(type: str, slot: str, x: Variable, axis: int, num: int | None) -> list[Variable]:
    at = arguments.integer(axis, "axis", type)
    rank = len(x.shape)
    if not -rank <= at < rank:
        raise ValueError(f"{type}(): 'axis' must be within [{-rank}, {rank}), found {at}")
    size = x.shape[at]
    if num not in (None, size) or size < 0:
        raise ValueError(f"{type}(): axis {at} of {list(x.shape)} must have the size {num or '>0'}")
    helper = LayerHelper(type)
    parts = [helper.temporary() for _ in range(size)]
    helper.append_op(type, {"X": x}, {slot: parts}, {"axis": at, "num": size})
    return parts


def strided_slice(
    x: Variable, axes: Any, starts: Any, ends: Any, strides: Any, name: str | None = None
) -> Variable:
    """Slice each axis axes[i] from starts[i] to ends[i] by strides[i] (paddle.strided_slice).

    Negative bounds and strides count as in Python. They may be Variables.
    """
    inputs: dict[str, Any] = {"Input": arguments.variable(x, "x", "strided_slice")}
    attrs = {"axes": arguments.integers(axes, "axes", "strided_slice")}
    for what, value in {"starts": starts, "ends": ends, "strides": strides}.items():
        slot = f"{what.capitalize()}Tensor"
        bounds = sizes(value, what, "strided_slice", slot, f"{slot}List")
        attrs[what] = bounds.value
        inputs |= bounds.inputs
    return emit("strided_slice", inputs, attrs, name=name)


@one_layer("crop_tensor")
def crop(x: Variable, shape: Any = None, offsets: Any = None, name: str | None = None) -> Variable:
    """Crop x to the block of this shape at `offsets`; -1 goes to the end (paddle.crop).

    Both are a list of ints and integer Variables of one element, or one Variable of all numbers.
    Raises ValueError when they do not fit x.
    """
    have = arguments.variable(x, "x", "crop").shape
    dims = sizes(have if shape is None else shape, "shape", "crop", "Shape", "ShapeTensor")
    starts = _starts(offsets, len(have))
    given = dims.value if shape is None or isinstance(shape, Variable) else list(shape)
    if not len(dims.value) == len(starts.value) == len(have):
        raise ValueError(
            f"crop(): 'shape' {dims.value} and 'offsets' {starts.value} should fit {list(have)}"
        )
    at = starts.value if offsets is None or isinstance(offsets, Variable) else list(offsets)
    if not isinstance(offsets, Variable) and any(map(_is_outside, have, at, given)):
        raise ValueError(f"crop(): {dims.value} at {starts.value} reaches outside 'x' {list(have)}")
    attrs = {"shape": dims.value, "offsets": starts.value}
    return emit("crop_tensor", {"X": x, **dims.inputs, **starts.inputs}, attrs, name=name)


def _starts(offsets: Any, rank: int) -> SizeInputs:
    """Convert the offsets of `crop` to inputs; `crop` itself refuses negative ones."""
    if offsets is None:
        return SizeInputs([0] * rank, {})
    if not has_variable(offsets):
        return SizeInputs(arguments.integers(offsets, "offsets", "crop"), {})
    return sizes(offsets, "offsets", "crop", "Offsets", "OffsetsTensor")


def _is_outside(have: int, start: Any, size: Any) -> bool:
    """True for a block that is known to start before an axis or to end after it."""
    first = 0 if isinstance(start, Variable) else start
    last = first + (0 if isinstance(size, Variable) else max(size, 0))
    return first < 0 or 0 <= have < last


def meshgrid(*args: Any, **kwargs: Any) -> list[Variable]:
    """Broadcast vectors to the coordinates of a grid (paddle.meshgrid)."""
    given = args[0] if len(args) == 1 and isinstance(args[0], (list, tuple)) else args
    inputs = arguments.variables(list(given), "args", "meshgrid")
    helper = LayerHelper("meshgrid", kwargs.get("name"))
    grids = [helper.temporary() for _ in inputs]
    helper.append_op("meshgrid", {"X": inputs}, {"Out": grids})
    return grids


def swapaxes(x: Variable, axis1: int, axis2: int, name: str | None = None) -> Variable:
    """Exchange two axes of x (paddle.swapaxes)."""
    rank = len(arguments.variable(x, "x", "swapaxes").shape)
    order = list(range(rank))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return transpose(x, order, name)


def repeat_interleave(
    x: Variable, repeats: Any, axis: int | None = None, name: str | None = None
) -> Variable:
    """Repeat each element along an axis, or of the flattened tensor (repeat_interleave).

    A Variable has the count for each element; the run then decides the size of the axis.
    """
    if axis is None:
        x, axis = reshape(x, [-1]), 0
    if isinstance(repeats, Variable):
        inputs = {"X": arguments.variable(x, "x", "repeat_interleave"), "RepeatsTensor": repeats}
        return emit("repeat_interleave", inputs, {"dim": axis}, name=name)
    times = arguments.integer(repeats, "repeats", "repeat_interleave")
    inputs = {"X": arguments.variable(x, "x", "repeat_interleave")}
    return emit("repeat_interleave", inputs, {"Repeats": times, "dim": axis}, name=name)
