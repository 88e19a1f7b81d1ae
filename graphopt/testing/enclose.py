"""Enclosing some ops of a program in a branch, or in a loop that runs once."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import If, While, Yield
from graphopt.ir.dialect.ops.creation import Full
from graphopt.ir.dialect.ops.grad import Grad
from graphopt.ir.dialect.signature import main_function
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, shape_of


def enclose_ops(module: ModuleOp, start: int, stop: int, *, loop: bool) -> bool:
    """Move the ops from `start` to `stop` into a `pd.if`, or into a `pd.while`, in place.

    Both branches compute the same; the loop runs once. False when no later op reads them, when a
    gradient with respect to one of them is taken, or when a loop cannot start because a size is
    unknown.
    """
    block = main_function(module).body.block
    inside = [op for op in block.ops if isinstance(op, PdOp)][start:stop]
    chosen = set[Operation](inside)
    live = [
        result
        for op in inside
        for result in op.results
        if any(use.operation not in chosen for use in result.uses)
    ]
    if any(value in op.wrt for op in block.ops if isinstance(op, Grad) for value in live):
        return False  # a result is not the inner value
    if not live or (loop and any(UNKNOWN in shape_of(value.type) for value in live)):
        return False
    (_in_loop if loop else _in_branch)(block, inside, live)
    return True


def _in_branch(block: Block, inside: Sequence[PdOp], live: Sequence[SSAValue]) -> None:
    flag = Full.make(shape=(1,), value=1.0, dtype="bool")
    then, otherwise = Block(), Block()
    copies = _copy(inside, otherwise)
    otherwise.add_op(Yield.make([copies[value] for value in live]))
    block.insert_op_before(flag, inside[0])
    _move(inside, then)
    then.add_op(Yield.make(live))
    made = If.build_with([[flag.results[0]]], [value.type for value in live], [then, otherwise])
    block.insert_op_after(made, flag)
    _read_outside(live, made)


def _in_loop(block: Block, inside: Sequence[PdOp], live: Sequence[SSAValue]) -> None:
    flag = Full.make(shape=(1,), value=1.0, dtype="bool")
    starts = [
        Full.make(shape=shape_of(value.type), value=0.0, dtype=dtype_of(value.type))
        for value in live
    ]
    block.insert_ops_before([flag, *starts], inside[0])
    body = Block(arg_types=[value.type for value in live])
    _move(inside, body)
    done = Full.make(shape=(1,), value=0.0, dtype="bool")
    body.add_ops([done, Yield.make([done.results[0], *live])])
    made = While.build_with(
        [[flag.results[0]], [start.results[0] for start in starts]],
        [value.type for value in live],
        [body],
        trips=1,
    )
    block.insert_op_after(made, starts[-1])
    _read_outside(live, made)


def _copy(ops: Sequence[PdOp], block: Block) -> dict[SSAValue, SSAValue]:
    """Copy the ops to the end of a block; return the copies of results by the originals."""
    values: dict[SSAValue, SSAValue] = {}
    for op in ops:
        copy = op.clone(values)
        block.add_op(copy)
        values.update(zip(op.results, copy.results, strict=True))
    return values


def _move(ops: Sequence[PdOp], block: Block) -> None:
    for op in ops:
        op.detach()
        block.add_op(op)


def _read_outside(live: Sequence[SSAValue], made: Operation) -> None:
    """Let the readers of `live` outside of `made` read the results of `made` instead."""
    inside = {id(op) for op in made.walk()}
    for value, result in zip(live, made.results, strict=True):
        value.replace_uses_with_if(result, lambda use: id(use.operation) not in inside)
