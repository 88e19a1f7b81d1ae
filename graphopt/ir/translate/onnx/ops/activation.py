"""Activations."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from graphopt.ir.dialect.ops import activation as ops
from graphopt.ir.dialect.ops.index import OneHot
from graphopt.ir.dialect.ops.math import (
    Clip,
    Erf,
    GreaterEqual,
    GreaterThan,
    LessThan,
    Maximum,
    Minimum,
    Multiply,
    Subtract,
    Where,
)
from graphopt.ir.dialect.ops.reduce import Argmax, Logsumexp
from graphopt.ir.dialect.ops.shape import Flatten
from graphopt.ir.translate.onnx.emitter import OnnxEmitter, dtype, rank, shape
from graphopt.ir.translate.onnx.registry import reads, reads_as

reads_as(
    {
        "Erf": Erf,
        "HardSwish": ops.Hardswish,
        "Mish": ops.Mish,
        "Relu": ops.Relu,
        "Sigmoid": ops.Sigmoid,
        "Softsign": ops.Softsign,
        "Tanh": ops.Tanh,
    }
)
# from here on exp(x) + 1 rounds to exp(x), which is still within the range of the dtype
_SOFTPLUS_ENDS = {"float16": 10.0, "bfloat16": 20.0}


@reads("LeakyRelu")
def leaky_relu(emit: OnnxEmitter, x: SSAValue, *, alpha: float = 0.01) -> SSAValue:
    return emit(ops.LeakyRelu, x, negative_slope=alpha)


@reads("Elu")
def elu(emit: OnnxEmitter, x: SSAValue, *, alpha: float = 1.0) -> SSAValue:
    return emit(ops.Elu, x, alpha=alpha)


@reads("Celu")
def celu(emit: OnnxEmitter, x: SSAValue, *, alpha: float = 1.0) -> SSAValue:
    return emit(ops.Celu, x, alpha=alpha)


@reads("Selu")
def selu(
    emit: OnnxEmitter,
    x: SSAValue,
    *,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
) -> SSAValue:
    return emit(ops.Selu, x, scale=gamma, alpha=alpha)


@reads("PRelu")
def prelu(emit: OnnxEmitter, x: SSAValue, slope: SSAValue) -> SSAValue:
    """Emit `pd.prelu` for one slope or a slope per channel; broadcast any other slope."""
    if emit.opset < 7 and rank(slope) == 1 and rank(x) > 2:
        slope = emit.along(slope, rank(x) - 1, 0)
    sizes = shape(slope)
    if rank(x) > 2 and math.prod(sizes) == 1 and dtype(x).is_floating:
        return emit(ops.Prelu, x, emit.to_shape(slope, (1,)), mode="all")
    places = (1,) * (rank(x) - 1 - len(sizes)) + sizes
    is_channels = len(places) == rank(x) - 1 and all(size == 1 for size in places[1:])
    if rank(x) > 2 and is_channels and places[0] == shape(x)[1] and dtype(x).is_floating:
        return emit(ops.Prelu, x, emit.to_shape(slope, (places[0],)), mode="channel")
    is_positive = emit(GreaterEqual, x, emit.number(0, x))
    return emit(Where, is_positive, x, emit(Multiply, x, slope))


@reads("HardSigmoid")
def hard_sigmoid(
    emit: OnnxEmitter, x: SSAValue, *, alpha: float = 0.2, beta: float = 0.5
) -> SSAValue:
    return emit(ops.Hardsigmoid, x, slope=alpha, offset=beta)


@reads("ThresholdedRelu")
def thresholded_relu(emit: OnnxEmitter, x: SSAValue, *, alpha: float = 1.0) -> SSAValue:
    return emit(ops.ThresholdedRelu, x, threshold=alpha)


@reads("Shrink")
def shrink(emit: OnnxEmitter, x: SSAValue, *, lambd: float = 0.5, bias: float = 0.0) -> SSAValue:
    """Replace numbers within the threshold by 0, and move the others toward 0 by `bias`."""
    zero = emit.fill_like(x, 0)
    above = emit(Where, emit(GreaterThan, x, emit.number(lambd, x)), emit.plus(x, -bias), zero)
    return emit(Where, emit(LessThan, x, emit.number(-lambd, x)), emit.plus(x, bias), above)


@reads("Gelu")
def gelu(emit: OnnxEmitter, x: SSAValue, *, approximate: str = "none") -> SSAValue:
    return emit(ops.Gelu, x, approximate=emit.one_of(approximate, ("none", "tanh")) == "tanh")


@reads("Swish")
def swish(emit: OnnxEmitter, x: SSAValue, *, alpha: float = 1.0) -> SSAValue:
    return emit(ops.Silu, x) if alpha == 1 else emit(ops.Swish, x, beta=alpha)


@reads("Softplus")
def softplus(emit: OnnxEmitter, x: SSAValue) -> SSAValue:
    return emit(ops.Softplus, x, threshold=_SOFTPLUS_ENDS.get(dtype(x), 50.0))


def _along(emit: OnnxEmitter, x: SSAValue, axis: int | None) -> tuple[SSAValue, int]:
    """Prepare an operand to normalize along an axis; before opset 13, along all axes from it on."""
    if emit.opset >= 13 or (axis if axis is not None else 1) in (-1, rank(x) - 1):
        return x, emit.axis(-1 if axis is None else axis, rank(x))
    first = emit.axis(1 if axis is None else axis, rank(x))
    return emit(Flatten, x, start_axis=first), first


@reads("Softmax")
def softmax(emit: OnnxEmitter, x: SSAValue, *, axis: int | None = None) -> SSAValue:
    flat, at = _along(emit, x, axis)
    return emit.as_shaped(emit(ops.Softmax, flat, axis=at), x)


@reads("LogSoftmax")
def log_softmax(emit: OnnxEmitter, x: SSAValue, *, axis: int | None = None) -> SSAValue:
    """Compose log-softmax: Paddle's op of this name gives logarithms of at least -64."""
    flat, at = _along(emit, x, axis)
    return emit.as_shaped(log_of_softmax(emit, flat, at), x)


