"""Complex numbers, their parts, and Fourier transforms in JAX."""

from __future__ import annotations

from collections.abc import Sequence

from jax import lax
from jax import numpy as jnp

from graphopt.ir.dialect.ops import complex as ops
from graphopt.lowering.ops.base import Array, wide
from graphopt.lowering.registry import lower_each, lowers


@lowers(ops.Real)
def real(x: Array) -> Array:
    return lax.real(x) if jnp.iscomplexobj(x) else x


@lowers(ops.Imag)
def imag(x: Array) -> Array:
    return lax.imag(x) if jnp.iscomplexobj(x) else jnp.zeros_like(x)


def _turn(x: Array) -> Array:
    return lax.atan2(lax.imag(x), lax.real(x))


@lowers(ops.Angle)
def angle(x: Array) -> Array:
    if jnp.iscomplexobj(x):
        # there is no derivative at 0; Paddle's is 0
        zero, one = x == 0, jnp.ones((), x.dtype)
        fixed, moving = lax.stop_gradient(x), jnp.where(zero, one, x)
        return jnp.where(zero, _turn(fixed), _turn(moving))
    return jnp.where(x < 0, jnp.asarray(jnp.pi, x.dtype), x * 0)


lower_each(
    {
        ops.Conj: lambda x: lax.conj(x) if jnp.iscomplexobj(x) else x,
        ops.Complex: lambda real, imag: lax.complex(*jnp.broadcast_arrays(wide(real), wide(imag))),
        ops.AsReal: lambda x: jnp.stack([lax.real(x), lax.imag(x)], -1),
    }
)


@lowers(ops.AsComplex)
def as_complex(x: Array) -> Array:
    x = wide(x)
    return lax.complex(x[..., 0], x[..., 1])


# the normalization that has the same divisor in the other direction
_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


@lowers(ops.FftC2c)
def fft_c2c(x: Array, *, axes: Sequence[int], normalization: str, forward: bool) -> Array:
    transform = jnp.fft.fftn if forward else jnp.fft.ifftn
    return transform(x, axes=axes, norm=normalization)


@lowers(ops.FftR2c)
def fft_r2c(
    x: Array, *, axes: Sequence[int], normalization: str, forward: bool, onesided: bool
) -> Array:
    x = wide(x)
    # for real input, the inverse transform is the conjugate of the forward transform
    norm = normalization if forward else _OPPOSITE[normalization]
    transform = jnp.fft.rfftn if onesided else jnp.fft.fftn
    out = transform(x, axes=axes, norm=norm)
    return out if forward else jnp.conj(out)


@lowers(ops.FftC2r)
def fft_c2r(
    x: Array, *, axes: Sequence[int], normalization: str, forward: bool, last_dim_size: int
) -> Array:
    sizes = [x.shape[axis] for axis in axes]
    sizes[-1] = last_dim_size or 2 * (sizes[-1] - 1)
    if forward:
        x, normalization = jnp.conj(x), _OPPOSITE[normalization]
    return jnp.fft.irfftn(x, s=sizes, axes=axes, norm=normalization)
