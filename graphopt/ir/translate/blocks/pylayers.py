"""Blocks with a derivative of their own -> `pd.pylayer`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Block as IrBlock
from xdsl.ir import SSAValue

from graphopt.errors import ProgramError
from graphopt.ir.dialect.ops.control import PyLayer, Yield
from graphopt.ir.dialect.ops.creation import FullLike
from graphopt.ir.dialect.ops.shape import StopGradient
from graphopt.ir.dialect.types import dtype_of
from graphopt.ir.program import GRAD_SUFFIX, Block, Operator
from graphopt.ir.program.sub_blocks import sub_blocks
from graphopt.ir.translate.blocks.block import BlockParser, Handler
from graphopt.ir.translate.blocks.inline import add_op, inline_block


def _pylayer(parser: BlockParser, op: Operator) -> Mapping[str, SSAValue]:
    """Translate the forward block; in a training program, with the backward block as derivative.

    If a training program has no backward block, no gradient flows through the results.
    """
    forward, *backward = sub_blocks(op)
    if not parser.translator.trains:
        return inline_block(parser, forward, "a PyLayer")
    if not backward:
        written = inline_block(parser, forward, "a PyLayer")
        return {name: _without_gradient(parser, op, value) for name, value in written.items()}
    inputs = [parser.read(name) for name in op.input("Input")]
    blocks = IrBlock(), IrBlock()
    frame = parser.parse_into(forward, blocks[0])
    names = frame.outer_names()
    results = [frame.values[name] for name in names]
    blocks[0].add_op(Yield.make(results))
    types = [value.type for value in results]
    for name, type_ in zip(names, types, strict=True):
        blocks[1].insert_arg(type_, len(blocks[1].args)).name_hint = f"{name}$GRAD"
    _parse_backward(parser, op, backward[0], blocks[1], names, inputs)
    made = add_op(parser, op, PyLayer.build_with([inputs], types, blocks))
    return dict(zip(names, made.results, strict=True))


def _parse_backward(
    parser: BlockParser,
    op: Operator,
    block: Block,
    target: IrBlock,
    names: Sequence[str],
    inputs: Sequence[SSAValue],
) -> None:
    """Parse the block that computes `<input>@GRAD` from `<result>@GRAD`; a missing one is zero."""
    wanted = op.input("Input")
    if len(set(wanted)) < len(wanted):
        raise ProgramError(
            f"operator {op.type} reads {wanted}, which names a variable twice, so '<name>"
            f"{GRAD_SUFFIX}' would be two gradients; pass a copy of the variable, e.g. by "
            "paddle.assign"
        )
    if names and not block.ops:
        raise ProgramError(
            f"the backward block of operator {op.type} is empty, as after "
            "Program.clone(for_test=True); take gradients in the original program"
        )
    frame = parser.enter(block, target)
    for name, argument in zip(names, target.args, strict=True):
        frame.values[name + GRAD_SUFFIX] = argument
    parser.run(block.ops)
    gradients: list[SSAValue] = []
    for name, value in zip(wanted, inputs, strict=True):
        found = frame.values.get(name + GRAD_SUFFIX)
        if found is None:
            found = parser.translator.emit(FullLike, op, value, value=0.0).results[0]
        gradients.append(found)
    parser.leave()
    target.add_op(Yield.make(gradients))


def _without_gradient(parser: BlockParser, op: Operator, value: SSAValue) -> SSAValue:
    if not dtype_of(value.type).is_differentiable:
        return value
    return parser.translator.emit(StopGradient, op, value).results[0]


PYLAYERS: Mapping[str, Handler] = {"pylayer": _pylayer}
