"""Filters in the blocks in which a kernel reads them, which `@prepare` makes once.

A kernel of oneDNN lays out its filter in each step, unless it has that order already. A filter that
only the kernel reads gets the order in `@prepare`, which `prepare-weights` has made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.conv import filter_sizes
from graphopt.ir.dialect.ops.fused import PACKED, FusedConv2dAddAct
from graphopt.ir.dialect.ops.rearrange import Pad
from graphopt.ir.dialect.ops.shape import Reshape, Transpose
from graphopt.ir.dialect.signature import (
    PREPARED,
    function_signature,
    main_function,
    prepare_function,
    signature_of,
)
from graphopt.ir.dialect.signature_edit import edit_signature
from graphopt.ir.dialect.types import shape_of
from graphopt.passes.engine.fusion import Outcome, Reason
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, insert, replace

NO_BLOCK = Reason(
    "no-block", "the size of the blocks in which the kernel reads filters is not known"
)
NOT_PREPARED = Reason(
    "not-prepared", "the filter is not computed before the steps, where packing would happen once"
)
READ_TWICE = Reason("read-twice", "the filter has another reader")


@dataclass(frozen=True)
class PackFilters(RewritePass):
    """Lay out filters of kernels in blocks of output channels.

    `blocks` are the sizes of the blocks for the ops of `packable`, in their order: they depend on
    sizes and on the machine. A size of 0 or a missing one is unknown.
    """

    name = "pack-filters"
    numerics = Numerics.BIT_EXACT
    changes_signature: ClassVar[bool] = True
    blocks: tuple[int, ...] = ()

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log, prepare = RewriteLog(self.name, self.numerics), prepare_function(module)
        packed: dict[FusedConv2dAddAct, int] = {}
        for at, op in enumerate(packable(module)):
            block = self.blocks[at] if at < len(self.blocks) else 0
            reason = NO_BLOCK if block < 1 else _refusal(op, module)
            if reason is not None:
                log.declined(op, reason)
            elif log.allow(op):
                packed[op] = block
        if packed and prepare is not None:
            _pack(module, prepare, packed, log)
        return log.outcomes


def packable(module: ModuleOp) -> list[FusedConv2dAddAct]:
    """List the convolutions by a kernel, which would read packed filters."""
    return [
        op
        for op in module.walk()
        if isinstance(op, FusedConv2dAddAct)
        and op.attr("kernel")
        and op.attr("filter_format") != PACKED
    ]


def _refusal(op: FusedConv2dAddAct, module: ModuleOp) -> Reason | None:
    """Return the reason why the filter of an op keeps its order, else None."""
    filter = op.operands[1]
    if _name_of(filter, module) is None:
        return NOT_PREPARED
    return READ_TWICE if filter.has_more_than_one_use() else None


def _name_of(value: SSAValue, module: ModuleOp) -> str | None:
    """Return the name of a prepared argument of `@main`; None for any other value."""
    main = main_function(module)
    if not isinstance(value, BlockArgument) or value.block is not main.body.block:
        return None
    port = signature_of(module).arguments[value.index]
    return port.name if port.kind == PREPARED else None


def _pack(
    module: ModuleOp, prepare: FuncOp, packed: Mapping[FusedConv2dAddAct, int], log: RewriteLog
) -> None:
    main, end = main_function(module), prepare.body.block.last_op
    assert isinstance(end, ReturnOp)
    places = {port.name: at for at, port in enumerate(function_signature(prepare).results)}
    names = [port.name for port in signature_of(module).arguments]
    with edit_signature(prepare) as making, edit_signature(main) as taking:
        for op, block in packed.items():
            old = op.operands[1]
            assert isinstance(old, BlockArgument)
            at = places[names[old.index]]
            made = _in_blocks(making.returned[at], op.attr("filter_format"), block)
            for each in made:
                prepare.body.block.insert_op_before(each, end)
            making.set_result(at, made[-1].results[0])
            images, _, bias, residual = [each[0] if each else None for each in op.operand_groups()]
            filter = taking.replace(old, made[-1].results[0].type)
            attrs = {**op.attr_values(), "filter_format": PACKED}
            new = FusedConv2dAddAct.make(images, filter, bias, residual, **attrs)
            log.applied(op)
            insert(new, op, op.results[0])
            replace(op, {op.results[0]: new.results[0]})


def _in_blocks(filter: SSAValue, format: str, block: int) -> list[PdOp]:
    """Build the ops that lay out a filter in blocks; the last one has the result."""
    outs, own, *kernel = filter_sizes(shape_of(filter.type), format)
    made: list[PdOp] = []

    def add(op: PdOp) -> SSAValue:
        made.append(op)
        return op.results[0]

    if format == "OIHW":
        filter = add(Transpose.make(filter, perm=(2, 3, 1, 0)))
    if outs % block:
        filter = add(Pad.make(filter, paddings=(0, 0, 0, 0, 0, 0, 0, -outs % block)))
    apart = add(Reshape.make(filter, shape=(*kernel, own, -(-outs // block), block)))
    add(Transpose.make(apart, perm=(3, 0, 1, 2, 4)))
    return made
