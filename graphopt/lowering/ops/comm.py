"""Communication between replicas in JAX."""

from __future__ import annotations

import math
from functools import partial

import jax
from jax import lax
from jax import numpy as jnp

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops import comm as ops
from graphopt.ir.dialect.ops.callback import split_shapes
from graphopt.lowering.collectives import Replicas
from graphopt.lowering.ops.base import Array
from graphopt.lowering.ops.index import lookup
from graphopt.lowering.registry import lowers


@lowers(ops.AllReduce)
def all_reduce(
    x: Array, rest: tuple[Array, ...], reduction: str, of_parts: bool, replicas: Replicas
) -> tuple[Array, ...]:
    total = replicas.sum_of_parts if of_parts else replicas.sum
    combine = total if reduction == "sum" else replicas.mean
    if not rest:
        return (combine(x).astype(x.dtype),)
    values = (x, *rest)
    joined = combine(jnp.concatenate([value.reshape(-1) for value in values])).astype(x.dtype)
    ends = [sum(value.size for value in values[: i + 1]) for i in range(len(values))]
    return tuple(
        lax.slice(joined, (end - value.size,), (end,)).reshape(value.shape)
        for value, end in zip(values, ends, strict=True)
    )


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _all_reduce(x: Array, reduction: str, replicas: Replicas) -> Array:
    if reduction == "prod":
        return jnp.prod(replicas.gather(x), 0).astype(x.dtype)
    return {"sum": replicas.sum, "max": replicas.max, "min": replicas.min}[reduction](x)


def _reduced_forward(x: Array, reduction: str, replicas: Replicas) -> tuple[Array, None]:
    return _all_reduce(x, reduction, replicas), None


def _reduced_backward(
    reduction: str, replicas: Replicas, saved: None, cotangent: Array
) -> tuple[Array]:
    return (replicas.sum(cotangent) if reduction == "sum" else jnp.zeros_like(cotangent),)


_all_reduce.defvjp(_reduced_forward, _reduced_backward)


@lowers(ops.CAllReduce)
def c_allreduce(x: Array, reduction: str, replicas: Replicas) -> Array:
    return _all_reduce(x, reduction, replicas)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _all_gather(x: Array, replicas: Replicas) -> Array:
    return replicas.gather(x).reshape(-1, *x.shape[1:])


def _gathered_forward(x: Array, replicas: Replicas) -> tuple[Array, None]:
    return _all_gather(x, replicas), None


def _gathered_backward(replicas: Replicas, saved: None, cotangent: Array) -> tuple[Array]:
    rows = cotangent.shape[0] // replicas.size
    total = replicas.sum(cotangent)
    return (lax.dynamic_slice_in_dim(total, replicas.index() * rows, rows),)


_all_gather.defvjp(_gathered_forward, _gathered_backward)


@lowers(ops.CAllGather)
def c_allgather(x: Array, nranks: int, replicas: Replicas) -> Array:
    replicas.check_count(nranks)
    return _all_gather(x, replicas)


@lowers(ops.CBroadcast)
def c_broadcast(x: Array, root: int, replicas: Replicas) -> Array:
    if root >= replicas.size:
        raise ProgramError(
            f"there is no replica {root}: the program runs on {replicas.size}; 'root' should be "
            "below the number of places, or of trainers, that run it"
        )
    return lax.stop_gradient(replicas.gather(x)[root])


def _flat(x: Array, parts: int) -> Array:
    """Flatten x and pad it with zeros to equal parts."""
    return jnp.pad(x.reshape(-1), (0, ops.part_length(x.shape, parts) * parts - x.size))


@lowers(ops.ReduceScatter)
def reduce_scatter(x: Array, parts: int, replicas: Replicas) -> Array:
    replicas.check_parts(parts)
    return replicas.sum_in_parts(_flat(x, parts))


@lowers(ops.Part)
def part(x: Array, parts: int, replicas: Replicas) -> Array:
    replicas.check_parts(parts)
    size = ops.part_length(x.shape, parts)
    return lax.dynamic_slice_in_dim(_flat(x, parts), replicas.part_index() * size, size)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _gather_group(part: Array, replicas: Replicas) -> Array:
    """Gather the parts of a group along a new first axis; the gradient sums over all groups."""
    return replicas.gather_parts(part)


def _joined_forward(part: Array, replicas: Replicas) -> tuple[Array, None]:
    return _gather_group(part, replicas), None


