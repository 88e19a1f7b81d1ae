"""Node simplification: constant folding, and cheaper nodes or existing values for a node.

A rule looks at one node and its producers, and returns a replacement. The graph then prunes nodes
that nothing reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx_ir as ir

from graphopt.ir.dtypes import DType, convert_as_x86

Array: TypeAlias = np.ndarray[Any, Any]
Operand: TypeAlias = ir.Value | Array | None
Operands: TypeAlias = Sequence[ir.Value | None]
Attributes: TypeAlias = Mapping[str, Any]


class Instead(NamedTuple):
    """An equivalent node; arrays among its operands are constants."""

    op: str
    operands: tuple[Operand, ...]
    attributes: Attributes


Simpler: TypeAlias = ir.Value | Array | Instead | None

# From here on, an end means the end of the axis: no axis is as long.
_ENDLESS = 2**31 - 1
# The most integers of operands for which a result is computed now; most of them are sizes.
_FEW = 64


def simpler(op: str, operands: Operands, attributes: Attributes) -> Simpler:
    """Find a value, a constant or a node that replaces this node; None if there is none."""
    arrays = [array_of(each) for each in operands]
    if op in _FOLDED and all(
        array is not None or each is None for array, each in zip(arrays, operands, strict=True)
    ):
        return _FOLDED[op](*(array for array in arrays if array is not None), **attributes)
    if op in _COMPUTED and arrays and all(array is not None for array in arrays):
        few = [array for array in arrays if array is not None and array.size <= _FEW]
        if len(few) == len(arrays) and all(array.dtype == np.int64 for array in few):
            return np.asarray(_COMPUTED[op](*few))
    rule = _RULES.get(op)
    return None if rule is None else rule(operands, attributes)


def array_of(value: ir.Value | None) -> Array | None:
    """Return the elements of a constant or a parameter; None for computed values."""
    return None if value is None or value.const_value is None else value.const_value.numpy()


def is_size(value: ir.Value) -> bool:
    """True for integers that are never negative, as sizes are."""
    return _is_size(value, {})


def _is_size(value: ir.Value, known: dict[ir.Value, bool]) -> bool:
    if value not in known:
        array, node = array_of(value), value.producer()
        if array is not None or node is None:
            known[value] = array is not None and bool((array >= 0).all())
        else:
            operands = [each for each in node.inputs if each is not None]
            if node.op_type == "Max":
                known[value] = any(_is_size(each, known) for each in operands)
            elif node.op_type == "Where":
                known[value] = all(_is_size(each, known) for each in operands[1:])
            elif node.op_type in _OF_SIZES:
                count = _OF_SIZES[node.op_type] or len(operands)
                known[value] = all(_is_size(each, known) for each in operands[:count])
            else:
                known[value] = node.op_type in ("Shape", "Size")
    return known[value]


# The operators that compute sizes, and how many operands have to be sizes; 0 for all.
_OF_SIZES = {
    **dict.fromkeys(("Cast", "Gather", "Reshape", "Slice", "Squeeze", "Unsqueeze"), 1),
    **dict.fromkeys(("Add", "Concat", "Min", "Mul"), 0),
}


def _cast(x: Array, to: int) -> Array:
    return convert_as_x86(x, DType(ir.DataType(to).numpy().name))


def _reshape(x: Array, shape: Array, allowzero: int = 0) -> Array:
    sizes = shape.tolist()
    return x.reshape(
        sizes if allowzero else [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    )


def _cut(
    x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Array:
    place = [slice(None)] * x.ndim
    along = range(len(starts)) if axes is None else axes.tolist()
    strides = [1] * len(starts) if steps is None else steps.tolist()
    for axis, start, end, step in zip(along, starts.tolist(), ends.tolist(), strides, strict=True):
        # an end before the first element, for which Python has no number
        place[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
    return x[tuple(place)]


# Operators that only move elements: applied to constants, they are folded.
_FOLDED: Mapping[str, Callable[..., Array]] = {
    "Cast": _cast,
    "Gather": lambda x, places, axis: np.take(x, places, axis),
    "Concat": lambda *parts, axis: np.concatenate(parts, axis),
    "Reshape": _reshape,
    "Slice": _cut,
    "Squeeze": lambda x, axes: np.squeeze(x, tuple(axes.tolist())),
    "Transpose": lambda x, perm: np.transpose(x, perm),
    "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes.tolist())),
}
_COMPUTED: Mapping[str, Callable[..., Array]] = {
    "Add": np.add,
    "Max": lambda *each: np.maximum.reduce(np.broadcast_arrays(*each)),
    "Mul": np.multiply,
    "Sub": np.subtract,
}


def made_by(value: ir.Value | None, *ops: str) -> ir.Node | None:
    """Return the producer of a value if it is one of these operators."""
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type in ops else None


def _attribute(node: ir.Node, name: str, default: Any) -> Any:
    return node.attributes[name].value if name in node.attributes else default


def _rank(value: ir.Value | None) -> int | None:
    return None if value is None or value.shape is None else len(value.shape)


def _axes_of(value: ir.Value | None, rank: int | None) -> list[int] | None:
    """Return constant axes, counted from the front and sorted; None if unknown."""
    axes = array_of(value)
    if axes is None:
        return None
    found = axes.tolist()
    if rank is None:
        return None if any(axis < 0 for axis in found) else sorted(found)
    return sorted(axis % rank for axis in found)


def _of_cast(operands: Operands, attributes: Attributes) -> Simpler:
    """Drop a cast of a Shape's result that is cast back to int64."""
    before = made_by(operands[0], "Cast")
    first = None if before is None else before.inputs[0]
    if first is None or attributes["to"] != ir.DataType.INT64 or not made_by(first, "Shape"):
        return None
    return first