def log_of_softmax(emit: OnnxEmitter, x: SSAValue, axis: int) -> SSAValue:
    """Emit x - logsumexp(x) along an axis."""
    return emit(Subtract, x, emit(Logsumexp, x, axis=(axis,), keepdim=True))


@reads("Hardmax")
def hardmax(emit: OnnxEmitter, x: SSAValue, *, axis: int | None = None) -> SSAValue:
    flat, at = _along(emit, x, axis)
    count = rank(flat)
    last = [i for i in range(count) if i != at] + [at]
    moved = emit.transpose(flat, last)
    depth = emit.sizes(moved, along=(-1,))[-1]
    best = emit(Argmax, moved, axis=-1)
    ones = emit.cast(emit(OneHot, best, depth=depth), dtype(x))
    back = [last.index(i) for i in range(count)]
    return emit.as_shaped(emit.transpose(ones, back), x)


@reads("Clip")
def clip(
    emit: OnnxEmitter,
    x: SSAValue,
    low: SSAValue | None = None,
    high: SSAValue | None = None,
    *,
    min: float | None = None,
    max: float | None = None,
) -> SSAValue:
    """Emit a clip; its bounds are operands since opset 11, and were attributes before."""
    least, most = _known_bound(emit, low, min), _known_bound(emit, high, max)
    if least is not None and most is not None and least <= most:
        if (least, most) == (0, 6) and dtype(x).is_floating:
            return emit(ops.Relu6, x)
        return emit(Clip, x, min=least, max=most)
    for op_class, value, number in ((Maximum, low, least), (Minimum, high, most)):
        if value is None and number is not None:
            value = emit.number(number, x)
        if value is not None:
            x = emit(op_class, x, value)
    return x


def _known_bound(emit: OnnxEmitter, value: SSAValue | None, given: float | None) -> float | None:
    """Return a known bound; None if there is none or only the run knows it."""
    if value is None:
        return given
    numbers = emit.known_elements(value)
    return None if numbers is None else float(numbers[0])


@reads("SwiGLU")
def swiglu(emit: OnnxEmitter, x: SSAValue, gate: SSAValue, *, alpha: float = 1.0) -> SSAValue:
    return emit(Multiply, swish(emit, x, alpha=alpha), gate)
