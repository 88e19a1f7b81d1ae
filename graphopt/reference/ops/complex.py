"""Complex numbers and their parts; without derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphopt.ir.dialect.ops import complex as ops
from graphopt.reference.registry import rule, rule_each
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


rule_each(
    {
        ops.Conj: lambda x: np.conj(x),
        ops.AsComplex: lambda x: complex_(x[..., 0], x[..., 1]),
        ops.AsReal: lambda x: np.stack([np.real(x), np.imag(x)], -1),
    }
)


@rule(ops.Complex)
def complex_(real: Array, imag: Array) -> Array:
    real, imag = np.broadcast_arrays(real, imag)
    out = np.empty(real.shape, np.complex128)
    out.real, out.imag = real, imag
    return out


# Fourier transforms -----------------------------------------------------------------------------

Axes = tuple[int, ...]
OTHER = {"backward": "forward", "forward": "backward", "ortho": "ortho"}
"""The normalization that has the same divisor in the opposite direction."""


@rule(ops.FftC2c)
def fft_c2c(x: Array, axes: Axes, normalization: Any, forward: bool) -> Array:
    function = np.fft.fftn if forward else np.fft.ifftn
    return function(x, axes=tuple(axes), norm=normalization)


@rule(ops.FftR2c)
def fft_r2c(x: Array, axes: Axes, normalization: Any, forward: bool, onesided: bool) -> Array:
    function: Any = np.fft.rfftn if onesided else np.fft.fftn
    if forward:
        return function(x, axes=tuple(axes), norm=normalization)
    # for real input, the inverse transform is the conjugate of the forward transform
    return np.conj(function(x, axes=tuple(axes), norm=OTHER[normalization]))


@rule(ops.FftC2r)
def fft_c2r(x: Array, axes: Axes, normalization: Any, forward: bool, last_dim_size: int) -> Array:
    sizes = [x.shape[axis] for axis in axes]
    sizes[-1] = last_dim_size or 2 * (sizes[-1] - 1)
    if forward:
        x, normalization = np.conj(x), OTHER[normalization]
    return np.fft.irfftn(x, sizes, axes=tuple(axes), norm=normalization)