def _of_reshape(operands: Operands, attributes: Attributes) -> Simpler:
    """Drop a reshape to the same shape; merge a reshape of a reshaped value."""
    x, wanted = operands[0], array_of(operands[1])
    if x is None or wanted is None:
        return None
    sizes = wanted.tolist()
    own = None if x.shape is None else list(x.shape)
    if own is not None and len(own) == len(sizes) < 2 and (sizes in ([], [-1]) or own == sizes):
        return x
    if 0 in sizes:
        return None
    before = made_by(x, "Reshape", "Squeeze", "Unsqueeze")
    if before is None or (-1 in sizes and _attribute(before, "allowzero", 0)):
        return None
    return Instead("Reshape", (before.inputs[0], operands[1]), attributes)


def _of_squeeze(operands: Operands, attributes: Attributes) -> Simpler:
    x = operands[0]
    axes = _axes_of(operands[1], _rank(x)) if len(operands) > 1 else None
    if axes is None or x is None:
        return None
    before = made_by(x, "Unsqueeze")
    if before is not None and _axes_of(before.inputs[1], _rank(x)) == axes:
        return before.inputs[0]
    return _of_flat_conv(x, axes)


def _of_flat_conv(x: ir.Value, axes: Sequence[int]) -> Simpler:
    """Replace a convolution over images of one row, or column, by one over lines."""
    before = made_by(x, "Conv", "ConvTranspose")
    lines = None if before is None else made_by(before.inputs[0], "Unsqueeze")
    if before is None or lines is None or len(axes) != 1:
        return None
    (axis,), filter = axes, before.inputs[1]
    kernel = _attribute(before, "kernel_shape", ())
    pads = _attribute(before, "pads", None)
    if (
        _axes_of(lines.inputs[1], None) != [axis]
        or not 2 <= axis < 2 + len(kernel)
        or len(kernel) < 2
        or pads is None
        or filter is None
        or array_of(filter) is None
    ):
        return None
    at, count = axis - 2, len(kernel)
    beyond = _attribute(before, "output_padding", None)
    if kernel[at] != 1 or pads[at] or pads[at + count] or (beyond and beyond[at]):
        return None
    attributes = {name: each.value for name, each in before.attributes.items()}
    for name in ("kernel_shape", "strides", "dilations", "output_padding"):
        if name in attributes:
            attributes[name] = [n for i, n in enumerate(attributes[name]) if i != at]
    attributes["pads"] = [n for i, n in enumerate(pads) if i % count != at]
    array = array_of(filter)
    assert array is not None
    operands = (lines.inputs[0], np.squeeze(array, axis), *before.inputs[2:])
    return Instead(before.op_type, operands, attributes)


def _of_unsqueeze(operands: Operands, attributes: Attributes) -> Simpler:
    x, axes = operands[0], _axes_of(operands[1], None)
    if x is None or axes is None:
        return None
    before = made_by(x, "Squeeze")
    if before is not None and len(before.inputs) > 1:
        return (
            before.inputs[0]
            if _axes_of(before.inputs[1], _rank(before.inputs[0])) == axes
            else None
        )
    before = made_by(x, "Gather")
    place = None if before is None else array_of(before.inputs[1])
    if before is None or place is None or place.ndim or axes != [_attribute(before, "axis", 0)]:
        return None
    return Instead("Gather", (before.inputs[0], place.reshape(1)), {"axis": axes[0]})


def _of_transpose(operands: Operands, attributes: Attributes) -> Simpler:
    before = made_by(operands[0], "Transpose")
    if before is None:
        return None
    first = _attribute(before, "perm", ())
    perm = [first[axis] for axis in attributes["perm"]]
    if perm == list(range(len(perm))):
        return before.inputs[0]
    return Instead("Transpose", (before.inputs[0],), {"perm": perm})


def _of_slice(operands: Operands, attributes: Attributes) -> Simpler:
    """Drop a slice that covers the whole tensor."""
    x, arrays = operands[0], [array_of(each) for each in operands[1:]]
    if x is None or x.shape is None or len(arrays) != 4:
        return None
    starts, ends, axes, steps = arrays
    if starts is None or ends is None or axes is None or steps is None:
        return None
    if starts.any() or (steps != 1).any():
        return None
    sizes = [x.shape[axis] for axis in axes.tolist()]
    fits = [
        end >= _ENDLESS or (isinstance(size, int) and end >= size)
        for end, size in zip(ends.tolist(), sizes, strict=True)
    ]
    return x if all(fits) else None


def _of_expand(operands: Operands, attributes: Attributes) -> Simpler:
    """Drop the tensor's own shape where a size is 1: Expand broadcasts anyway."""
    x, choice = operands[0], made_by(operands[1], "Where")
    if choice is None:
        return None
    keeps, own, other = choice.inputs
    shape, equal = made_by(own, "Shape"), made_by(keeps, "Equal")
    if shape is None or shape.inputs[0] is not x or shape.attributes or equal is None:
        return None
    for left, right in (equal.inputs, equal.inputs[::-1]):
        one = array_of(right)
        if left is other and one is not None and (one == 1).all():
            return Instead("Expand", (x, other), {})
    return None


_RULES: Mapping[str, Callable[[Operands, Attributes], Simpler]] = {
    "Cast": _of_cast,
    "Expand": _of_expand,
    "Reshape": _of_reshape,
    "Slice": _of_slice,
    "Squeeze": _of_squeeze,
    "Transpose": _of_transpose,
    "Unsqueeze": _of_unsqueeze,
}
