"""The ops that keep their pullbacks, and the derivatives that are needed of them.

The derivative of any other op recomputes the op, which XLA merges with the forward computation. XLA
merges no loops, and no calls of libraries: ops with regions, and ops that a library's kernel
computes, keep the pullback of their one computation.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block, Operation

from graphopt.ir.dialect.differentiated import active_values, ops_before, path_of
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.ops.transformer import FusedDotProductAttention
from graphopt.ir.dialect.regions import values_read


@dataclass(frozen=True)
class Wanted:
    """The derivatives needed of an op: indices of the values that it reads and of its results."""

    ins: tuple[int, ...]
    outs: tuple[int, ...]


def keeps_pullback(op: Operation) -> bool:
    """True for an op that its derivative must not recompute."""
    if isinstance(op, FusedDotProductAttention):
        return op.attr("algorithm") in _LIBRARIES
    return isinstance(op, RegionOp)


_LIBRARIES = ("cudnn", "cudnn-causal", "pallas")


def differentiated_regions(block: Block) -> dict[Operation, Wanted]:
    """Find the pullbacks that the `pd.grad` ops of a block need: op -> derivatives."""
    if not any(map(keeps_pullback, block.ops)):
        return {}
    ins: dict[Operation, set[int]] = {}
    outs: dict[Operation, set[int]] = {}
    for grad in block.ops:
        if isinstance(grad, Grad):
            for op, wanted in _regions_on_path(grad).items():
                ins.setdefault(op, set()).update(wanted.ins)
                outs.setdefault(op, set()).update(wanted.outs)
    return {op: Wanted(tuple(sorted(ins[op])), tuple(sorted(outs[op]))) for op in ins}


def _regions_on_path(op: Grad) -> dict[Operation, Wanted]:
    """Find the ops with pullbacks on the path of `op`, with the derivatives needed of them."""
    region = ops_before(op)
    active = active_values(op, region)
    return {
        inner: Wanted(
            tuple(i for i, value in enumerate(values_read(inner)) if value in active),
            tuple(i for i, result in enumerate(inner.results) if result in active),
        )
        for inner in path_of(op, region, active)
        if keeps_pullback(inner)
    }
