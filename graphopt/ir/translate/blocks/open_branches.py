"""Open branches during parsing: the side that is known, or the condition that is unknown.

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

# the fields of a frame that hold its names
_NAMES = ("values", "arrays", "written", "before_loop", "partial", "selected", "chosen", "deferred")


class OpenBranch(GraphoptError):
    """Raised while parsing: the branch of `op` needs the side that `condition` takes.

    An enclosing branch catches it, and becomes open itself. `is_first` means that only operators
    before the branch decide its condition; the branch is not in a loop.
    """

    def __init__(self, op: Operator, condition: SSAValue, message: str, *, is_first: bool) -> None:
        super().__init__(message)
        self.op, self.condition, self.is_first = op, condition, is_first

    def as_error(self) -> OpenBranchError:
        """Build the error for the caller that runs the program."""
        ops = self.op.block.ops
        number = next(i for i, op in enumerate(ops) if op is self.op)
        place: Place = self.op.block.idx, number
        return OpenBranchError(str(locate_error(UnsupportedError(str(self)), self.op)), place)


def side_of(parser: BlockParser, op: Operator) -> bool | None:
    """Look up the side that a branch takes this time; None if it is unknown."""
    sides, number = op.attrs.get(TAKEN, ()), parser.sides_read.get(op, 0)
    if number >= len(sides):
        return None
    parser.sides_read[op] = number + 1
    return bool(sides[number])


def ops_after(last: Operator) -> list[Operator]:
    """Return the operators after `last` in its block."""
    ops = last.block.ops
    return ops[next(i for i, op in enumerate(ops) if op is last) + 1 :]


@contextmanager
def undo_regions(parser: BlockParser) -> Generator[None]:
    """Remove the regions parsed in this context after an OpenBranch or a ProgramError."""
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

    Prints and checks are removed too, as the following run repeats them. Raises UnsupportedError
    if a Python function decides the condition: it would be called twice.
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
                    "the condition of a branch depends on a py_func, which would be called twice: "
                    f"{branch.as_error()}"
                )
            if isinstance(inner, (Print, Assert)):
                _remove(inner)


def _remove(op: Operation) -> None:
    op.detach()
    op.erase(safe_erase=False)
