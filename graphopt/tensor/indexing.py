"""NumPy's indexing, `x[...]` (paddle.Tensor.__getitem__): first the slices, then the lookups.

Integers, slices and None slice x; lists, arrays and Variables of integers or bools look elements up
in the result of the slices. Bounds and integers may be Variables. In programs of paddle.fluid a
number may be a Variable [1], and a result without axes has the shape [1], as in 1.8.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphopt.frontend import arguments
from graphopt.frontend.layer_helper import emit, emit_as
from graphopt.frontend.sizes import check_integers, has_variable, sizes
from graphopt.frontend.sub_blocks import is_array
from graphopt.ir.program import Variable, unique_name
from graphopt.tensor.array import array_length, array_read, array_write
from graphopt.tensor.complexes import complex
from graphopt.tensor.creation import full, to_tensor
from graphopt.tensor.data_sized import nonzero
from graphopt.tensor.linalg import transpose
from graphopt.tensor.manipulation import cast, gather, reshape, squeeze, stack, unsqueeze
from graphopt.tensor.math import scale
from graphopt.tensor.rearrange import broadcast_tensors


def append(self: Variable, var: Variable) -> None:
    """Write a Variable after the last element of an array (paddle.Tensor.append).

    Raises TypeError if `self` is no array.
    """
    if not is_array(self):
        raise TypeError(f"append(): '{self.name}' is a tensor and no array; use paddle.concat")
    array_write(var, array_length(self), self)


def element(array: Variable, index: Any) -> Variable:
    """Read an array's element at a number, which may count from the end, or at a Variable."""
    if isinstance(index, Variable):
        at = reshape(cast(index, "int64"), [1])
    else:
        number = arguments.integer(index, "index", "the element of an array")
        from_end = number < 0
        at = scale(array_length(array), 1.0, number) if from_end else full([1], number, "int64")
    return array_read(array, at)


# The end of a slice without an end, past the end of any axis.
_END = 2**31 - 1


@dataclass
class Index:
    """An index, parsed into a slice, new axes and lookups.

    The slice takes `axes` from `starts` to `ends` by `steps`, and drops the axes `dropped`, where
    it takes one element. `new_axes` and `lookups` are positions in the result of the slice.
    """

    axes: list[int] = field(default_factory=list[int])
    starts: list[Any] = field(default_factory=list[Any])
    ends: list[Any] = field(default_factory=list[Any])
    steps: list[Any] = field(default_factory=list[Any])
    dropped: list[int] = field(default_factory=list[int])
    new_axes: list[int] = field(default_factory=list[int])
    lookups: dict[int, Variable | np.ndarray[Any, Any]] = field(
        default_factory=dict[int, "Variable | np.ndarray[Any, Any]"]
    )

    @property
    def strided(self) -> bool:
        """True when some step is not 1."""
        return any(isinstance(step, Variable) or step != 1 for step in self.steps)


def get_item(x: Variable, index: Any) -> Variable:
    """Index a tensor; integers drop their axis, None adds one.

    A bool mask selects as many elements as it has true ones (see `data_sized`). Raises IndexError
    for indices that do not fit x. Of an array, read the element at a number.
    """
    if is_array(x):
        return element(x, index)
    early = x.block.program.is_fluid
    parsed = parse_index(x, index, early=early)
    alone = early and not parsed.lookups and not parsed.new_axes
    if alone and parsed.dropped and len(parsed.dropped) == len(x.shape):
        return _cut_to_one(x, parsed)
    out = _cut(x, parsed) if parsed.axes else x
    if parsed.new_axes:
        out = unsqueeze(out, parsed.new_axes)
    return _look_up(out, parsed.lookups) if parsed.lookups else out


def parse_index(x: Variable, index: Any, *, early: bool = False) -> Index:
    """Parse an index and check it against the shape of x.

    As in Paddle, an integer always slices, even next to lists and arrays. With `early` a Variable
    [1] is an integer, too.
    """
    items = _full_index(index if isinstance(index, tuple) else (index,), x)
    parsed = Index()
    axis = kept = 0  # positions in x and in the sliced result
    for item in items:
        if item is None:
            parsed.new_axes.append(kept)
        elif isinstance(item, (bool, np.bool_)):
            parsed.new_axes.append(kept)
            parsed.lookups[kept] = np.array([bool(item)])
        elif _is_one(item, early=early):
            _add_integer(parsed, item, axis, x.shape[axis])
            axis += 1
            continue
        elif isinstance(item, slice):
            _add_slice(parsed, item, axis)
            axis += 1
        else:
            parsed.lookups[kept] = item
            axis += _rank(item) if _is_mask(item) else 1
        kept += 1
    return parsed


