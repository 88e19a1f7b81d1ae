"""Elementary functions of one tensor in JAX."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import elementary as ops
from graphopt.lowering.ops.base import Array, is_floating, limit, widened
from graphopt.lowering.registry import lowers


def logarithm(base: float) -> Callable[[Array], Array]:
    """The logarithm to a base."""
    return lambda x: lax.log(x) / math.log(base)


def trunc(x: Array) -> Array:
    """Towards zero; integers unchanged."""
    return jnp.where(x < 0, lax.ceil(x), lax.floor(x)) if is_floating(x) else x


FUNCTIONS: Mapping[type[PdOp], Callable[[Array], Array]] = {
    ops.Acos: lax.acos,
    ops.Acosh: lax.acosh,
    ops.Asin: lax.asin,
    ops.Asinh: lax.asinh,
    ops.Atan: lax.atan,
    ops.Atanh: lax.atanh,
    ops.Ceil: lax.ceil,
    ops.Cos: lax.cos,
    ops.Cosh: lax.cosh,
    ops.Digamma: lax.digamma,
    ops.Erfinv: lax.erf_inv,
    ops.Expm1: lax.expm1,
    ops.Floor: lax.floor,
    ops.Lgamma: lax.lgamma,
    ops.Log1p: lax.log1p,
    ops.Log2: logarithm(2),
    ops.Log10: logarithm(10),
    ops.Reciprocal: lambda x: 1 / x,
    ops.Round: lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    ops.Sign: lax.sign,
    ops.Sin: lax.sin,
    ops.Sinh: lax.sinh,
    ops.Tan: lax.tan,
    ops.Trunc: trunc,
}


def _lower(op_class: type[PdOp], function: Callable[[Array], Array]) -> None:
    def rule(x: Array) -> Array:
        return function(x)

    rule.__name__ = op_class.name.removeprefix("pd.")
    lowers(op_class)(widened(rule))


for _op_class, _function in FUNCTIONS.items():
    _lower(_op_class, _function)


@lowers(ops.Stanh)
@widened
def stanh(x: Array, scale_a: float, scale_b: float) -> Array:
    return scale_b * lax.tanh(scale_a * x)


@lowers(ops.Logit)
@widened
def logit(x: Array, eps: float) -> Array:
    if eps:
        x = limit(x, eps, 1 - eps)
    return lax.log(x) - lax.log1p(-x)
