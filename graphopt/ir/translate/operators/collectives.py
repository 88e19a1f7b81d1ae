"""Communication that programs request themselves: over all trainers, whatever the ring is."""

from __future__ import annotations

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.comm import REDUCTIONS, CAllGather, CAllReduce, CBroadcast
from graphopt.ir.dialect.ops.shape import StopGradient
from graphopt.ir.translate.operators.emitter import Emitter, Written
from graphopt.ir.translate.operators.registry import translates

# reductions, indexed by their numbers in Paddle 1.8
_BY_NUMBER = ("sum", "prod", "max", "min")


@translates(*(f"c_allreduce_{reduction}" for reduction in REDUCTIONS))
def c_allreduce(emit: Emitter) -> Written:
    """Translate an all-reduce; the type of the operator names the reduction."""
    emit.only("X")
    reduction = emit.op.type.rpartition("_")[2]
    return emit.results(Out=emit(CAllReduce, emit.input("X"), reduction=reduction))


@translates("allreduce")
def allreduce(emit: Emitter) -> Written:
    """Translate an all-reduce without a gradient; an attribute numbers the reduction."""
    emit.only("X")
    number = emit.attr("reduce_type")
    if number not in range(len(_BY_NUMBER)):
        raise ProgramError(f"reduce_type should be a number from 0 to 3, found {number}")
    found = emit(CAllReduce, emit.input("X"), reduction=_BY_NUMBER[number])
    return emit.results(Out=emit(StopGradient, found))


@translates("c_allgather")
def c_allgather(emit: Emitter) -> Written:
    """Gather the rows of `nranks` trainers."""
    emit.only("X")
    return emit.results(Out=emit(CAllGather, emit.input("X"), nranks=emit.attr("nranks")))


@translates("c_broadcast", "broadcast")
def broadcast(emit: Emitter) -> Written:
    """Broadcast the value of one trainer."""
    slots = ("X", "Out") if emit.op.input("X") else ("x", "out")
    found = emit(CBroadcast, emit.input(slots[0]), root=emit.attr("root"))
    return emit.results(**{slots[1]: found})
