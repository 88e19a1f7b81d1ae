"""Quick NumPy rules of the ops that take most of the time of networks.

Every other op is computed by its reference rule. Rules have the same signature: operands by field
name and properties by name, floating-point operands in the declared dtype.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from graphopt.ir.dialect.op import PdOp, call_rule
from graphopt.ir.dialect.ops import activation, conv, pool
from graphopt.ir.dialect.ops import math as arithmetic
from graphopt.ir.dialect.ops.update.adaptive import Adagrad
from graphopt.ir.dialect.ops.update.basic import Adam, Adamw, Momentum, Sgd
from graphopt.reference.registry import RULES, Rule
from graphopt.runtime.host.convolution import conv2d, conv2d_transpose, depthwise_conv2d
from graphopt.runtime.host.pools import pool2d

NEAR = 0.9
# Abramowitz and Stegun, 7.1.5: the power series, for |x| < NEAR
SERIES = [2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(9)]
# 7.1.26, for larger numbers: 1 - (c1 t + ... + c5 t^5) exp(-x^2), where t = 1 / (1 + RATE x)
RATE = 0.3275911
FAR = [0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429]


def quick_erf(x: Array) -> Array:
    """Compute the error function elementwise in the dtype of `x`."""
    square, size = x * x, np.abs(x)
    near = x * _polynomial(SERIES, square)
    t = 1 / (1 + RATE * size)
    far = 1 - t * _polynomial(FAR, t) * np.exp(-square)
    return np.where(size < NEAR, near, np.copysign(far, x))


def _polynomial(coefficients: list[float], x: Array) -> Array:
    total = np.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total *= x
        total += coefficient
    return total


Array: TypeAlias = "np.ndarray[Any, Any]"


def relu(x: Array) -> Array:
    found = np.fmax(x, 0)  # 0 for NaN, as in Paddle
    found += np.zeros((), x.dtype)  # 0 for -0
    return found


def hardswish(x: Array) -> Array:
    gate = x + 3
    np.clip(gate, 0, 6, out=gate)
    gate *= x
    gate *= 1 / 6
    return gate


def where(condition: Array, x: Array, y: Array) -> Array:
    """Select from `x` and `y`; if a small condition is uniform, return a view of one of them.

    That is so for rows without padding, and for updates in a step whose gradients are all finite.
    """
    if condition.size < max(x.size, y.size):
        if condition.all():
            return np.broadcast_to(x, np.broadcast_shapes(condition.shape, x.shape, y.shape))
        if not condition.any():
            return np.broadcast_to(y, np.broadcast_shapes(condition.shape, x.shape, y.shape))
    return np.where(condition, x, y)


def erf(x: Array) -> Array:
    return quick_erf(x) if x.dtype == np.float32 else RULES[arithmetic.Erf](x=x)


def gelu(x: Array, approximate: bool) -> Array:
    if approximate:
        cubic = x * x * x
        cubic *= 0.044715
        cubic += x
        gate = np.tanh(cubic * math.sqrt(2 / math.pi))
    else:
        gate = erf(x * math.sqrt(0.5))
    gate += 1
    gate *= 0.5  # before the product with x: the double of x may overflow
    gate *= x
    return gate


STRIP = 1 << 15
"""The elements of an update computed at a time: intermediate values fit in a core's cache."""


def _in_strips(op_class: type[PdOp]) -> Rule:
    """Wrap the rule of an elementwise parameter update so that it runs strip by strip."""
    rule = RULES[op_class]

    def update(**given: Any) -> Any:
        param = given["param"]
        if param.size <= STRIP:
            return call_rule(rule, given)
        rows = {
            name: value.reshape(-1)
            for name, value in given.items()
            if isinstance(value, np.ndarray) and value.shape == param.shape
        }
        made = list[Any]()
        for first in range(0, param.size, STRIP):
            part = slice(first, first + STRIP)
            found = call_rule(rule, given | {name: row[part] for name, row in rows.items()})
            results = found if isinstance(found, tuple) else (found,)
            if not made:
                made = [
                    np.empty(param.shape, each.dtype) if each.size == STRIP else each
                    for each in results
                ]
            for whole, each in zip(made, results, strict=True):
                if whole.shape == param.shape:
                    whole.reshape(-1)[part] = each
        return tuple(made)

    return update


QUICK: Mapping[type[PdOp], Rule] = {
    activation.Gelu: gelu,
    activation.Hardswish: hardswish,
    activation.Relu: relu,
    arithmetic.Erf: erf,
    arithmetic.Where: where,
    conv.Conv2d: conv2d,
    conv.Conv2dTranspose: conv2d_transpose,
    conv.DepthwiseConv2d: depthwise_conv2d,
    pool.Pool2d: pool2d,
    **{each: _in_strips(each) for each in (Adagrad, Adam, Adamw, Momentum, Sgd)},
}
UFUNCS: Mapping[type[PdOp], np.ufunc] = {
    arithmetic.Add: np.add,
    arithmetic.Subtract: np.subtract,
    arithmetic.Multiply: np.multiply,
    arithmetic.Maximum: np.maximum,
    arithmetic.Minimum: np.minimum,
}
"""The NumPy functions that compute the whole rule of an op, in the order of its operands."""