def _full_index(items: tuple[Any, ...], x: Variable) -> list[Any]:
    """Convert lists in an index to arrays, and pad it with whole axes at its Ellipsis or end."""
    items = tuple(_as_array(item) for item in items)
    rank = len(x.shape)
    used = sum(_axes_used(item) for item in items)
    if used > rank:
        raise IndexError(f"too many indices for '{x.name}' of rank {rank}: {used}")
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can only have a single Ellipsis")
    whole = [slice(None)] * (rank - used)
    spelled = [part for item in items for part in (whole if item is Ellipsis else [item])]
    return spelled if any(item is Ellipsis for item in items) else spelled + whole


def _as_array(item: Any) -> Any:
    if isinstance(item, range):
        item = list(item)
    if isinstance(item, (list, tuple)):
        if has_variable(item):
            return stack([i if isinstance(i, Variable) else to_tensor(i) for i in item])
        item = np.asarray(item, None if item else np.int64)
    if isinstance(item, np.ndarray):
        if item.dtype.kind not in "biu":
            raise IndexError(f"an index array must hold integers or bools, found {item.dtype}")
        return item[()] if item.ndim == 0 else item
    if item is None or item is Ellipsis or isinstance(item, (bool, np.bool_, slice, Variable)):
        return item
    if isinstance(item, numbers.Integral):
        return int(item)
    raise IndexError(
        "a tensor is indexed with ints, slices, None, Ellipsis, and lists, arrays or Variables of "
        f"integers or bools, found {type(item).__name__}"
    )


def _axes_used(item: Any) -> int:
    if item is None or item is Ellipsis or isinstance(item, (bool, np.bool_)):
        return 0
    return _rank(item) if _is_mask(item) else 1


def _rank(item: Any) -> int:
    return len(item.shape)


def _is_mask(item: Any) -> bool:
    return isinstance(item, (Variable, np.ndarray)) and item.dtype == "bool"


def _is_one(item: Any, *, early: bool) -> bool:
    """True for an integer or a Variable of no axes; with `early` also for one of shape [1]."""
    if isinstance(item, Variable):
        return item.shape in ([(), (1,)] if early else [()]) and item.dtype != "bool"
    return isinstance(item, numbers.Integral)


def _add_integer(parsed: Index, item: Any, axis: int, size: int) -> None:
    if isinstance(item, Variable):
        end: Any = emit("scale", {"X": check_integers(item, "index", "x[...]")}, {"bias": 1.0})
    else:
        item = int(item)
        if size >= 0 and not -size <= item < size:
            raise IndexError(f"index {item} is out of range for axis {axis} of size {size}")
        end = item + 1 if item != -1 else _END
    parsed.axes.append(axis)
    parsed.starts.append(item)
    parsed.ends.append(end)
    parsed.steps.append(1)
    parsed.dropped.append(axis)


def _add_slice(parsed: Index, item: slice, axis: int) -> None:
    if item.start is None and item.stop is None and item.step is None:
        return
    step = 1 if item.step is None else _as_bound(item.step)
    if not isinstance(step, Variable) and step == 0:
        raise ValueError("the step of a slice must not be 0")
    if isinstance(step, Variable) and (item.start is None or item.stop is None):
        raise TypeError("a slice whose step is a Variable needs a start and a stop")
    forward = isinstance(step, Variable) or step > 0
    parsed.axes.append(axis)
    parsed.starts.append((0 if forward else _END) if item.start is None else _as_bound(item.start))
    # negative bounds count from the end, and so does this one: it ends before the first element
    parsed.ends.append((_END if forward else -_END) if item.stop is None else _as_bound(item.stop))
    parsed.steps.append(step)


def _as_bound(value: Any) -> Any:
    if isinstance(value, Variable):
        return check_integers(value, "bound", "x[start:stop:step]")
    if not isinstance(value, numbers.Integral):
        raise TypeError(f"the bounds of a slice must be integers, found {type(value).__name__}")
    return int(value)


