"""Bits, and questions about the elements of tensors."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import logic as ops
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


@rule(ops.BitwiseAnd)
def bitwise_and(x: Array, y: Array) -> Array:
    return np.bitwise_and(x, y)


@rule(ops.BitwiseOr)
def bitwise_or(x: Array, y: Array) -> Array:
    return np.bitwise_or(x, y)


@rule(ops.BitwiseXor)
def bitwise_xor(x: Array, y: Array) -> Array:
    return np.bitwise_xor(x, y)


@rule(ops.BitwiseNot)
def bitwise_not(x: Array) -> Array:
    return np.invert(x)


@rule(ops.LogicalXor)
def logical_xor(x: Array, y: Array) -> Array:
    return np.logical_xor(x, y)


def _floating(x: Array) -> bool:
    return x.dtype.kind in "fc"


@rule(ops.Isnan)
def isnan(x: Array) -> Array:
    return np.isnan(x) if _floating(x) else np.zeros(x.shape, bool)


@rule(ops.Isinf)
def isinf(x: Array) -> Array:
    return np.isinf(x) if _floating(x) else np.zeros(x.shape, bool)


@rule(ops.Isfinite)
def isfinite(x: Array) -> Array:
    return np.isfinite(x) if _floating(x) else np.ones(x.shape, bool)


@rule(ops.EqualAll)
def equal_all(x: Array, y: Array) -> Array:
    return np.asarray(np.array_equal(x, y))


@rule(ops.Isclose)
def isclose(x: Array, y: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    x, y = x * 1.0, y * 1.0
    close = (np.abs(x - y) <= atol + rtol * np.abs(y)) | (x == y)
    return close | (np.isnan(x) & np.isnan(y)) if equal_nan else close


@rule(ops.Allclose)
def allclose(x: Array, y: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    return np.all(isclose(x, y, rtol, atol, equal_nan))
