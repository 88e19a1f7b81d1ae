"""Communication between replicas in JAX."""

from __future__ import annotations

from graphopt.ir.ops.comm import AllReduce
from graphopt.lowering.collectives import Replicas
from graphopt.lowering.ops.base import Array
from graphopt.lowering.registry import lowers


@lowers(AllReduce)
def all_reduce(x: Array, reduction: str, replicas: Replicas) -> Array:
    return replicas.sum(x) if reduction == "sum" else replicas.mean(x).astype(x.dtype)