def _cut(x: Variable, parsed: Index) -> Variable:
    inputs: dict[str, Any] = {"Input": x}
    attrs: dict[str, Any] = {"axes": parsed.axes, "decrease_axis": parsed.dropped}
    bounds = {"starts": parsed.starts, "ends": parsed.ends}
    if parsed.strided:
        bounds["strides"] = parsed.steps
    for what, values in bounds.items():
        slot = f"{what.capitalize()}TensorList"
        slots = sizes(values, what, "x[...]", "", slot)
        attrs[what] = slots.value
        inputs |= slots.inputs
    type = "strided_slice" if parsed.strided else "slice"
    return emit_as(unique_name.generate(f"{x.name}_{type}"), type, inputs, attrs)


def _cut_to_one(x: Variable, parsed: Index) -> Variable:
    """Slice the element at one position of every axis, with the shape [1]."""
    if any(isinstance(start, Variable) for start in parsed.starts):
        return emit("reshape2", {"X": _cut(x, parsed)}, {"shape": [1]}, layer="reshape")
    parsed.dropped.pop()
    return _cut(x, parsed)


def _look_up(x: Variable, lookups: dict[int, Any]) -> Variable:
    """Gather the elements, or slices, of x at the indices of some of its axes."""
    axes, indices = _as_indices(x, lookups)
    if len(indices) == 1 and len(indices[0].shape) == 1:
        return gather(x, indices[0], axes[0])
    unknown = any(size < 0 for index in indices for size in index.shape)
    # the index vectors of a mask have equal lengths, which their shapes do not show
    table = stack(indices if unknown else broadcast_tensors(indices), -1)
    found = emit("gather_nd", {"X": _in_front(x, axes), "Index": table})
    order = _order(axes, len(table.shape) - 1, len(found.shape))
    return found if order == sorted(order) else transpose(found, order)


def _in_front(x: Variable, axes: list[int]) -> Variable:
    """Transpose x so that `axes` come first."""
    order = axes + [axis for axis in range(len(x.shape)) if axis not in axes]
    return x if order == sorted(order) else transpose(x, order)


def _order(axes: list[int], looked_up: int, rank: int) -> list[int]:
    """Compute the axis order of a lookup's result, whose first `looked_up` axes are new.

    As in NumPy, the new axes replace the indexed axes, or come first when these are not adjacent.
    """
    apart = axes != list(range(axes[0], axes[0] + len(axes)))
    before = 0 if apart else axes[0]
    new = range(looked_up)
    return [*range(looked_up, looked_up + before), *new, *range(looked_up + before, rank)]


def _as_indices(x: Variable, lookups: dict[int, Any]) -> tuple[list[int], list[Variable]]:
    """Collect the lookup axes, and an integer Variable for each; a mask covers several."""
    axes: list[int] = []
    indices: list[Variable] = []
    shift = 0  # a mask of rank r has one position and covers r axes
    for position, item in sorted(lookups.items()):
        parts = _positions(x, item, position + shift)
        axes += range(position + shift, position + shift + len(parts))
        indices += parts
        shift += len(parts) - 1
    return axes, indices


def _positions(x: Variable, item: Any, axis: int) -> list[Variable]:
    if not _is_mask(item):
        return [item if isinstance(item, Variable) else to_tensor(item.astype(np.int64))]
    for offset, size in enumerate(item.shape):
        have = x.shape[axis + offset]
        if size != have and size >= 0 and have >= 0:
            raise IndexError(
                f"the bool index has size {size} where axis {axis + offset} of the indexed tensor "
                f"has {have}"
            )
    if isinstance(item, np.ndarray):
        return [to_tensor(found.astype(np.int64)) for found in np.nonzero(item)]
    if not item.shape:
        item = unsqueeze(item, [0])
    return list(nonzero(item, as_tuple=True))


def iterate(x: Variable) -> Iterator[Variable]:
    """Iterate over the slices of the first axis; raise TypeError if its size is unknown."""
    if not x.shape or x.shape[0] < 0:
        raise TypeError(
            f"cannot iterate over '{x.name}' of shape {list(x.shape)}: the size of its first axis "
            "is not known before a run"
        )
    return (get_item(x, i) for i in range(x.shape[0]))


