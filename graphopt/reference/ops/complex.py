"""Complex numbers and their parts; without derivatives."""

from __future__ import annotations

import numpy as np

from graphopt.ir.dialect.ops import complex as ops
from graphopt.reference.registry import rule
from graphopt.reference.tape import Array


@rule(ops.Real)
def real(x: Array) -> Array:
    return np.real(x)


@rule(ops.Imag)
def imag(x: Array) -> Array:
    return np.imag(x)


@rule(ops.Angle)
def angle(x: Array) -> Array:
    if x.dtype.kind == "c":
        return np.angle(x)
    return np.where(x < 0, np.pi, x * 0.0)


@rule(ops.Conj)
def conj(x: Array) -> Array:
    return np.conj(x)


@rule(ops.Complex)
def complex_(real: Array, imag: Array) -> Array:
    real, imag = np.broadcast_arrays(real, imag)
    out = np.empty(real.shape, np.complex128)
    out.real, out.imag = real, imag
    return out


@rule(ops.AsComplex)
def as_complex(x: Array) -> Array:
    return complex_(x[..., 0], x[..., 1])


@rule(ops.AsReal)
def as_real(x: Array) -> Array:
    return np.stack([np.real(x), np.imag(x)], -1)
