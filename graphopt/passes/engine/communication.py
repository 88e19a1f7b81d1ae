"""The collectives of a module: their number, and the bytes that a device sends for them.

Bytes are counted for ring algorithms, as in docs/explanation/communication.md, before XLA joins
collectives. An unknown size counts as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from graphopt.ir.dialect.differentiated import differentiated_ops
from graphopt.ir.dialect.ops.comm import (
    AllGather,
    AllReduce,
    CConcat,
    CIdentity,
    CSplit,
    ModelCollective,
    MpAllReduceSum,
    ReduceScatter,
)
from graphopt.ir.dialect.ops.control import Layers
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.norm import BatchNorm
from graphopt.ir.dialect.types import shape_of
from graphopt.passes.engine.costs import bytes_of

# a batch norm sums over the rows of all replicas twice: the values, and their squares
_SUMS_OF_NORM = 2


@dataclass(frozen=True)
class Communication:
    """The collectives of one kind of op in a step.

    `payload` is the bytes of their values, each counted once; `sent` is the bytes that a device
    sends.
    """

    op: str
    count: int
    payload: int
    sent: int


@dataclass(frozen=True)
class Ring:
    """Groups of replicas, one group for each process: a collective inside, and across.

    Each replica is `model` devices, which have collectives of their own.
    """

    replicas: int
    groups: int = 1
    model: int = 1

    def bytes_sent(self, op: Operation, payload: int) -> int:
        """Compute the bytes that a device sends for a collective op, or a batch norm's sum."""
        if isinstance(op, (CConcat, CSplit)):
            return payload * (self.model - 1) // self.model
        if isinstance(op, ModelCollective):
            return _around(payload, self.model)
        if isinstance(op, AllGather):
            return self._inside(payload)
        if isinstance(op, ReduceScatter):
            return self.bytes_scattered(payload)
        ranks = self.replicas
        if not (isinstance(op, AllReduce) and op.attr("of_parts")):
            ranks *= self.groups
        return _around(payload, ranks)

    def bytes_scattered(self, payload: int) -> int:
        """Compute the bytes that a device sends for a sum of which it gets one part."""
        return self._inside(payload) + _around(payload // self.replicas, self.groups)

    def _inside(self, payload: int) -> int:
        return payload * (self.replicas - 1) // self.replicas


def _around(payload: int, ranks: int) -> int:
    """Compute the bytes a rank sends in a ring all-reduce: reduce-scatter and all-gather."""
    return 2 * payload * (ranks - 1) // ranks


def communication(module: ModuleOp, ring: Ring) -> tuple[Communication, ...]:
    """Count the collectives of a module; each kind of op has one record."""
    trains = any(isinstance(op, Grad) for op in module.walk())
    through = differentiated_ops(module) if trains else set[Operation]()
    found: dict[str, Communication] = {}
    for op in module.walk():
        sent = [(op.name, each, ring.bytes_sent(op, each)) for each in _payloads(op, trains=trains)]
        if isinstance(op, (CIdentity, CSplit)):
            # they communicate only in the derivative
            payload = bytes_of(op.operands[0])
            sent += [(op.name, payload, ring.bytes_sent(op, payload))] if op in through else []
        if isinstance(op, AllGather) and op.attr("again"):
            sent += _again(op, through, ring)
        for name, payload, bytes_sent in sent:
            times = _times(op)
            old = found.get(name, Communication(name, 0, 0, 0))
            found[name] = Communication(
                name,
                old.count + times,
                old.payload + payload * times,
                old.sent + bytes_sent * times,
            )
    return tuple(found.values())


def _again(op: AllGather, through: set[Operation], ring: Ring) -> Iterator[tuple[str, int, int]]:
    """Yield the collectives of a derivative: a second gather and, in a loop, a reduce-scatter."""
    payload = sum(map(bytes_of, op.results))
    around = op.parent_op()
    if isinstance(around, Layers):
        if around in through:
            yield op.name, payload, ring.bytes_sent(op, payload)
            yield ReduceScatter.name, payload, ring.bytes_scattered(payload)
        return
    readers = {use.operation for use in op.results[0].uses}
    if any(reader in through and not reader.regions for reader in readers):
        yield op.name, payload, ring.bytes_sent(op, payload)


def _payloads(op: Operation, *, trains: bool) -> Iterator[int]:
    """Yield the bytes of each collective of an op."""
    if isinstance(op, AllReduce):
        yield sum(map(bytes_of, op.operands))
    elif isinstance(op, (MpAllReduceSum, CConcat)):
        yield bytes_of(op.results[0])
    elif isinstance(op, AllGather):
        yield sum(map(bytes_of, op.results))
    elif isinstance(op, ReduceScatter):
        yield bytes_of(op.operands[0])
    elif isinstance(op, BatchNorm) and op.attr("sync") and not op.keeps_statistics:
        sums = _SUMS_OF_NORM * (2 if trains else 1)
        yield from [bytes_of(op.operands[1])] * sums


def _times(op: Operation) -> int:
    """Count the runs of an op: the product of the layer counts of the loops around it."""
    count, parent = 1, op.parent_op()
    while parent is not None:
        if isinstance(parent, Layers):
            count *= max(shape_of(parent.stacks[0].type)[0], 1)
        parent = parent.parent_op()
    return count