def set_item(x: Variable, index: Any, value: Any) -> Variable:
    """Copy x with `value`, broadcast, at an index (paddle.static.setitem).

    `value` is a number, an array or a Variable. x itself does not change.
    """
    from graphopt.tensor.search import where

    if _is_mask(index) and isinstance(index, Variable) and len(index.shape) <= len(x.shape):
        given, rank = _as_value(x, value), len(x.shape) - len(index.shape)
        if _is_the_same_for_all(given, rank):
            wide = unsqueeze(index, list(range(len(index.shape), len(x.shape))))
            return where(wide, given, x)
    parsed = parse_index(x, index)
    if parsed.lookups:
        return _put(x, parsed, value)
    attrs: dict[str, Any] = {"axes": parsed.axes, "decrease_axes": parsed.dropped}
    given = _without_new_axes(_as_value(x, value), parsed, len(x.shape))
    inputs: dict[str, Any] = {"Input": x, "ValueTensor": given}
    bounds = {"starts": parsed.starts, "ends": parsed.ends, "steps": parsed.steps}
    for what, values in bounds.items():
        slots = sizes(values, what, "setitem", "", f"{what.capitalize()}TensorList")
        attrs[what] = slots.value
        inputs |= slots.inputs
    return emit("set_value", inputs, attrs)


def _without_new_axes(value: Variable, parsed: Index, rank: int) -> Variable:
    """Squeeze from a value the axes that None adds in the index of a tensor of rank `rank`.

    Raises IndexError if such an axis is larger than 1.
    """
    whole = rank - len(parsed.dropped) + len(parsed.new_axes)
    axes = [axis - whole + len(value.shape) for axis in parsed.new_axes]
    extra = [axis for axis in axes if axis >= 0]
    if any(value.shape[axis] != 1 for axis in extra):
        raise IndexError(
            f"the value {list(value.shape)} should have 1 at the axes that None makes in the index"
        )
    return squeeze(value, extra) if extra else value


def _is_the_same_for_all(value: Variable, rank: int) -> bool:
    """True when a value is the same for all slices of rank `rank`."""
    return all(size == 1 for size in value.shape[: len(value.shape) - rank])


def _as_value(x: Variable, value: Any) -> Variable:
    if isinstance(value, Variable):
        return cast(value, x.dtype)
    if np.iscomplexobj(value) and x.dtype in ("complex64", "complex128"):
        real = "float32" if x.dtype == "complex64" else "float64"
        return complex(to_tensor(np.real(value), real), to_tensor(np.imag(value), real))
    return to_tensor(value, x.dtype)


def _put(x: Variable, parsed: Index, value: Any) -> Variable:
    """Copy x with a value at the lookup indices of the part of x that the slices take."""
    part = _cut(x, parsed) if parsed.axes else x
    if parsed.new_axes:
        part = unsqueeze(part, parsed.new_axes)
    axes, indices = _as_indices(part, parsed.lookups)
    looked_up = max(len(index.shape) for index in indices)
    rank = looked_up + len(part.shape) - len(axes)
    given = _as_value(x, value)
    order = _order(axes, looked_up, rank)
    if order != sorted(order):
        wide = unsqueeze(given, list(range(rank - len(given.shape))))
        given = transpose(wide, [order.index(axis) for axis in range(rank)])
    front = _in_front(part, axes)
    inputs = {"x": front, "indices": indices, "value": given}
    changed = emit("index_put", inputs, {"accumulate": False}, out="out")
    others = [axis for axis in range(len(part.shape)) if axis not in axes]
    back = [(axes + others).index(axis) for axis in range(len(part.shape))]
    result = changed if back == sorted(back) else transpose(changed, back)
    if parsed.new_axes:
        result = squeeze(result, parsed.new_axes)
    return set_item(x, _basic(parsed, len(x.shape)), result) if parsed.axes else result


def _basic(parsed: Index, rank: int) -> tuple[Any, ...]:
    """Rebuild the part of an index that only slices."""
    items: list[Any] = [slice(None)] * rank
    for axis, *bounds in zip(parsed.axes, parsed.starts, parsed.ends, parsed.steps, strict=True):
        items[axis] = bounds[0] if axis in parsed.dropped else slice(*bounds)
    return tuple(items)
