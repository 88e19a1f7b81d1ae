"""Fourier transforms, windows and filters of signals."""

from __future__ import annotations

from math import cos, floor, log10, pi

import numpy as np
from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.complex import AsComplex, AsReal, Complex, FftC2c, FftC2r
from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import Add, Multiply, Subtract
from graphopt.ir.dialect.ops.rearrange import Pad
from graphopt.ir.dialect.ops.shape import Slice, Stack
from graphopt.ir.translate.onnx.emitter import OnnxEmitter, dtype, rank, shape
from graphopt.ir.translate.onnx.registry import Rule, reads


@reads("DFT")
def dft(
    emit: OnnxEmitter,
    x: SSAValue,
    length: SSAValue | None = None,
    axis_given: SSAValue | None = None,
    *,
    axis: int | None = None,
    inverse: int = 0,
    onesided: int = 0,
) -> SSAValue:
    """Emit a DFT; the last axis has the real part, or the real and the imaginary part."""
    if axis_given is not None:
        axis = int(emit.numbers(axis_given, "axis")[0])
    default = 1 if emit.opset < 20 else -2
    at = emit.axis(default if axis is None else axis, rank(x))
    parts = shape(x)[-1]
    if inverse and onesided:
        return _back_to_real(emit, x, at, length)
    count = shape(x)[at] if length is None else int(emit.numbers(length, "length")[0])
    x = _fit_length(emit, x, at, count)
    if parts == 1:
        real = emit.squeeze(x, rank(x) - 1)
        number = emit(Complex, real, emit.fill_like(real, 0))
    else:
        number = emit(AsComplex, x)
    kind = {"axes": (at,), "forward": not inverse}
    out = emit(AsReal, emit(FftC2c, number, normalization="backward", **kind))
    if onesided:
        out = emit(Slice, out, axes=(at,), starts=(0,), ends=(count // 2 + 1,))
    return out


def _back_to_real(emit: OnnxEmitter, x: SSAValue, at: int, length: SSAValue | None) -> SSAValue:
    """Emit the inverse transform of a one-sided spectrum, with real results."""
    sides = emit.sizes(x, along=(at,))[at]
    count = 2 * (sides - 1) if length is None else int(emit.numbers(length, "length")[0])
    number = emit(AsComplex, _fit_length(emit, x, at, count // 2 + 1))
    out = emit(FftC2r, number, axes=(at,), last_dim_size=count, forward=False)
    return emit.unsqueeze(out, rank(x) - 1)


def _fit_length(emit: OnnxEmitter, x: SSAValue, at: int, count: int) -> SSAValue:
    """Crop or zero-pad the end of an axis of `x` to `count` elements."""
    size = emit.sizes(x, along=(at,))[at]
    if size > count:
        return emit(Slice, x, axes=(at,), starts=(0,), ends=(count,))
    if size == count:
        return x
    around = [0] * (2 * rank(x))
    around[2 * at + 1] = count - size
    return emit(Pad, x, paddings=tuple(around))


@reads("STFT")
def stft(
    emit: OnnxEmitter,
    x: SSAValue,
    step: SSAValue,
    window: SSAValue | None = None,
    length: SSAValue | None = None,
    *,
    onesided: int = 1,
) -> SSAValue:
    """Transform frames of a signal [batch, length, 1 or 2], as products with sines and cosines."""
    hop = int(emit.numbers(step, "step")[0])
    if length is not None:
        size = int(emit.numbers(length, "length of a frame")[0])
    else:
        assert window is not None
        size = emit.sizes(window, "the size of its window")[0]
    total = emit.sizes(x, along=(1,))[1]
    count = (total - size) // hop + 1
    sides = size // 2 + 1 if onesided else size
    emit.check_bound("numbers of waves", size, sides, most=1 << 22)
    emit.check_bound("frames", max(count, 1), most=1 << 14)
    frames = [
        emit(Slice, x, axes=(1,), starts=(i * hop,), ends=(i * hop + size,)) for i in range(count)
    ]
    whole = emit(Stack, frames, axis=1)
    kept = dtype(x)
    if window is not None:
        whole = emit(Multiply, whole, emit.to_shape(window, (1, 1, size, 1)))
    angles = -2 * pi * np.outer(np.arange(size), np.arange(sides)) / size
    waves = [emit.constant(curve(angles), kept) for curve in (np.cos, np.sin)]
    real = emit(Slice, whole, axes=(3,), starts=(0,), ends=(1,), decrease_axis=(3,))
    found = [emit(Matmul, real, wave) for wave in waves]
    if shape(x)[-1] == 2:
        imaginary = emit(Slice, whole, axes=(3,), starts=(1,), ends=(2,), decrease_axis=(3,))
        other = [emit(Matmul, imaginary, wave) for wave in waves]
        found = [emit(Subtract, found[0], other[1]), emit(Add, found[1], other[0])]
    return emit(Stack, found, axis=3)


def _window(*terms: float) -> Rule:
    """Build the rule of a cosine-sum window; `terms` weigh cosines of 0, 1, 2, ... periods."""

    def rule(
        emit: OnnxEmitter, size: SSAValue, *, output_datatype: int = 1, periodic: int = 1
    ) -> SSAValue:
        count = int(emit.numbers(size, "size")[0])
        emit.check_bound("numbers of a window", count)
        length = count if periodic else max(count - 1, 1)
        numbers = [
            sum(
                (-1) ** order * factor * cos(2 * pi * order * i / length)
                for order, factor in enumerate(terms)
            )
            for i in range(count)
        ]
        return emit.constant(numbers, emit.element_type(output_datatype), (count,))

    return rule


reads("HannWindow")(_window(0.5, 0.5))
reads("HammingWindow")(_window(25 / 46, 21 / 46))
reads("BlackmanWindow")(_window(0.42, 0.5, 0.08))


@reads("MelWeightMatrix")
def mel_weights(
    emit: OnnxEmitter,
    count: SSAValue,
    length: SSAValue,
    rate: SSAValue,
    lowest: SSAValue,
    highest: SSAValue,
    *,
    output_datatype: int = 1,
) -> SSAValue:
    """Emit triangular filters over the spectrum, with corners evenly spaced on the mel scale."""
    given = (count, length, rate, lowest, highest)
    bins, size, hertz, low, high = (emit.numbers(value, "numbers")[0] for value in given)
    emit.check_bound("weights", int(bins), int(size))
    low, high = (2595 * log10(1 + f / 700) for f in (low, high))
    step = (high - low) / (int(bins) + 2)
    points = [low + i * step for i in range(int(bins) + 2)]
    places = [floor((int(size) + 1) * 700 * (10 ** (mel / 2595) - 1) / hertz) for mel in points]
    weights = np.zeros((int(size) // 2 + 1, int(bins)))
    for i in range(int(bins)):
        start, middle, end = places[i : i + 3]
        if middle == start:
            weights[middle, i] = 1
        for j in range(start, middle + 1):
            weights[j, i] = (j - start) / (middle - start) if middle != start else 1
        for j in range(middle, end):
            weights[j, i] = (end - j) / (end - middle)
    return emit.constant(weights, emit.element_type(output_datatype))
