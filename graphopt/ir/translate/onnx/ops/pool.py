"""Pooling, with the positions of maxima, and unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import reduce
from itertools import product as places
from math import prod
from typing import Any

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops import pool as ops
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.math import Abs, Add, Divide, GreaterEqual, Maximum, Pow, Where
from graphopt.ir.dialect.ops.rearrange import Pad, StridedSlice
from graphopt.ir.dialect.ops.reduce import Max, Mean, Sum
from graphopt.ir.dialect.ops.scatter import PutAlongAxis
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.ir.translate.onnx.emitter import OnnxEmitter, dtype, rank, shape
from graphopt.ir.translate.onnx.ops.conv import Pairs, as_images, flat, same_padded, window_pads
from graphopt.ir.translate.onnx.registry import reads


class _Windows:
    """The windows of a node: sizes, strides, dilations, and the padding around `x`."""

    def __init__(
        self,
        emit: OnnxEmitter,
        x: SSAValue,
        kernel: Sequence[int],
        auto_pad: str,
        pads: Sequence[int] | None,
        strides: Sequence[int] | None,
        dilations: Sequence[int] | None,
        ceil_mode: int,
    ) -> None:
        count = rank(x) - 2
        if len(kernel) != count or count not in (1, 2, 3):
            raise emit.refuse(f"expected a window of {count} dimensions, found {list(kernel)}")
        self.kernel = tuple(kernel)
        self.strides = tuple(strides or (1,) * count)
        self.dilations = tuple(dilations or (1,) * count)
        wide = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]
        self.pads = window_pads(emit, x, auto_pad, pads, wide, self.strides)
        self.open_ceil = bool(ceil_mode) and UNKNOWN in shape(x)[2:]
        self.over: tuple[int, ...] = (0,) * count
        """The number of elements by which the last windows exceed the padding."""
        if ceil_mode and not self.open_ceil:
            self.over = tuple(
                _over(size, window, stride, pair)
                for size, window, stride, pair in zip(
                    shape(x)[2:], wide, self.strides, self.pads, strict=True
                )
            )

    @property
    def whole(self) -> Pairs:
        """The padding, extended to the end of the last windows."""
        pairs = zip(self.pads, self.over, strict=True)
        return tuple((before, after + over) for (before, after), over in pairs)

    def along(self, axis: int) -> _Windows:
        """Restrict the windows to one axis; they have size 1 along the others."""
        found = copy(self)
        for name, neutral in (("kernel", 1), ("strides", 1), ("dilations", 1), ("over", 0)):
            own = [neutral] * len(self.kernel)
            own[axis] = getattr(self, name)[axis]
            setattr(found, name, tuple(own))
        found.pads = tuple(p if i == axis else (0, 0) for i, p in enumerate(self.pads))
        return found

    @property
    def is_dilated(self) -> bool:
        """True where a window leaves elements out."""
        return any(d != 1 for d in self.dilations)


def _over(size: int, window: int, stride: int, pads: tuple[int, int]) -> int:
    """Compute the reach of the last window beyond the padding; it begins before that padding."""
    room = size + sum(pads) - window
    count = -(-room // stride) + 1
    if (count - 1) * stride >= size + pads[0]:
        count -= 1
    return max((count - 1) * stride + window - size - sum(pads), 0)


def _pad(emit: OnnxEmitter, x: SSAValue, pads: Pairs, value: float) -> SSAValue:
    if not any(number for pair in pads for number in pair):
        return x
    around = (0, 0, 0, 0, *(number for pair in pads for number in pair))
    return emit(Pad, x, paddings=around, value=value)


def _parts(emit: OnnxEmitter, x: SSAValue, windows: _Windows, value: float) -> list[SSAValue]:
    """Slice the elements of all windows at one place, for each place in a window."""
    sizes = emit.sizes(x, along=range(2, rank(x)))[2:]
    emit.check_bound("elements in a window that leaves some out", *windows.kernel, most=1024)
    padded = _pad(emit, x, windows.whole, value)
    axes = tuple(range(2, rank(x)))
    counts = [
        (size + sum(pair) - d * (k - 1) - 1) // stride + 1
        for size, pair, d, k, stride in zip(
            *(sizes, windows.whole, windows.dilations, windows.kernel, windows.strides), strict=True
        )
    ]
    found: list[SSAValue] = []
    for place in places(*(range(k) for k in windows.kernel)):
        starts = [at * d for at, d in zip(place, windows.dilations, strict=True)]
        ends = [
            start + (count - 1) * stride + 1
            for start, count, stride in zip(starts, counts, windows.strides, strict=True)
        ]
        cut = {"starts": tuple(starts), "ends": tuple(ends), "strides": windows.strides}
        found.append(emit(StridedSlice, padded, axes=axes, **cut))
    return found


def _pool(emit: OnnxEmitter, x: SSAValue, windows: _Windows, pads: Pairs, **attrs: Any) -> SSAValue:
    """Emit a pooling op; signals are pooled as images of one row."""
    count = len(windows.kernel)
    kernel, strides = windows.kernel, windows.strides
    if count == 1:
        x, kernel, strides, pads = as_images(emit, x), (1, *kernel), (1, *strides), ((0, 0), *pads)
    op_class = ops.Pool3d if count == 3 else ops.Pool2d
    sizes = {"kernel_size": kernel, "strides": strides, "paddings": flat(pads)}
    out = emit(op_class, x, **sizes, ceil_mode=windows.open_ceil, **attrs)
    return emit.squeeze(out, 2) if count == 1 else out


@reads("MaxPool")
def max_pool(
    emit: OnnxEmitter,
    x: SSAValue,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    storage_order: int = 0,
    strides: Sequence[int] | None = None,
) -> Sequence[SSAValue]:
    if not any(emit.used[1:]):
        x, auto_pad = same_padded(
            emit, x, auto_pad, kernel_shape, strides, dilations, dtype(x).ends[0]
        )
    windows = _Windows(emit, x, kernel_shape, auto_pad, pads, strides, dilations, ceil_mode)
    if len(emit.used) > 1 and emit.used[1]:
        return _with_places(emit, x, windows, column_major=bool(storage_order))
    if windows.is_dilated:
        for axis in range(len(windows.kernel)):  # the maximum is separable, axis by axis
            parts = _parts(emit, x, windows.along(axis), dtype(x).ends[0])
            x = reduce(lambda a, b: emit(Maximum, a, b), parts)
        return [x]
    return [_pool(emit, x, windows, windows.whole, pooling_type="max")]


def _with_places(
    emit: OnnxEmitter, x: SSAValue, windows: _Windows, *, column_major: bool
) -> Sequence[SSAValue]:
    """Emit the maxima, and their flat positions in `x`."""
    sizes, parts = emit.sizes(x), _parts(emit, x, windows, dtype(x).ends[0])
    emit.check_bound("channels of all images", *sizes[:2])
    spatial = sizes[2:]
    strides = [prod(spatial[i + 1 :]) for i in range(len(spatial))]
    if column_major:
        strides = [prod(spatial[:i]) for i in range(len(spatial))]
    best, place = parts[0], None
    counts = emit.sizes(best)[2:]
    for part, at in zip(parts, places(*(range(k) for k in windows.kernel)), strict=True):
        numbers = _numbers_at(emit, windows, at, counts, strides)
        if place is None:
            place = numbers
            continue
        # of equal maxima, the first one stays
        stays = emit(GreaterEqual, best, part)
        best, place = emit(Maximum, best, part), emit(Where, stays, place, numbers)
    assert place is not None
    images, channels = sizes[:2]
    first = [[(n * channels + c) * prod(spatial) for c in range(channels)] for n in range(images)]
    each = emit.to_shape(emit.constant(first, "int64"), (images, channels, *(1,) * len(spatial)))
    return [best, emit(Add, each, place)]


def _numbers_at(
    emit: OnnxEmitter,
    windows: _Windows,
    at: Sequence[int],
    counts: Sequence[int],
    strides: Sequence[int],
) -> SSAValue:
    """Emit, for each window, the index within the channel of its element at one place."""
    total: SSAValue | None = None
    for axis, (place, count) in enumerate(zip(at, counts, strict=True)):
        first = place * windows.dilations[axis] - windows.pads[axis][0]
        step = windows.strides[axis]
        numbers = [(first + i * step) * strides[axis] for i in range(count)]
        dims = [1] * (2 + len(counts))
        dims[2 + axis] = count
        part = emit.to_shape(emit.constant(numbers, "int64"), tuple(dims))
        total = part if total is None else emit(Add, total, part)
    assert total is not None
    return total


@reads("AveragePool")
def average_pool(
    emit: OnnxEmitter,
    x: SSAValue,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> SSAValue:
    """Emit an average pool; `count_include_pad` counts the padding, but no elements beyond it."""
    windows = _Windows(emit, x, kernel_shape, auto_pad, pads, strides, dilations, ceil_mode)
    if not windows.is_dilated:
        whole = windows.whole
        if count_include_pad and any(number for pair in windows.pads for number in pair):
            x = _pad(emit, x, windows.pads, 0.0)
            whole = tuple((0, over) for over in windows.over)
        return _pool(emit, x, windows, whole, pooling_type="avg", exclusive=True)
    ones = emit.fill_like(x, 1)
    if count_include_pad:
        x, ones = (_pad(emit, value, windows.pads, fill) for value, fill in ((x, 0), (ones, 1)))
        windows.pads = tuple((0, 0) for _ in windows.pads)
    sums, counts = (
        reduce(lambda a, b: emit(Add, a, b), _parts(emit, value, windows, 0.0))
        for value in (x, ones)
    )
    return emit(Divide, sums, counts)


@reads("LpPool")
def lp_pool(
    emit: OnnxEmitter,
    x: SSAValue,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int],
    p: int = 2,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> SSAValue:
    windows = _Windows(emit, x, kernel_shape, auto_pad, pads, strides, dilations, ceil_mode)
    powers = emit(Pow, emit(Abs, x), factor=float(p))
    total = reduce(lambda a, b: emit(Add, a, b), _parts(emit, powers, windows, 0.0))
    return emit(Pow, total, factor=1.0 / p)


def _spatial(x: SSAValue) -> tuple[int, ...]:
    return tuple(range(2, rank(x)))


@reads("GlobalAveragePool")
def global_average_pool(emit: OnnxEmitter, x: SSAValue) -> SSAValue:
    if rank(x) == 4:
        kernel = {"kernel_size": (1, 1), "pooling_type": "avg", "global_pooling": True}
        return emit(ops.Pool2d, x, **kernel)
    return emit(Mean, x, axis=_spatial(x), keepdim=True)


@reads("GlobalMaxPool")
def global_max_pool(emit: OnnxEmitter, x: SSAValue) -> SSAValue:
    return emit(Max, x, axis=_spatial(x), keepdim=True)


@reads("GlobalLpPool")
def global_lp_pool(emit: OnnxEmitter, x: SSAValue, *, p: int = 2) -> SSAValue:
    powers = emit(Pow, emit(Abs, x), factor=float(p))
    total = emit(Sum, powers, axis=_spatial(x), keepdim=True, dtype=dtype(x))
    return emit(Pow, total, factor=1.0 / p)


@reads("MaxUnpool")
def max_unpool(
    emit: OnnxEmitter,
    x: SSAValue,
    indices: SSAValue,
    output_shape: SSAValue | None = None,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> SSAValue:
    """Scatter the maxima into zeros, at the positions that MaxPool gave."""
    count, sizes = rank(x) - 2, emit.sizes(x)
    steps, around = strides or (1,) * count, pads or (0,) * (2 * count)
    spatial = [
        (size - 1) * step + k - before - after
        for size, step, k, before, after in zip(
            sizes[2:], steps, kernel_shape, around[:count], around[count:], strict=True
        )
    ]
    inner = (*sizes[:2], *spatial)
    whole = inner
    if output_shape is not None:
        whole = tuple(map(int, emit.numbers(output_shape, "output sizes")))
    zeros = emit(Full, shape=(prod(inner),), value=0.0, dtype=dtype(x))
    rows = [emit.reshape(value, -1) for value in (indices, x)]
    out = emit.to_shape(emit(PutAlongAxis, zeros, *rows, axis=0), inner)
    if whole == inner:
        return out
    # the positions refer to the smaller images
    more = [(0, want - have) for want, have in zip(whole[2:], spatial, strict=True)]
    return _pad(emit, out, tuple(more), 0.0)
