"""Discrete Fourier transforms in JAX."""

from __future__ import annotations

from collections.abc import Sequence

from jax import numpy as jnp

from graphopt.ir.dialect.ops.spectral import FftC2c, FftC2r, FftR2c
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lowers

# the other direction with the same division
_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


@lowers(FftC2c)
def fft_c2c(x: Array, *, axes: Sequence[int], normalization: str, forward: bool) -> Array:
    transform = jnp.fft.fftn if forward else jnp.fft.ifftn
    return transform(x, axes=axes, norm=normalization)


@lowers(FftR2c)
def fft_r2c(
    x: Array, *, axes: Sequence[int], normalization: str, forward: bool, onesided: bool
) -> Array:
    x = wide(x)
    # of real numbers, the inverse transform is the conjugate of the forward one
    norm = normalization if forward else _OPPOSITE[normalization]
    transform = jnp.fft.rfftn if onesided else jnp.fft.fftn
    out = transform(x, axes=axes, norm=norm)
    return out if forward else jnp.conj(out)


@lowers(FftC2r)
def fft_c2r(
    x: Array, *, axes: Sequence[int], normalization: str, forward: bool, last_dim_size: int
) -> Array:
    sizes = [x.shape[axis] for axis in axes]
    sizes[-1] = last_dim_size or 2 * (sizes[-1] - 1)
    if forward:
        x, normalization = jnp.conj(x), _OPPOSITE[normalization]
    return jnp.fft.irfftn(x, s=sizes, axes=axes, norm=normalization)
