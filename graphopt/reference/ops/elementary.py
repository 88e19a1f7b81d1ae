"""Elementary functions of elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops import elementary as ops
from graphopt.ir.dtypes import DType
from graphopt.reference.derivatives import digamma, erfinv, i0e, i1e, lgamma
from graphopt.reference.ops.activation import between
from graphopt.reference.registry import Rule, rule, rule_each
from graphopt.reference.tape import Array


def half_away(x: Array) -> Array:
    """Round to the nearest integer, halves away from zero."""
    down = np.trunc(x)
    # -0 + 0 is 0, and -0 + -0 is -0
    return down + np.copysign(np.where(np.abs(x - down) >= 0.5, 1.0, 0.0), x)


def whole(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Wrap a rounding so that it returns integers unchanged."""
    return lambda x: function(x) if x.dtype.kind == "f" else x


def log2(x: Array) -> Array:
    """Compute the logarithm to base 2; a product flushes denormal numbers where they count as 0.

    There glibc, which NumPy calls without AVX-512, gives -150 for them.
    """
    return np.log2(x * 1)


FUNCTIONS: Mapping[type[PdOp], Callable[[Array], Array]] = {
    ops.Acos: np.arccos,
    ops.Acosh: np.arccosh,
    ops.Asin: np.arcsin,
    ops.Asinh: np.arcsinh,
    ops.Atan: np.arctan,
    ops.Atanh: np.arctanh,
    ops.Ceil: whole(np.ceil),
    ops.Cos: np.cos,
    ops.Cosh: np.cosh,
    ops.Digamma: digamma,
    ops.Erfinv: erfinv,
    ops.Expm1: np.expm1,
    ops.Floor: whole(np.floor),
    ops.I0: lambda x: i0e(x) * np.exp(np.abs(x)),
    ops.I0e: i0e,
    ops.I1: lambda x: i1e(x) * np.exp(np.abs(x)),
    ops.I1e: i1e,
    ops.Lgamma: lgamma,
    ops.Log1p: np.log1p,
    ops.Log2: log2,
    ops.Log10: np.log10,
    ops.Reciprocal: lambda x: 1.0 / x,
    ops.Round: whole(half_away),
    ops.Sign: np.sign,
    ops.Sin: np.sin,
    ops.Sinh: np.sinh,
    ops.Tan: np.tan,
    ops.Trunc: whole(np.trunc),
}


def _of_one(function: Callable[[Array], Array]) -> Rule:
    return lambda x: function(x)


rule_each({op_class: _of_one(function) for op_class, function in FUNCTIONS.items()})
rule_each(
    {
        ops.Stanh: lambda x, scale_a, scale_b: scale_b * np.tanh(scale_a * x),
        ops.Heaviside: lambda x, y: np.where(x == 0, y, (x > 0).astype(y.dtype)),
        ops.Gcd: lambda x, y: np.gcd(x, y),
        ops.BitwiseLeftShift: lambda x, y: np.left_shift(x, y),
        ops.Atan2: lambda x, y: np.arctan2(x, y),
        ops.Lerp: lambda x, y, weight: x + weight * (y - x),
    }
)


@rule(ops.Logit)
def logit(x: Array, eps: float) -> Array:
    kept = between(x, eps, 1.0 - eps) if eps else x
    return np.log(kept / (1.0 - kept))


@rule(ops.Copysign)
def copysign(x: Array, y: Array) -> Array:
    if x.dtype.kind == "f":
        return np.copysign(x, y)
    if x.dtype.kind == "b":
        return np.broadcast_to(x, np.broadcast_shapes(x.shape, y.shape))
    return np.where((x < 0) == (y < 0), x, -x)


@rule(ops.Nextafter)
def nextafter(x: Array, y: Array, dtypes: tuple[DType, ...]) -> Array:
    return np.nextafter(x.astype(dtypes[0].numpy), y.astype(dtypes[0].numpy))


@rule(ops.BitwiseRightShift)
def bitwise_right_shift(x: Array, y: Array, is_arithmetic: bool) -> Array:
    if is_arithmetic:
        return np.right_shift(x, y)
    bits = np.dtype(f"uint{8 * x.dtype.itemsize}")
    return np.right_shift(x.view(bits), y.view(bits)).view(x.dtype)
