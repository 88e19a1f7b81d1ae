"""Bitwise ops, and predicates on tensors."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import logic as ops
from graphopt.reference.registry import rule, rule_each
from graphopt.reference.tape import Array

rule_each(
    {
        ops.BitwiseAnd: lambda x, y: np.bitwise_and(x, y),
        ops.BitwiseOr: lambda x, y: np.bitwise_or(x, y),
        ops.BitwiseXor: lambda x, y: np.bitwise_xor(x, y),
        ops.BitwiseNot: lambda x: np.invert(x),
        ops.LogicalXor: lambda x, y: np.logical_xor(x, y),
        ops.Isnan: lambda x: np.isnan(x) if _floating(x) else np.zeros(x.shape, bool),
        ops.Isinf: lambda x: np.isinf(x) if _floating(x) else np.zeros(x.shape, bool),
        ops.Isfinite: lambda x: np.isfinite(x) if _floating(x) else np.ones(x.shape, bool),
        ops.EqualAll: lambda x, y: np.asarray(np.array_equal(x, y)),
    }
)


def _floating(x: Array) -> bool:
    return x.dtype.kind in "fc"


@rule(ops.Isclose)
def isclose(x: Array, y: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    x, y = x * 1.0, y * 1.0
    close = (np.abs(x - y) <= atol + rtol * np.abs(y)) | (x == y)
    return close | (np.isnan(x) & np.isnan(y)) if equal_nan else close


@rule(ops.Allclose)
def allclose(x: Array, y: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    return np.all(isclose(x, y, rtol, atol, equal_nan))
