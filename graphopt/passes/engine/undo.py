"""A snapshot of a module, to restore it: a refused rewrite leaves no trace.

The ops and blocks are the same objects again afterwards, so a pass that holds some of them can go
on. Ops created since are erased.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue

from graphopt.ir.dialect.bulk import replace_arguments

# xDSL has no public way to restore an erased op
# pyright: reportPrivateUsage=false


@dataclass(frozen=True)
class _KeptOp:
    op: Operation
    operands: tuple[SSAValue, ...]
    properties: dict[str, Attribute]
    attributes: dict[str, Attribute]
    types: tuple[Attribute, ...]
    hints: tuple[str | None, ...]
    regions: tuple[Region, ...]


@dataclass(frozen=True)
class _KeptBlock:
    block: Block
    region: Region
    arguments: tuple[BlockArgument, ...]
    ops: tuple[Operation, ...]


class KeptModule:
    """Every op of a module with its place, operands, properties and names."""

    def __init__(self, module: ModuleOp) -> None:
        self.module = module
        self.ops = [_keep_op(op) for op in module.walk()]
        self.before = frozenset(kept.op for kept in self.ops)
        self.blocks = [
            _KeptBlock(block, region, tuple(block.args), tuple(block.ops))
            for kept in self.ops
            for region in kept.regions
            for block in region.blocks
        ]

    def put_back(self) -> None:
        """Restore the module."""
        made = [op for op in self.module.walk() if op not in self.before]
        for op in made:
            op.drop_all_references()
        for kept in self.blocks:
            _empty(kept.block)
        for op in made:
            # a new op may contain an old one, so it is unlinked and not erased
            op.parent = op._prev_op = op._next_op = None
        for kept in self.ops:
            _put_back(kept)
        for kept in self.blocks:
            kept.block.parent = kept.region
            replace_arguments(kept.block, kept.arguments)
            for op in kept.ops:
                op.parent = op._prev_op = op._next_op = None
            kept.block.add_ops(kept.ops)


def _keep_op(op: Operation) -> _KeptOp:
    return _KeptOp(
        op,
        tuple(op.operands),
        dict(op.properties),
        dict(op.attributes),
        tuple(result.type for result in op.results),
        tuple(result.name_hint for result in op.results),
        tuple(op.regions),
    )


def _empty(block: Block) -> None:
    """Detach all ops of a block."""
    block._first_op = block._last_op = None


def _put_back(kept: _KeptOp) -> None:
    op = kept.op
    op.operands = kept.operands
    _refill(op.properties, kept.properties)
    _refill(op.attributes, kept.attributes)
    for result, type_, hint in zip(op.results, kept.types, kept.hints, strict=True):
        result._type = type_
        result.name_hint = hint
    op.regions = kept.regions
    for region in kept.regions:
        region.parent = op


def _refill(found: dict[str, Attribute], wanted: dict[str, Attribute]) -> None:
    found.clear()
    found.update(wanted)


def top(op: Operation) -> ModuleOp | None:
    """Find the module that contains an op; None if there is none."""
    at: Operation | None = op
    while at is not None and not isinstance(at, ModuleOp):
        at = at.parent_op()
    return at