def _joined_backward(replicas: Replicas, saved: None, cotangent: Array) -> tuple[Array]:
    return (replicas.sum_in_parts(cotangent.reshape(-1)),)


_gather_group.defvjp(_joined_forward, _joined_backward)


@lowers(ops.AllGather)
def all_gather(
    x: Array,
    rest: tuple[Array, ...],
    parts: int,
    sizes: tuple[int, ...],
    ranks: tuple[int, ...],
    replicas: Replicas,
) -> tuple[Array, ...]:
    replicas.check_parts(parts)
    pieces = (x, *rest)
    part = jnp.concatenate(pieces) if rest else x
    joined: Array = (
        replicas.gather_parts(part) if replicas.groups == 1 else _gather_group(part, replicas)
    )
    results: list[Array] = []
    start = 0
    for piece, shape in zip(pieces, split_shapes(sizes, ranks), strict=True):
        whole = lax.slice_in_dim(joined, start, start + piece.size, axis=1).reshape(-1)
        results.append(lax.slice(whole, (0,), (math.prod(shape),)).reshape(shape))
        start += piece.size
    return tuple(results)


@lowers(ops.WithoutPadding)
def without_padding(x: Array, count: int, replicas: Replicas) -> Array:
    if x.size * replicas.parts == count:
        return x
    at = replicas.part_index() * x.size + lax.iota(jnp.int32, x.size)
    return jnp.where(at < count, x, jnp.zeros_like(x))


@lowers(ops.OnOwner)
def on_owner(x: Array, other: Array, owner: int, replicas: Replicas) -> Array:
    return jnp.where(replicas.part_index() == owner, x, other)


@lowers(ops.WeighByRows)
def weigh_by_rows(x: Array, rows: Array, replicas: Replicas) -> Array:
    # SPMD replicas have equal numbers of rows; call.py's `combine` handles unequal numbers
    return x / replicas.size


# These ops are each other's derivatives. A value shared by the devices of a replica gets the sum of
# their gradients, and each addend of a sum gets the sum's gradient. A concatenation's gradient is
# split, and vice versa.


@lowers(ops.CIdentity)
@partial(jax.custom_vjp, nondiff_argnums=(1,))
def c_identity(x: Array, replicas: Replicas) -> Array:
    return x


c_identity.defvjp(lambda x, replicas: (x, None), lambda replicas, _, g: (replicas.model_sum(g),))


@lowers(ops.MpAllReduceSum)
@partial(jax.custom_vjp, nondiff_argnums=(1,))
def mp_allreduce_sum(x: Array, replicas: Replicas) -> Array:
    return replicas.model_sum(x).astype(x.dtype)


mp_allreduce_sum.defvjp(
    lambda x, replicas: (mp_allreduce_sum(x, replicas), None), lambda replicas, _, g: (g,)
)


@lowers(ops.CConcat)
@partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def c_concat(x: Array, axis: int, degree: int, replicas: Replicas) -> Array:
    replicas.check_degree(degree)
    return replicas.model_gather(x, axis)


@lowers(ops.CSplit)
@partial(jax.custom_vjp, nondiff_argnums=(1, 2, 3))
def c_split(x: Array, axis: int, degree: int, replicas: Replicas) -> Array:
    replicas.check_degree(degree)
    return replicas.model_piece(x, axis)


c_concat.defvjp(
    lambda x, *given: (c_concat(x, *given), None),
    lambda axis, degree, replicas, _, g: (replicas.model_piece(g, axis),),
)
c_split.defvjp(
    lambda x, *given: (c_split(x, *given), None),
    lambda axis, degree, replicas, _, g: (replicas.model_gather(g, axis),),
)


@lowers(ops.CEmbedding)
def c_embedding(x: Array, weight: Array, padding_idx: int, replicas: Replicas) -> Array:
    count = weight.shape[0]
    numbers = lookup(x, count * replicas.model)
    rows = numbers - replicas.model_index() * count
    own = (rows >= 0) & (rows < count)
    if padding_idx != -1:
        own &= x != padding_idx
    # ids outside of the whole table read the same as in `pd.embedding`
    outside = numbers == count * replicas.model
    found = jnp.take(weight, jnp.where(own, rows, jnp.where(outside, count, 0)), 0, mode="fill")
    return jnp.where((own | outside)[..., None], found, jnp.zeros((), weight.dtype))
