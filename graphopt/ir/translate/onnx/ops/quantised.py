"""Quantization: quantize, compute with quantized numbers, and dequantize.

Sums of products of 8-bit numbers are computed in int32, as ONNX specifies.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops.linear import Matmul
from graphopt.ir.dialect.ops.math import (
    Add,
    Clip,
    Divide,
    Equal,
    Maximum,
    Minimum,
    Multiply,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.rearrange import RepeatInterleave
from graphopt.ir.dialect.ops.reduce import Max, Min
from graphopt.ir.dialect.ops.shape import Slice
from graphopt.ir.dtypes import DType
from graphopt.ir.translate.onnx.emitter import OnnxEmitter, dtype, rank, shape
from graphopt.ir.translate.onnx.ops.conv import convolve
from graphopt.ir.translate.onnx.ops.creation import LARGEST, convert
from graphopt.ir.translate.onnx.ops.math import half_to_even
from graphopt.ir.translate.onnx.registry import reads

_WHOLE = ("uint8", "int8", "uint16", "int16", "uint4", "int4", "uint2", "int2")
_NARROW_FLOATS = ("float4_e2m1fn", *LARGEST)


def _spread(emit: OnnxEmitter, value: SSAValue, x: SSAValue, axis: int, block: int) -> SSAValue:
    """Broadcast a scale or zero point to `x`: one for all, one along an axis, or one per block."""
    if not rank(value):
        return value
    if rank(x) and rank(value) == 1 and rank(x) > 1:
        return emit.along(value, rank(x), emit.axis(axis, rank(x)))
    if not block or rank(value) != rank(x):
        return value
    at = emit.axis(axis, rank(x))
    wide = emit(RepeatInterleave, value, repeats=block, axis=at)
    size = shape(x)[at]
    if shape(wide)[at] == size:
        return wide
    return emit(Slice, wide, axes=(at,), starts=(0,), ends=(size,))


def quantise(
    emit: OnnxEmitter,
    x: SSAValue,
    scale: SSAValue,
    zero: SSAValue | None,
    kind: DType | str,
    saturate: int = 1,
) -> SSAValue:
    """Quantize `x`: divide by the scale, round, add the zero point, and clip to the type."""
    number = emit(Divide, x, scale)
    if kind in _WHOLE:
        number = half_to_even(emit, number)
    if zero is not None:
        number = emit(Add, number, emit.cast(zero, dtype(number)))
    if kind in _NARROW_FLOATS:
        return convert(emit, number, DType(kind), saturate)
    low, high = DType(kind).ends
    return emit.cast(emit(Clip, number, min=low, max=high), kind)


@reads("QuantizeLinear")
def quantize(
    emit: OnnxEmitter,
    x: SSAValue,
    scale: SSAValue,
    zero: SSAValue | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> SSAValue:
    kind = dtype(zero) if zero is not None else "uint8"
    if output_dtype:
        kind = emit.element_type(output_dtype)
    if kind not in _WHOLE and kind not in _NARROW_FLOATS:
        raise emit.refuse(f"quantized numbers of type {kind} are not supported")
    wide = "float32" if dtype(x) != "float64" else "float64"
    own = emit.cast(_spread(emit, scale, x, axis, block_size), wide)
    offset = zero and _spread(emit, zero, x, axis, block_size)
    return quantise(emit, emit.cast(x, wide), own, offset, kind, saturate)


@reads("DequantizeLinear")
def dequantize(
    emit: OnnxEmitter,
    x: SSAValue,
    scale: SSAValue,
    zero: SSAValue | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> SSAValue:
    kind = emit.element_type(output_dtype) if output_dtype else dtype(scale)
    own = emit.cast(_spread(emit, scale, x, axis, block_size), kind)
    whole = "float32" if dtype(x) in _NARROW_FLOATS else "int32"
    number = emit.cast(x, whole)
    if zero is not None:
        offset = emit.cast(_spread(emit, zero, x, axis, block_size), whole)
        number = emit(Subtract, number, offset)
    return emit(Multiply, emit.cast(number, kind), own)


@reads("DynamicQuantizeLinear")
def dynamic_quantize(emit: OnnxEmitter, x: SSAValue) -> Sequence[SSAValue]:
    """Quantize to uint8 over the range of the elements, extended to contain 0."""
    axes = tuple(range(rank(x)))
    zero = emit.number(0, x)
    low = emit(Minimum, emit(Min, x, axis=axes), zero)
    high = emit(Maximum, emit(Max, x, axis=axes), zero)
    scale = emit(Divide, emit(Subtract, high, low), emit.number(255, x))
    # a tensor of zeros has no range, and gets ONNX Runtime's scale for it
    scale = emit(Where, emit(Equal, scale, zero), emit.number(1, x), scale)
    start = half_to_even(emit, emit(Divide, emit(Subtract, zero, low), scale))
    point = emit.cast(emit(Clip, start, min=0.0, max=255.0), "uint8")
    return [quantise(emit, x, scale, point, "uint8"), scale, point]


def _subtract_zero(
    emit: OnnxEmitter, x: SSAValue, zero: SSAValue | None, axis: int | None = None
) -> SSAValue:
    """Subtract the zero point from 8-bit numbers, in int32."""
    wide = emit.cast(x, "int32")
    if zero is None:
        return wide
    offset = emit.cast(zero, "int32")
    if rank(zero) == 1 and axis is not None and rank(x) > 1:
        offset = emit.along(offset, rank(x), emit.axis(axis, rank(x)))
    return emit(Subtract, wide, offset)


@reads("MatMulInteger")
def matmul_integer(
    emit: OnnxEmitter,
    x: SSAValue,
    y: SSAValue,
    x_zero: SSAValue | None = None,
    y_zero: SSAValue | None = None,
) -> SSAValue:
    left = _subtract_zero(emit, x, x_zero, max(rank(x) - 2, 0))
    return emit(Matmul, left, _subtract_zero(emit, y, y_zero, rank(y) - 1))


def dynamic_product(
    emit: OnnxEmitter, x: SSAValue, y: SSAValue, scale: SSAValue, zero: SSAValue | None
) -> SSAValue:
    """Quantize `x` as a whole and multiply it by quantized weights; the result is a float.

    The weights have one scale and zero point for all, or one for each column.
    """
    bytes_, own, point = dynamic_quantize(emit, x)
    total = emit.cast(matmul_integer(emit, bytes_, y, point, zero), dtype(scale))
    return emit(Multiply, total, emit(Multiply, own, scale))


@reads("QLinearMatMul")
def qlinear_matmul(
    emit: OnnxEmitter,
    a: SSAValue,
    a_scale: SSAValue,
    a_zero: SSAValue,
    b: SSAValue,
    b_scale: SSAValue,
    b_zero: SSAValue,
    y_scale: SSAValue,
    y_zero: SSAValue,
) -> SSAValue:
    total = matmul_integer(emit, a, b, a_zero, b_zero)
    left, right = (emit.cast(value, "float32") for value in (a_scale, b_scale))
    if rank(left) == 1 and rank(total) > 1 and shape(left) != (1,):
        left = emit.along(left, rank(total), rank(total) - 2)
    factor = emit(Divide, emit(Multiply, left, right), emit.cast(y_scale, "float32"))
    one = emit.constant([1.0], "float32", ())
    product = emit(Multiply, emit.cast(total, "float32"), factor)
    return quantise(emit, product, one, y_zero, dtype(y_zero))


def _integer_conv(
    emit: OnnxEmitter,
    x: SSAValue,
    filter: SSAValue,
    x_zero: SSAValue | None,
    filter_zero: SSAValue | None,
    auto_pad: str,
    dilations: Sequence[int] | None,
    group: int,
    pads: Sequence[int] | None,
    strides: Sequence[int] | None,
) -> SSAValue:
    """Emit a convolution in float64, which is exact for sums of products of 8-bit numbers.

    The padding has the value of the zero point of `x`.
    """
    images = emit.cast(_subtract_zero(emit, x, x_zero), "float64")
    weights = emit.cast(_subtract_zero(emit, filter, filter_zero, 0), "float64")
    out = convolve(emit, images, weights, auto_pad, dilations, group, pads, strides)
    return emit.cast(out, "int32")


@reads("ConvInteger")
def conv_integer(
    emit: OnnxEmitter,
    x: SSAValue,
    filter: SSAValue,
    x_zero: SSAValue | None = None,
    filter_zero: SSAValue | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> SSAValue:
    geometry = auto_pad, dilations, group, pads, strides
    return _integer_conv(emit, x, filter, x_zero, filter_zero, *geometry)


@reads("QLinearConv")
def qlinear_conv(
    emit: OnnxEmitter,
    x: SSAValue,
    x_scale: SSAValue,
    x_zero: SSAValue,
    filter: SSAValue,
    filter_scale: SSAValue,
    filter_zero: SSAValue,
    y_scale: SSAValue,
    y_zero: SSAValue,
    bias: SSAValue | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> SSAValue:
    geometry = auto_pad, dilations, group, pads, strides
    total = _integer_conv(emit, x, filter, x_zero, filter_zero, *geometry)
    if bias is not None:
        total = emit(Add, total, emit.along(bias, rank(total), 1))
    weights = filter_scale
    if rank(weights) == 1:
        weights = emit.along(weights, rank(total), 1)
    factor = emit(Divide, emit(Multiply, x_scale, weights), y_scale)
    one = emit.constant([1.0], "float32", ())
    product = emit(Multiply, emit.cast(total, "float32"), factor)
    return quantise(emit, product, one, y_zero, dtype(y_zero))
