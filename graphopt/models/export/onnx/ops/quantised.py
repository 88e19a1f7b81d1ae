"""Quantized numbers: with 8 bits by the operator pair that runtimes map to integer kernels.

That pair rounds ties to even; Paddle rounds halves away from zero.
"""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import quantised as ops
from graphopt.ir.dialect.types import UNKNOWN
from graphopt.models.export.onnx.nodes import Array, Nodes, Value, dtype_of, sizes_of
from graphopt.models.export.onnx.ops.elementary import round_
from graphopt.models.export.onnx.registry import exports

BYTE = 127.0
"""The largest number of steps in 8 bits."""


def _safe_scale(emit: Nodes, scale: Value) -> Value:
    """Add 1e-6 to a scale of 0, so that zeros stay zeros."""
    known = _known_numbers(scale)
    if known is not None:
        return emit.constant(np.where(known <= 1e-30, known + np.float32(1e-6), known))
    least = emit("LessOrEqual", scale, emit.number(1e-30, scale))
    return emit("Where", least, emit("Add", scale, emit.number(1e-6, scale)), scale)


def _known_numbers(value: Value) -> Array | None:
    return None if value.const_value is None else value.const_value.numpy()


def _axis(x: Value, scale: Value) -> int | None:
    """Find the axis with one scale per index; None for a single scale, -1 for no such axis."""
    sizes = sizes_of(scale)
    wide = [at for at, size in enumerate(sizes) if size != 1]
    if not wide:
        return None
    return wide[0] + len(sizes_of(x)) - len(sizes) if len(wide) == 1 else -1


def _of_a_byte(
    emit: Nodes, x: Value, scale: Value, steps: float
) -> tuple[Value, int | None] | None:
    """Compute the step size as a number or a vector, and its axis; None unless it has 8 bits."""
    axis = _axis(x, scale)
    if steps != BYTE or axis == -1 or UNKNOWN in sizes_of(scale) or dtype_of(x) != "float32":
        return None
    known = _known_numbers(scale)
    if known is not None:
        step = emit.constant(known.reshape(-1 if axis is not None else ()) / np.float32(steps))
    else:
        flat = emit.reshape(scale, emit.ints([] if axis is None else [-1]))
        step = emit("Div", flat, emit.number(steps, scale))
    return step, axis


@exports(ops.QuantizeLinear)
def quantize_linear(emit: Nodes, x: Value, y: Value, steps: float, round_type: int) -> Value:
    used = _safe_scale(emit, y)
    used.shape = y.shape
    kept = x
    if round_type == ops.AWAY:
        kept = emit("Max", emit("Min", x, y), emit("Neg", y))
        kept.shape = x.shape
    found = _of_a_byte(emit, x, used, steps)
    if found is not None:
        step, axis = found
        count = [] if axis is None else [max(sizes_of(y))]
        zero = emit.constant(np.zeros(count, np.int8))
        whole = emit("QuantizeLinear", kept, step, zero, dtype="int8", axis=axis)
        return emit.cast(whole, dtype_of(x))
    scaled = emit("Mul", kept, emit("Div", emit.number(steps, y), used))
    if round_type == ops.AWAY:
        return round_(emit, scaled)
    low, high = emit.number(-steps - 1, x), emit.number(steps, x)
    return emit("Clip", emit("Round", scaled), low, high)


@exports(ops.DequantizeLinear)
def dequantize_linear(emit: Nodes, x: Value, y: Value, steps: float) -> Value:
    whole, found = _bytes_of(emit, x), _of_a_byte(emit, x, y, steps)
    if whole is None or found is None:
        return emit("Mul", x, emit("Div", y, emit.number(steps, y)))
    step, axis = found
    return emit("DequantizeLinear", whole, step, dtype=dtype_of(x), axis=axis)


def _bytes_of(emit: Nodes, x: Value) -> Value | None:
    """Return the int8 values that x was cast from, or its constants as int8; None if neither."""
    known, producer = _known_numbers(x), x.producer()
    if known is not None:
        same = known.astype(np.int8)
        return emit.constant(same) if np.array_equal(same, known) else None
    if producer is None or producer.op_type != "Cast":
        return None
    (source,) = producer.inputs
    return source if source is not None and dtype_of(source) == "int8" else None
