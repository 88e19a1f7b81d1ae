"""Changes of many values at once, in linear time.

xDSL copies all operands of an op to replace one of them, and all arguments of a block to add one.
That is quadratic where one op reads thousands of values: a `pd.grad`, or the return of a training
program.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from xdsl.ir import Block, BlockArgument, Operation, SSAValue, SSAValues

# xDSL has no public way to change operands and arguments in place
# pyright: reportPrivateUsage=false

# Up to this many operands, replacing them one by one is faster than building a new list.
_FEW = 8
# Ops with more operands than this are edited in bulk.
_WIDE = 64


def replace_uses(
    values: Mapping[SSAValue, SSAValue],
    stays: Callable[[SSAValue, Operation], bool] = lambda value, user: False,
) -> None:
    """Redirect the uses of each key to its value; a value without a name hint takes the key's.

    A user keeps reading a key where `stays(key, user)` is true.
    """
    users: dict[Operation, list[int]] = {}
    for old, new in values.items():
        if new.name_hint is None:
            new.name_hint = old.name_hint
        for use in old.uses:
            if not stays(old, use.operation):
                users.setdefault(use.operation, []).append(use.index)
    for user, positions in users.items():
        held: Sequence[SSAValue] = user._operands
        if isinstance(held, list):
            for position in positions:
                use, new = user._operand_uses[position], values[held[position]]
                held[position].remove_use(use)
                new.add_use(use)
                held[position] = new
        elif len(positions) > _FEW:
            chosen = set(positions)
            user.operands = [
                values[operand] if position in chosen else operand
                for position, operand in enumerate(user.operands)
            ]
        else:
            for position in positions:
                user.operands[position] = values[user.operands[position]]


@contextmanager
def open_operands(ops: Iterable[Operation]) -> Generator[None]:
    """Let `replace_uses` edit the operands of the wide ops in place, in this context."""
    wide = [op for op in ops if len(op.operands) > _WIDE]
    for op in wide:
        op._operands = cast(Any, list(op._operands))
    try:
        yield
    finally:
        for op in wide:
            op._operands = SSAValues(op._operands)


def set_arguments(block: Block, arguments: Iterable[BlockArgument]) -> None:
    """Set the arguments of a block without any; they were built for it, with their indices."""
    assert not block.args
    block._args = tuple(arguments)


def replace_arguments(block: Block, arguments: Sequence[BlockArgument]) -> None:
    """Replace a block's arguments and renumber them; removed ones must have no uses."""
    block._args = tuple(arguments)
    for index, argument in enumerate(block._args):
        argument.index = index
