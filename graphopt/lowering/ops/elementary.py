"""Elementary functions of one tensor in JAX."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from jax import lax
from jax import numpy as jnp

from graphopt.ir.op import PdOp
from graphopt.ir.ops.elementary import (
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Ceil,
    Cos,
    Cosh,
    Digamma,
    Erfinv,
    Expm1,
    Floor,
    Lgamma,
    Log1p,
    Log2,
    Log10,
    Logit,
    Reciprocal,
    Round,
    Sign,
    Sin,
    Sinh,
    Stanh,
    Tan,
    Trunc,
)
from graphopt.lowering.ops.base import Array, is_floating, limit, widened
from graphopt.lowering.registry import lowers


def logarithm(base: float) -> Callable[[Array], Array]:
    """The logarithm to a base."""
    return lambda x: lax.log(x) / math.log(base)


def trunc(x: Array) -> Array:
    """Towards zero; integers as they are."""
    return jnp.where(x < 0, lax.ceil(x), lax.floor(x)) if is_floating(x) else x


FUNCTIONS: Mapping[type[PdOp], Callable[[Array], Array]] = {
    Acos: lax.acos,
    Acosh: lax.acosh,
    Asin: lax.asin,
    Asinh: lax.asinh,
    Atan: lax.atan,
    Atanh: lax.atanh,
    Ceil: lax.ceil,
    Cos: lax.cos,
    Cosh: lax.cosh,
    Digamma: lax.digamma,
    Erfinv: lax.erf_inv,
    Expm1: lax.expm1,
    Floor: lax.floor,
    Lgamma: lax.lgamma,
    Log1p: lax.log1p,
    Log2: logarithm(2),
    Log10: logarithm(10),
    Reciprocal: lambda x: 1 / x,
    Round: lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    Sign: lax.sign,
    Sin: lax.sin,
    Sinh: lax.sinh,
    Tan: lax.tan,
    Trunc: trunc,
}


def _lower(op_class: type[PdOp], function: Callable[[Array], Array]) -> None:
    @lowers(op_class)
    @widened
    def rule(x: Array) -> Array:
        return function(x)


for _op_class, _function in FUNCTIONS.items():
    _lower(_op_class, _function)


@lowers(Stanh)
@widened
def stanh(x: Array, scale_a: float, scale_b: float) -> Array:
    return scale_b * lax.tanh(scale_a * x)


@lowers(Logit)
@widened
def logit(x: Array, eps: float) -> Array:
    if eps:
        x = limit(x, eps, 1 - eps)
    return lax.log(x) - lax.log1p(-x)
