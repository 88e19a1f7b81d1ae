"""Open branches while a program is parsed: the side that is known, or the condition that is not.

See `graphopt/ir/program/open_branches.py`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import NoReturn

from xdsl.ir import Block as IrBlock
from xdsl.ir import Operation, SSAValue

from graphopt.errors import GraphoptError, ProgramError, UnsupportedError
from graphopt.ir.dialect.ops.callback import Assert, Print, PyFunc
from graphopt.ir.dialect.regions import values_read
from graphopt.ir.program import Operator
from graphopt.ir.program.open_branches import TAKEN, OpenBranchError, Place
from graphopt.ir.translate.blocks.block import BlockParser
from graphopt.ir.translate.operators.translator import locate_error

# what a frame knows of its names
_NAMES = ("values", "arrays", "written", "before_loop", "partial", "selected", "chosen", "deferred")


class OpenBranch(GraphoptError):
    """Raised out of a parse: the branch of `op` needs the side that `condition` takes.

    A branch around it catches it, and is open itself then. `is_first` says that nothing but the
    operators before it decides the condition; it is not in a loop.
    """

    def __init__(self, op: Operator, condition: SSAValue, message: str, *, is_first: bool) -> None:
        super().__init__(message)
        self.op, self.condition, self.is_first = op, condition, is_first

    def as_error(self) -> OpenBranchError:
        """The error for whoever runs the program."""
        ops = self.op.block.ops
        number = next(i for i, op in enumerate(ops) if op is self.op)
        place: Place = self.op.block.idx, number
        return OpenBranchError(str(locate_error(UnsupportedError(str(self)), self.op)), place)


def side_of(parser: BlockParser, op: Operator) -> bool | None:
    """The side that a branch takes here, None where that is not known."""
    sides, number = op.attrs.get(TAKEN, ()), parser.sides_read.get(op, 0)
    if number >= len(sides):
        return None
    parser.sides_read[op] = number + 1
    return bool(sides[number])


def ops_after(last: Operator) -> list[Operator]:
    """The operators of a block after this one."""
    ops = last.block.ops
    return ops[next(i for i, op in enumerate(ops) if op is last) + 1 :]


@contextmanager
def undo_regions(parser: BlockParser) -> Generator[None]:
    """Regions parsed in here, which are removed again after an OpenBranch or a ProgramError."""
    frame, depth, known = parser.frame, len(parser.frames), len(parser.targets)
    held = [dict(getattr(frame, name)) for name in _NAMES]
    try:
        yield
    except (OpenBranch, ProgramError):
        del parser.frames[depth:]
        parser.translator.block = frame.target
        for name, values in zip(_NAMES, held, strict=True):
            setattr(frame, name, values)
        for target in parser.targets[known:]:
            for op in target.ops:
                op.drop_all_references()
        del parser.targets[known:]
        raise


def is_in_main(parser: BlockParser) -> bool:
    """True where operators become ops of the function itself, not of a region."""
    return parser.frame.target is parser.frames[0].target


def raise_open(parser: BlockParser, op: Operator, condition: SSAValue, message: str) -> NoReturn:
    """Raise OpenBranch for a branch in the current block."""
    raise OpenBranch(op, condition, message, is_first=is_in_main(parser))


def keep_condition(block: IrBlock, branch: OpenBranch) -> None:
    """Remove the ops of a function's block that the condition of a branch does not need.

    Prints and checks go, as the run that follows has them. UnsupportedError for a condition that
    a Python function decides, which would be called twice.
    """
    needed: set[Operation] = set()
    wanted: list[SSAValue] = [branch.condition]
    while wanted:
        op = wanted.pop().owner
        if isinstance(op, Operation) and op not in needed:
            needed.add(op)
            wanted += values_read(op)
    for op in reversed(list(block.ops)):
        if op not in needed:
            _remove(op)
            continue
        for inner in list(op.walk()):
            if isinstance(inner, PyFunc):
                raise UnsupportedError(
                    "a py_func decides which branch is taken, and would be called twice, as "
                    f"{branch.as_error()}"
                )
            if isinstance(inner, (Print, Assert)):
                _remove(inner)


def _remove(op: Operation) -> None:
    op.detach()
    op.erase(safe_erase=False)
