"""Complex numbers as pairs of parts, and Fourier transforms by DFT (parts on the last axis)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from graphopt.ir.dialect.ops import complex as ops
from graphopt.ir.dialect.ops import math as arithmetic
from graphopt.ir.dialect.ops import rearrange, reduce, shape
from graphopt.ir.dialect.types import UNKNOWN, normalize_axis
from graphopt.models.export.onnx.nodes import Nodes, NotInOnnx, Parts, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.ops.elementary import atan2
from graphopt.models.export.onnx.registry import APART, exports

APART.update(
    (
        *(arithmetic.Add, arithmetic.Subtract, reduce.Mean, reduce.Sum),
        *(rearrange.Flip, rearrange.Roll, rearrange.Tile),
        *(shape.Assign, shape.Concat, shape.Expand, shape.Flatten, shape.Reshape),
        *(shape.Slice, shape.Split, shape.Squeeze, shape.Stack, shape.Transpose),
        shape.Unsqueeze,
    )
)


@exports(ops.AsComplex, complex=True, wide=True)
def apart(emit: Nodes, x: Value) -> Parts:
    """Split the last axis into the real and the imaginary part."""
    sizes = None if x.shape is None else ir.Shape(list(x.shape)[:-1])
    parts = [emit("Gather", x, emit.number(at, "int64"), axis=-1) for at in (0, 1)]
    for part in parts:
        part.shape = sizes
    return Parts(*parts)


@exports(ops.AsReal, complex=True)
def join_parts(emit: Nodes, x: Parts) -> Value:
    """Join both parts along a new last axis."""
    both = emit("Concat", emit.unsqueeze(x.real, -1), emit.unsqueeze(x.imag, -1), axis=-1)
    both.shape = None if x.real.shape is None else ir.Shape([*x.real.shape, 2])
    return both


@exports(ops.Real, ops.Conj)
def itself(emit: Nodes, x: Value) -> Value:
    """Return a real number as its own real part."""
    return x


@exports(ops.Imag)
def imag_of_real(emit: Nodes, x: Value) -> Value:
    return emit.zeros(emit.shape(x), x)


@exports(ops.Angle, wide=True)
def angle_of_real(emit: Nodes, x: Value) -> Value:
    zero = emit.number(0, x)
    turned = emit("Where", emit("Less", x, zero), emit.number(math.pi, x), zero)
    return emit("Where", emit("IsNaN", x), x, turned)


@exports(ops.Real, complex=True)
def real(x: Parts) -> Value:
    return x.real


@exports(ops.Imag, complex=True)
def imag(x: Parts) -> Value:
    return x.imag


@exports(ops.Conj, complex=True)
def conj(emit: Nodes, x: Parts) -> Parts:
    return Parts(x.real, emit("Neg", x.imag))


@exports(ops.Angle, complex=True)
def angle(emit: Nodes, x: Parts) -> Value:
    return atan2(emit, x.imag, x.real)


@exports(arithmetic.Abs, complex=True)
def size(emit: Nodes, x: Parts) -> Value:
    squares = (emit("Mul", part, part) for part in (x.real, x.imag))
    return emit("Sqrt", emit("Add", *squares))


@exports(arithmetic.Multiply, complex=True)
def multiply(emit: Nodes, x: Parts | Value, y: Parts | Value) -> Parts:
    if isinstance(x, Parts) and isinstance(y, Parts):
        real = emit("Sub", emit("Mul", x.real, y.real), emit("Mul", x.imag, y.imag))
        return Parts(real, emit("Add", emit("Mul", x.real, y.imag), emit("Mul", x.imag, y.real)))
    numbers, factor = (x, y) if isinstance(x, Parts) else (y, x)
    assert isinstance(numbers, Parts) and isinstance(factor, Value)
    return Parts(emit("Mul", numbers.real, factor), emit("Mul", numbers.imag, factor))


@exports(ops.Complex, complex=True, wide=True)
def complex_(emit: Nodes, real: Value, imag: Value) -> Parts:
    """Broadcast both parts to their common shape."""
    if sizes_of(real) == sizes_of(imag) and UNKNOWN not in sizes_of(real):
        return Parts(real, imag)
    both = emit("Shape", emit("Add", real, imag))
    return Parts(emit("Expand", real, both), emit("Expand", imag, both))


def _transform(emit: Nodes, x: Value, axes: Sequence[int], forward: bool) -> Value:
    """Transform along each axis; the inverse is divided by the number of points."""
    for axis in axes:
        x = emit("DFT", x, None, emit.number(axis, "int64"), inverse=int(not forward))
    return x


def _scale(emit: Nodes, x: Value, sizes: Value, forward: bool, wanted: str) -> Value:
    """Scale a transform of `sizes` points to the wanted normalization, if DFT uses another."""
    divides = {"backward": not forward, "forward": forward, "ortho": None}[wanted]
    if divides == (not forward):
        return x
    points = emit.cast(emit("ReduceProd", sizes, keepdims=0), dtype_of(x))
    points = emit("Sqrt", points) if divides is None else points
    return emit("Div" if forward else "Mul", x, points)


def _sizes(emit: Nodes, like: Value, axes: Sequence[int]) -> Value:
    return emit.join_sizes([emit.size(like, axis) for axis in axes])


def _axes(x: Parts | Value, axes: Sequence[int]) -> tuple[list[int], Value]:
    like = x.real if isinstance(x, Parts) else x
    return [normalize_axis(axis, len(sizes_of(like))) for axis in axes], like


@exports(ops.FftC2c, complex=True)
def fft_c2c(emit: Nodes, x: Parts, axes: Sequence[int], normalization: str, forward: bool) -> Parts:
    axes, like = _axes(x, axes)
    found = _transform(emit, join_parts(emit, x), axes, forward)
    return apart(emit, _scale(emit, found, _sizes(emit, like, axes), forward, normalization))


@exports(ops.FftR2c, complex=True, wide=True)
def fft_r2c(
    emit: Nodes,
    x: Value,
    axes: Sequence[int],
    normalization: str,
    forward: bool,
    onesided: bool,
) -> Parts:
    """Transform the last of the axes first; the inverse is the forward transform's conjugate."""
    axes, like = _axes(x, axes)
    last = emit.number(axes[-1], "int64")
    found = emit("DFT", emit.unsqueeze(x, -1), None, last, onesided=int(onesided))
    found = _transform(emit, found, axes[:-1], True)
    wanted = normalization if forward else OPPOSITE[normalization]
    parts = apart(emit, _scale(emit, found, _sizes(emit, like, axes), True, wanted))
    return parts if forward else conj(emit, parts)


OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
"""By normalization: the normalization of the opposite direction with the same divisor."""


@exports(ops.FftC2r, complex=True)
def fft_c2r(
    emit: Nodes,
    x: Parts,
    axes: Sequence[int],
    normalization: str,
    forward: bool,
    last_dim_size: int,
) -> Value:
    """Complete the omitted half of the spectrum with the conjugates of the other half."""
    axes, like = _axes(x, axes)
    *others, last = axes
    known = sizes_of(like)[last]
    if known == UNKNOWN:
        raise NotInOnnx("the number of frequencies is open")
    size = last_dim_size or 2 * (known - 1)
    if forward:
        x, normalization = conj(emit, x), OPPOSITE[normalization]
    if others:
        x = apart(emit, _transform(emit, join_parts(emit, x), others, False))
    own = np.arange(size)
    mirrored = own > size // 2
    source = np.where(mirrored, size - own, own)
    there = source < known
    shape = [-1 if at == last else 1 for at in range(len(sizes_of(like)))]

    def every(part: Value, sign: float) -> Value:
        factors = np.where(there, np.where(mirrored, sign, 1.0), 0.0).reshape(shape)
        full = emit("Gather", part, emit.constant(np.where(there, source, 0)), axis=last)
        return emit("Mul", full, emit.constant(factors.astype(dtype_of(part).numpy)))

    whole = join_parts(emit, Parts(every(x.real, 1.0), every(x.imag, -1.0)))
    sizes = emit.join_sizes([*(emit.size(like, axis) for axis in others), size])
    found = _scale(emit, _transform(emit, whole, [last], False), sizes, False, normalization)
    return emit("Gather", found, emit.number(0, "int64"), axis=-1)
