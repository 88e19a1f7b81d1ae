"""The ops with regions that derivatives go through, and the needs of the derivatives."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Block, Operation

from graphopt.ir.dialect.differentiated import active_values, ops_before, path_of
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.regions import values_read


@dataclass(frozen=True)
class Wanted:
    """Derivatives needed of an op with regions: positions in what it reads and its results."""

    ins: tuple[int, ...]
    outs: tuple[int, ...]


def differentiated_regions(block: Block) -> dict[Operation, Wanted]:
    """The ops with regions through which a `pd.grad` of this block goes."""
    if not any(isinstance(op, RegionOp) for op in block.ops):
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
    """The ops with regions that `op` goes through, and the needs of their derivatives."""
    region = ops_before(op)
    active = active_values(op, region)
    return {
        inner: Wanted(
            tuple(i for i, value in enumerate(values_read(inner)) if value in active),
            tuple(i for i, result in enumerate(inner.results) if result in active),
        )
        for inner in path_of(op, region, active)
        if isinstance(inner, RegionOp)
    }
