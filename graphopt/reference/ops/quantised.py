"""Quantization to whole steps of a scale, and back."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import quantised as ops
from graphopt.reference.ops.elementary import half_away
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


@rule(ops.QuantizeLinear)
def quantize_linear(x: Array, y: Array, steps: float, round_type: int) -> Array:
    factor = steps * (1.0 / np.where(y <= 1e-30, y + 1e-6, y))
    if round_type == ops.EVEN:
        return np.minimum(np.maximum(np.rint(factor * x), -steps - 1.0), steps)
    return half_away(factor * np.maximum(np.minimum(x, y), -y))


@rule(ops.DequantizeLinear)
def dequantize_linear(x: Array, y: Array, steps: float) -> Array:
    return (x * y) * (1.0 / steps)
