"""`x[...]`: ints, slices, None, Ellipsis, and one integer tensor (paddle.Tensor.__getitem__)."""

from __future__ import annotations

import numbers
from collections.abc import Iterator
from typing import Any

from graphopt.errors import UnsupportedError
from graphopt.ir.program import Variable
from graphopt.layer_helper import emit
from graphopt.tensor.manipulation import gather, unsqueeze

# A slice without an end stops here, which is beyond the end of any axis.
_END = 2**31 - 1


def get_item(x: Variable, index: Any) -> Variable:
    """The part of x that an index names; integers drop their axis, None makes a new one.

    Raises IndexError for too many indices, UnsupportedError for steps other than 1, masks and
    several index tensors.
    """
    if isinstance(index, Variable):
        return _by_tensor(x, index)
    items = _full_index(index if isinstance(index, tuple) else (index,), len(x.shape))
    attrs: dict[str, list[int]] = {"axes": [], "starts": [], "ends": [], "decrease_axis": []}
    new_axes: list[int] = []
    axis = kept = 0
    for item in items:
        if item is None:
            new_axes.append(kept)
            kept += 1
            continue
        kept += not isinstance(item, numbers.Integral)
        _add_bounds(attrs, item, axis, x.shape[axis])
        axis += 1
    out = emit("slice", {"Input": x}, attrs) if attrs["axes"] else x
    return unsqueeze(out, new_axes) if new_axes else out


def _by_tensor(x: Variable, index: Variable) -> Variable:
    if index.dtype == "bool":
        raise UnsupportedError(
            "x[mask] gives as many elements as the mask has true ones, which is not known before "
            "a run; use where(mask, x, 0.0)"
        )
    if len(index.shape) != 1:
        raise UnsupportedError("x[index] needs a 1-D index tensor; flatten it first")
    return gather(x, index)


def _full_index(items: tuple[Any, ...], rank: int) -> list[Any]:
    """The index with its Ellipsis spelled out as whole axes."""
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > rank:
        raise IndexError(f"too many indices for a tensor of rank {rank}: {used}")
    if sum(item is Ellipsis for item in items) > 1:
        raise IndexError("an index can only have a single Ellipsis")
    whole = [slice(None)] * (rank - used)
    return [part for item in items for part in (whole if item is Ellipsis else [item])]


def _add_bounds(attrs: dict[str, list[int]], item: Any, axis: int, size: int) -> None:
    if isinstance(item, numbers.Integral) and not isinstance(item, bool):
        start = int(item)
        if size >= 0 and not -size <= start < size:
            raise IndexError(f"index {start} is out of range for axis {axis} of size {size}")
        bounds = (start, start + 1 if start != -1 else _END)
        attrs["decrease_axis"].append(axis)
    elif isinstance(item, slice):
        if item.step not in (None, 1):
            raise UnsupportedError("x[start:stop:step] with a step other than 1 is not supported")
        if item.start is None and item.stop is None:
            return
        bounds = (_bound(item.start, 0), _bound(item.stop, _END))
    else:
        raise UnsupportedError(
            f"a tensor cannot be indexed with {type(item).__name__} here; use ints, slices, None, "
            "Ellipsis, or one 1-D integer Variable"
        )
    attrs["axes"].append(axis)
    attrs["starts"].append(bounds[0])
    attrs["ends"].append(bounds[1])


def _bound(value: Any, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, Variable):
        raise UnsupportedError(
            "slice bounds must be numbers, because shapes are fixed before a run"
        )
    return int(value)


def iterate(x: Variable) -> Iterator[Variable]:
    """The slices along the first axis; TypeError when their number is not known."""
    if not x.shape or x.shape[0] < 0:
        raise TypeError(
            f"cannot iterate over '{x.name}' of shape {list(x.shape)}: the size of its first axis "
            "is not known before a run"
        )
    return (get_item(x, i) for i in range(x.shape[0]))
