"""Decompositions of matrices and their uses, in JAX."""

from __future__ import annotations

from functools import partial

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp
from jax.scipy import linalg

from graphopt.ir.dialect.ops.linalg import decompositions as ops
from graphopt.lowering.ops.base import Array, compute_wide, wide
from graphopt.lowering.registry import lower_each, lowers

lower_each(
    {
        ops.Det: compute_wide(lambda x: jnp.linalg.det(x)),
        ops.Eigvalsh: lambda x, UPLO: eigh(x, UPLO)[0],
        ops.Eig: lambda x: _eig(wide(x)),
        ops.Eigvals: lambda x: _eig(wide(x))[0],
        ops.MatrixPower: compute_wide(lambda x, n: jnp.linalg.matrix_power(x, n)),
        ops.MatrixExp: compute_wide(lambda x: linalg.expm(x)),
        ops.MultiDot: lambda x: jnp.linalg.multi_dot(x),
    }
)


@lowers(ops.Slogdet)
@compute_wide
def slogdet(x: Array) -> Array:
    sign, size = jnp.linalg.slogdet(x)
    return jnp.stack([lax.stop_gradient(sign), size.astype(x.dtype)])


@lowers(ops.Qr)
def qr(x: Array, mode: str) -> tuple[Array, Array]:
    if mode == "r":
        r = jnp.linalg.qr(wide(x), mode="r")
        return jnp.zeros((0,), x.dtype), r.astype(x.dtype)
    q, r = jnp.linalg.qr(wide(x), mode=mode)
    return q.astype(x.dtype), r.astype(x.dtype)


@lowers(ops.Svd)
def svd(x: Array, full_matrices: bool) -> tuple[Array, Array, Array]:
    u, s, vh = jnp.linalg.svd(wide(x), full_matrices=full_matrices)
    real = jnp.finfo(x.dtype).dtype
    return u.astype(x.dtype), s.astype(real), vh.astype(x.dtype)


@lowers(ops.Eigh)
def eigh(x: Array, UPLO: str) -> tuple[Array, Array]:
    # split the gradient evenly between the two triangles
    matrices = wide(x)
    fixed = lax.stop_gradient(matrices)
    even = (matrices + jnp.conj(matrices).mT) / 2
    read = fixed + (even - lax.stop_gradient(even))
    values, vectors = jnp.linalg.eigh(read, UPLO=UPLO, symmetrize_input=False)
    return values.astype(jnp.finfo(x.dtype).dtype), vectors.astype(x.dtype)


@partial(jax.custom_jvp)
def _eig(x: Array) -> tuple[Array, Array]:
    values, vectors = jnp.linalg.eig(x)
    return values, vectors


@_eig.defjvp
def _eig_jvp(
    primals: tuple[Array], tangents: tuple[Array]
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    # the last term keeps the eigenvectors' length at 1
    values, vectors = _eig(primals[0])
    inner = jnp.linalg.solve(vectors, tangents[0].astype(vectors.dtype) @ vectors)
    own = jnp.eye(values.shape[-1], dtype=bool)
    gaps = values[..., None, :] - values[..., :, None]
    mixed = jnp.where(own, 0, inner / jnp.where(own, 1, gaps))
    moved = vectors @ mixed
    along = jnp.sum(jnp.conj(vectors) * moved, -2, keepdims=True).real
    change = moved - vectors * along
    return (values, vectors), (jnp.diagonal(inner, axis1=-2, axis2=-1), change)


@lowers(ops.Lu)
def lu(x: Array) -> tuple[Array, Array, Array]:
    both, pivots, _ = lax.linalg.lu(wide(x))
    return both.astype(x.dtype), pivots + 1, _singular(lax.stop_gradient(both))


def _singular(both: Array) -> Array:
    """Find the first pivot that is 0, counted from 1; 0 without one."""
    zero = jnp.diagonal(both, axis1=-2, axis2=-1) == 0
    if not zero.shape[-1]:
        return jnp.zeros(zero.shape[:-1], np.int32)
    first = lax.argmax(zero, zero.ndim - 1, np.int32)
    return jnp.where(zero.any(-1), first + 1, np.int32(0))


@lowers(ops.LuUnpack)
def lu_unpack(
    x: Array, y: Array, unpack_ludata: bool, unpack_pivots: bool
) -> tuple[Array, Array, Array]:
    rows, columns = x.shape[-2:]
    inner = min(rows, columns)
    nothing = jnp.zeros((0,), x.dtype)
    lower = upper = permutation = nothing
    if unpack_ludata:
        lower = jnp.tril(x[..., :inner], -1) + jnp.eye(rows, inner, dtype=x.dtype)
        upper = jnp.triu(x[..., :inner, :])
    if unpack_pivots:
        order = lax.linalg.lu_pivots_to_permutation(y - 1, rows)
        # row i of the product is row order[i] of x
        permutation = jax.nn.one_hot(order, rows, dtype=x.dtype).mT
    return permutation, lower, upper


@lowers(ops.Solve)
def solve(x: Array, y: Array) -> Array:
    vectors = ops.is_vector_side(x.shape, y.shape)
    right = y[..., None] if vectors else y
    batch = jnp.broadcast_shapes(x.shape[:-2], right.shape[:-2])
    a = jnp.broadcast_to(wide(x), (*batch, *x.shape[-2:]))
    b = jnp.broadcast_to(wide(right), (*batch, *right.shape[-2:]))
    found = jnp.linalg.solve(a, b).astype(y.dtype)
    return found[..., 0] if vectors else found


def _both(x: Array, y: Array) -> tuple[Array, Array]:
    batch = jnp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    first = jnp.broadcast_to(wide(x), (*batch, *x.shape[-2:]))
    return first, jnp.broadcast_to(wide(y), (*batch, *y.shape[-2:]))


@lowers(ops.TriangularSolve)
def triangular_solve(
    x: Array, y: Array, upper: bool, transpose: bool, unitriangular: bool
) -> Array:
    a, b = _both(x, y)
    found = lax.linalg.triangular_solve(
        a,
        b,
        left_side=True,
        lower=not upper,
        transpose_a=transpose,
        unit_diagonal=unitriangular,
    )
    return found.astype(y.dtype)


@lowers(ops.CholeskySolve)
def cholesky_solve(x: Array, y: Array, upper: bool) -> Array:
    factor, b = _both(y, x)
    return linalg.cho_solve((factor, not upper), b).astype(x.dtype)


@lowers(ops.MatrixRank)
def matrix_rank(
    x: Array, tol_tensor: Array | None, tol: float, hermitian: bool, use_default_tol: bool
) -> Array:
    matrices = wide(lax.stop_gradient(x))
    if hermitian:
        sizes = jnp.abs(jnp.linalg.eigvalsh(matrices, symmetrize_input=False))
    else:
        sizes = jnp.linalg.svd(matrices, compute_uv=False)
    if tol_tensor is not None:
        bound = tol_tensor.astype(sizes.dtype)
    elif use_default_tol:
        bound = jnp.finfo(x.dtype).eps * max(x.shape[-2:]) * jnp.max(sizes, -1, initial=0)
    else:
        bound = jnp.asarray(tol, sizes.dtype)
    return jnp.sum(sizes > bound[..., None], -1, dtype=np.int64)
