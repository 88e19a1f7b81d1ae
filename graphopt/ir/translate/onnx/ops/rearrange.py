"""Padding, cropping, blocks of pixels, and dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.math import Multiply, NotEqual, Where
from graphopt.ir.dialect.ops.random import Dropout
from graphopt.ir.dialect.ops.rearrange import Pad
from graphopt.ir.dialect.ops.scatter import ScatterNdAdd
from graphopt.ir.dialect.ops.shape import Assign, Slice
from graphopt.ir.dialect.ops.vision import Fold, PixelShuffle
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.ir.translate.onnx.emitter import OnnxEmitter, dtype, rank, shape
from graphopt.ir.translate.onnx.registry import reads

_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}


@reads("Pad")
def pad(
    emit: OnnxEmitter,
    x: SSAValue,
    given: SSAValue | None = None,
    number: SSAValue | None = None,
    axes: SSAValue | None = None,
    *,
    mode: str = "constant",
    pads: Sequence[int] | None = None,
    value: float = 0.0,
) -> SSAValue:
    """Emit a pad; ONNX lists all starts, then all ends, as operands since opset 11."""
    kind = _MODES[emit.one_of(mode, tuple(_MODES))]
    kept, count = dtype(x), rank(x)
    found = pads if given is None else emit.known_elements(given)
    around: SSAValue | Sequence[int]
    if found is not None:
        around = _by_axis(emit, found, axes, count)
        if not any(around):
            return emit(Assign, x)
    else:
        assert given is not None
        if axes is not None and tuple(emit.numbers(axes, "axes")) != tuple(range(count)):
            raise emit.open("the padding must be known", given)
        pairs = emit.transpose(emit.to_shape(given, (2, count)), (1, 0))
        around = emit.to_shape(pairs, (2 * count,))
    filled = emit.cast(x, "uint8" if kept == "bool" else kept)
    number = number if kind == "constant" else None
    numbers = (value,) if number is None else emit.known_elements(number)
    if numbers is not None:
        return emit.cast(_pad(emit, filled, around, mode=kind, value=float(numbers[0])), kept)
    assert number is not None
    inside = _pad(emit, emit.fill_like(x, 1, "uint8"), around)
    out = emit(Where, emit.cast(inside, "bool"), _pad(emit, filled, around), number)
    return emit.cast(out, kept)


def _by_axis(
    emit: OnnxEmitter, numbers: Sequence[int], axes: SSAValue | None, count: int
) -> tuple[int, ...]:
    """Reorder the padding to the pair before and after each axis, one axis after another."""
    at = range(count)
    if axes is not None:
        at = [emit.axis(int(axis), count) for axis in emit.numbers(axes, "axes")]
    if len(numbers) != 2 * len(at):
        raise emit.refuse(f"{len(numbers)} numbers of padding for {len(at)} axes")
    around = [0] * (2 * count)
    for i, axis in enumerate(at):
        around[2 * axis : 2 * axis + 2] = int(numbers[i]), int(numbers[i + len(at)])
    return tuple(around)


def _pad(
    emit: OnnxEmitter, x: SSAValue, around: SSAValue | Sequence[int], **attrs: Any
) -> SSAValue:
    if isinstance(around, SSAValue):
        return emit.dynamic(Pad, [x], attrs, {"paddings": around})[0]
    return emit(Pad, x, paddings=tuple(around), **attrs)


@reads("DepthToSpace")
def depth_to_space(
    emit: OnnxEmitter, x: SSAValue, *, blocksize: int, mode: str = "DCR"
) -> SSAValue:
    """Move channels to pixels; the block is the outer part of the channels (DCR) or the inner."""
    if emit.one_of(mode, ("DCR", "CRD")) == "CRD":
        return emit(PixelShuffle, x, upscale_factor=blocksize)
    _, c, h, w = emit.sizes(x, along=(1, 2, 3))
    each = c // blocksize**2
    apart = emit.to_shape(x, (0, blocksize, blocksize, each, h, w))
    moved = emit.transpose(apart, (0, 3, 4, 1, 5, 2))
    return emit.to_shape(moved, (0, each, h * blocksize, w * blocksize))


@reads("SpaceToDepth")
def space_to_depth(
    emit: OnnxEmitter, x: SSAValue, *, blocksize: int, mode: str = "DCR"
) -> SSAValue:
    _, c, h, w = emit.sizes(x, along=(1, 2, 3))
    rows, columns = h // blocksize, w // blocksize
    apart = emit.to_shape(x, (0, c, rows, blocksize, columns, blocksize))
    order = (0, 3, 5, 1, 2, 4) if emit.one_of(mode, ("DCR", "CRD")) == "DCR" else (0, 1, 3, 5, 2, 4)
    return emit.to_shape(emit.transpose(apart, order), (0, c * blocksize**2, rows, columns))


@reads("Dropout")
def dropout(
    emit: OnnxEmitter,
    x: SSAValue,
    given: SSAValue | None = None,
    training: SSAValue | None = None,
    *,
    ratio: float = 0.5,
    seed: int | None = None,
    is_test: int | None = None,
) -> Sequence[SSAValue]:
    """Emit dropout if the node trains, with kept elements scaled by 1 / (1 - p); else copy `x`."""
    trains = training is not None and bool(emit.numbers(training, "training_mode")[0])
    rate = float(emit.numbers(given, "ratio")[0]) if given is not None else ratio
    mask = emit(FullLike, x, value=1.0, dtype="bool")
    if not trains or not rate:
        return [emit(Assign, x), mask]
    attrs = {"p": rate, "mode": "upscale_in_train", "seed": seed or 0}
    if len(emit.used) < 2 or not emit.used[1]:
        return [emit(Dropout, x, **attrs)]
    noise = emit(Dropout, emit.fill_like(x, 1), **attrs)
    return [emit(Multiply, x, noise), emit(NotEqual, noise, emit.number(0, x))]


@reads("CenterCropPad")
def center_crop_pad(
    emit: OnnxEmitter,
    x: SSAValue,
    target: SSAValue,
    *,
    axes: Sequence[int] | None = None,
) -> SSAValue:
    """Crop each axis to its center, or pad both its ends with zeros."""
    wanted = emit.numbers(target, "sizes")
    at = [emit.axis(axis, rank(x)) for axis in (axes if axes is not None else range(rank(x)))]
    sizes = emit.sizes(x, along=at)
    around = [0] * (2 * rank(x))
    for axis, size in zip(at, map(int, wanted), strict=True):
        less = size - sizes[axis]
        if less >= 0:
            around[2 * axis : 2 * axis + 2] = less // 2, less - less // 2
        else:
            start = (sizes[axis] - size) // 2
            cut = {"axes": (axis,), "starts": (start,), "ends": (start + size,)}
            x = emit(Slice, x, **cut)
    return emit(Pad, x, paddings=tuple(around)) if any(around) else x


@reads("Col2Im")
def col2im(
    emit: OnnxEmitter,
    x: SSAValue,
    image: SSAValue,
    block: SSAValue,
    *,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> SSAValue:
    sizes = tuple(map(int, emit.numbers(image, "sizes")))
    kernel = tuple(map(int, emit.numbers(block, "sizes of windows")))
    count = len(sizes)
    around = tuple(pads or (0,) * (2 * count))
    attrs = {
        "strides": tuple(strides or (1,) * count),
        "dilations": tuple(dilations or (1,) * count),
    }
    if count == 2:
        return emit(Fold, x, output_sizes=sizes, kernel_sizes=kernel, paddings=around, **attrs)
    pairs = tuple(zip(around[:count], around[count:], strict=True))
    return _add_up(emit, x, sizes, kernel, pairs, **attrs)


def _add_up(
    emit: OnnxEmitter,
    x: SSAValue,
    sizes: Sequence[int],
    kernel: Sequence[int],
    pads: Sequence[tuple[int, int]],
    strides: Sequence[int],
    dilations: Sequence[int],
) -> SSAValue:
    """Add up the windows of a volume: scatter by flat position in the padded volume."""
    whole = [size + sum(pair) for size, pair in zip(sizes, pads, strict=True)]
    emit.check_bound("elements of all windows", *whole, *kernel)
    within, first = np.zeros((), np.int64), np.zeros((), np.int64)
    for size, k, step, apart in zip(whole, kernel, strides, dilations, strict=True):
        starts = np.arange(0, size - apart * (k - 1), step)
        within = np.add.outer(within * size, np.arange(k) * apart)
        first = np.add.outer(first * size, starts)
    numbers = np.add.outer(within, first).reshape(-1, 1)
    channels, windows = shape(x)[1] // within.size, first.size
    values = emit.transpose(emit.reshape(x, 0, channels, within.size * windows), (2, 0, 1))
    zeros = emit.zeros((int(np.prod(whole)), UNKNOWN, channels), x, 0)
    total = emit(ScatterNdAdd, zeros, emit.constant(numbers, "int64"), values)
    out = emit.reshape(emit.transpose(total, (1, 2, 0)), 0, channels, *whole)
    cut = [(before, before + size) for (before, _), size in zip(pads, sizes, strict=True)]
    starts, ends = zip(*cut, strict=True)
    axes = tuple(range(2, 2 + len(sizes)))
    return emit(Slice, out, axes=axes, starts=starts, ends=ends)
