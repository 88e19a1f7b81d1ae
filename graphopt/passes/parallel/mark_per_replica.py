"""State that differs between replicas has a device axis; other state does not.

A value is uniform when it follows from uniform values: replicated state, constants, results of
collectives. Feeds and unseeded random numbers are not uniform. State that is written with a value
that is not uniform gets `pd.per_replica` (batch-norm statistics without sync_batch_norm, for
example).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.callback import PyFunc
from graphopt.ir.dialect.ops.comm import (
    AllGather,
    AllReduce,
    CAllGather,
    CAllReduce,
    CBroadcast,
    Collective,
    ModelCollective,
)
from graphopt.ir.dialect.ops.control import Fence
from graphopt.ir.dialect.ops.dynamic import draws
from graphopt.ir.dialect.ops.norm import BatchNormBase
from graphopt.ir.dialect.ops.update.basic import Update
from graphopt.ir.dialect.regions import inner_ops, values_read
from graphopt.ir.dialect.signature import PER_REPLICA, STATE, main_function, signature_of
from graphopt.ir.dialect.signature_edit import edit_signature
from graphopt.passes.engine.numerics import Numerics


@dataclass(frozen=True)
class MarkPerReplica(ModulePass):
    """Find and mark the state that has its own value on each replica."""

    name = "mark-per-replica"
    numerics = Numerics.BIT_EXACT

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        _, varying_state = uniform_values(op)
        if varying_state:
            with edit_signature(main_function(op)) as edit:
                edit.mark({name: {PER_REPLICA: UnitAttr()} for name in varying_state})


def uniform_values(module: ModuleOp) -> tuple[set[SSAValue], frozenset[str]]:
    """Find the values that are equal on all replicas, and the names of the state that differs."""
    varying_state: frozenset[str] = frozenset()
    while True:
        uniform, varying = _assuming(module, varying_state)
        if varying <= varying_state:
            return uniform, varying_state
        varying_state |= varying


def _assuming(
    module: ModuleOp, varying_state: frozenset[str]
) -> tuple[set[SSAValue], frozenset[str]]:
    """Find the uniform values, and the written state that varies if `varying_state` varies."""
    signature = signature_of(module)
    block = main_function(module).body.block
    uniform: set[SSAValue] = {
        argument
        for argument, port in zip(block.args, signature.arguments, strict=True)
        if port.kind == STATE
        and (port.shard_of is None or port.cut is not None)
        and port.name not in varying_state
    }
    for op in block.ops:
        if isinstance(op, ReturnOp):
            return uniform, frozenset(
                port.name
                for port, value in zip(signature.results, op.operands, strict=True)
                if port.kind == STATE and value not in uniform
            )
        uniform.update(_uniform_results(op, uniform))
    return uniform, frozenset()


def _uniform_results(op: Operation, uniform: set[SSAValue]) -> list[SSAValue]:
    assert isinstance(op, PdOp)
    if isinstance(op, (AllReduce, AllGather, CAllReduce, CAllGather, CBroadcast)):
        return list(op.results)
    if isinstance(op, Fence):
        # a fence passes each value through, whatever the other values are
        pairs = zip(op.values, op.results, strict=True)
        return [result for value, result in pairs if value in uniform]
    if isinstance(op, (Collective, PyFunc)) and not isinstance(op, ModelCollective):
        return []  # a shard, or a result of Python, which is called once per replica
    if isinstance(op, Update):
        return _uniform_updates(op, uniform)
    if isinstance(op, BatchNormBase) and op.attr("sync"):
        # every replica gets the statistics of all rows, whatever its own rows are
        replicated = all(value in uniform for value in op.operands[1:3])
        return list(op.results[1:]) if replicated else []
    if any(_draws_anew(o) for o in (op, *inner_ops(op))):
        return []
    return list(op.results) if all(value in uniform for value in values_read(op)) else []


def _uniform_updates(op: Update, uniform: set[SSAValue]) -> list[SSAValue]:
    """Return all results of an update of uniform values, else only its uniform step counters."""
    if all(value in uniform for value in op.operands):
        return list(op.results)
    return [new for old, new in op.counters() if old in uniform]


def _draws_anew(op: Operation) -> bool:
    """True for an op that draws other numbers on each replica."""
    return any(not seed for seed, _ in draws(op))
