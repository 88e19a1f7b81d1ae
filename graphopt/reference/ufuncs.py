"""The derivatives of NumPy's ufuncs, and the functions whose derivative is zero.

At kinks the convention is Paddle's: of equal arguments of a maximum, the second gets the gradient.
"""

from __future__ import annotations

import math

import numpy as np

from graphopt.reference.tape import FLAT, UFUNCS, Array, value_of

UFUNCS.update(
    {
        np.add: (lambda g, o, x, y: g, lambda g, o, x, y: g),
        np.subtract: (lambda g, o, x, y: g, lambda g, o, x, y: -g),
        np.multiply: (lambda g, o, x, y: g * y, lambda g, o, x, y: g * x),
        np.divide: (lambda g, o, x, y: g / y, lambda g, o, x, y: -g * x / (y * y)),
        np.negative: (lambda g, o, x: -g,),
        np.positive: (lambda g, o, x: g,),
        np.absolute: (lambda g, o, x: g * np.sign(x),),
        np.square: (lambda g, o, x: g * 2.0 * x,),
        np.sqrt: (lambda g, o, x: g / (2.0 * o),),
        np.cbrt: (lambda g, o, x: g / (3.0 * o * o),),
        np.exp: (lambda g, o, x: g * o,),
        np.expm1: (lambda g, o, x: g * (o + 1.0),),
        np.exp2: (lambda g, o, x: g * o * math.log(2.0),),
        np.log: (lambda g, o, x: g / x,),
        np.log2: (lambda g, o, x: g / math.log(2.0) / x,),
        np.log10: (lambda g, o, x: g / math.log(10.0) / x,),
        np.log1p: (lambda g, o, x: g / (1.0 + x),),
        np.sin: (lambda g, o, x: g * np.cos(x),),
        np.cos: (lambda g, o, x: -g * np.sin(x),),
        np.tan: (lambda g, o, x: g * (1.0 + o * o),),
        np.arcsin: (lambda g, o, x: g / np.sqrt(1.0 - x * x),),
        np.arccos: (lambda g, o, x: -g / np.sqrt(1.0 - x * x),),
        np.arctan: (lambda g, o, x: g / (1.0 + x * x),),
        np.sinh: (lambda g, o, x: g * np.cosh(x),),
        np.cosh: (lambda g, o, x: g * np.sinh(x),),
        np.tanh: (lambda g, o, x: g * (1.0 - o * o),),
        np.arcsinh: (lambda g, o, x: g / np.sqrt(x * x + 1.0),),
        np.arccosh: (lambda g, o, x: g / np.sqrt(x * x - 1.0),),
        np.arctanh: (lambda g, o, x: g / (1.0 - x * x),),
        np.arctan2: (
            lambda g, o, x, y: g * y / (x * x + y * y),
            lambda g, o, x, y: -g * x / (x * x + y * y),
        ),
        np.power: (
            lambda g, o, x, y: g * y * np.power(x, y - 1.0),
            lambda g, o, x, y: g * o * np.log(x),
        ),
        np.maximum: (
            lambda g, o, x, y: np.where(_over(x, y), g, 0.0),
            lambda g, o, x, y: np.where(_not_over(x, y), g, 0.0),
        ),
        np.minimum: (
            lambda g, o, x, y: np.where(_over(y, x), g, 0.0),
            lambda g, o, x, y: np.where(_not_over(y, x), g, 0.0),
        ),
        np.matmul: (lambda g, o, x, y: _matmul_x(g, x, y), lambda g, o, x, y: _matmul_y(g, x, y)),
        np.logaddexp: (
            lambda g, o, x, y: g / (1.0 + np.exp(y - x)),
            lambda g, o, x, y: g / (1.0 + np.exp(x - y)),
        ),
        np.copysign: (lambda g, o, x, y: g * np.copysign(1.0, x) * np.copysign(1.0, y), None),
    }
)
FLAT.update(
    {
        np.greater,
        np.greater_equal,
        np.less,
        np.less_equal,
        np.equal,
        np.not_equal,
        np.logical_and,
        np.logical_or,
        np.logical_not,
        np.logical_xor,
        np.isnan,
        np.isinf,
        np.isfinite,
        np.isclose,
        np.sign,
        np.floor,
        np.ceil,
        np.trunc,
        np.rint,
        np.signbit,
        np.floor_divide,
        np.argmax,
        np.argmin,
        np.argsort,
        np.all,
        np.any,
        np.shape,
        np.ndim,
        np.zeros_like,
        np.ones_like,
        np.full_like,
        np.array_equal,
        np.searchsorted,
        np.count_nonzero,
    }
)


def _over(x: Array, y: Array) -> Array:
    return np.asarray(value_of(x) > value_of(y))


def _not_over(x: Array, y: Array) -> Array:
    """Return x <= y, not the negation of x > y: where one is nan, neither gets the gradient."""
    return np.asarray(value_of(x) <= value_of(y))


def _matmul_x(g: Array, x: Array, y: Array) -> Array:
    """Compute the first factor's cotangent; a vector counts as a matrix of one row or column."""
    if x.ndim == 1 and y.ndim == 1:
        return g * y
    if y.ndim == 1:
        return np.expand_dims(g, -1) * y
    if x.ndim == 1:
        return np.matmul(y, np.expand_dims(g, -1))[..., 0]
    return np.matmul(g, np.swapaxes(y, -1, -2))


def _matmul_y(g: Array, x: Array, y: Array) -> Array:
    if x.ndim == 1 and y.ndim == 1:
        return g * x
    if x.ndim == 1:
        return np.expand_dims(x, -1) * np.expand_dims(g, -2)
    if y.ndim == 1:
        return np.matmul(np.swapaxes(x, -1, -2), np.expand_dims(g, -1))[..., 0]
    return np.matmul(np.swapaxes(x, -1, -2), g)
