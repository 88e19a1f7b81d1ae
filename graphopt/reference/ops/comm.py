"""Communication: an interpreter is the only replica."""

from __future__ import annotations

from graphopt.ir.dialect.ops.comm import AllReduce, CAllGather, CAllReduce, CBroadcast
from graphopt.reference.derivatives import hold
from graphopt.reference.registry import Unsupported, rule
from graphopt.reference.tape import Array


@rule(AllReduce)
def all_reduce(x: Array, rest: tuple[Array, ...]) -> tuple[Array, ...]:
    return (x, *rest)


@rule(CAllReduce)
def c_allreduce(x: Array, reduction: str) -> Array:
    return x if reduction == "sum" else hold(x)


@rule(CAllGather)
def c_allgather(x: Array, nranks: int) -> Array:
    if nranks != 1:
        raise Unsupported("pd.c_allgather", "the rows of other replicas")
    return x


@rule(CBroadcast)
def c_broadcast(x: Array, root: int) -> Array:
    if root:
        raise Unsupported("pd.c_broadcast", "the value of another replica")
    return hold(x)
