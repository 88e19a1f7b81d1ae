"""SSA dominance: definitions come before uses, which xDSL's own verifier does not check."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException


def verify_ssa(root: Operation) -> None:
    """Raise VerifyException when an op inside `root` uses a value that is not defined yet.

    Regions see the values of the ops around them. The blocks of a region must be in an order in
    which definitions come first, as in the single blocks that we build.
    """
    _verify(root, set())


def _verify(op: Operation, visible: set[SSAValue]) -> None:
    for region in op.regions:
        inner = set(visible)
        for block in region.blocks:
            _verify_block(block, inner)


def _verify_block(block: Block, visible: set[SSAValue]) -> None:
    visible.update(block.args)
    for op in block.ops:
        if not visible.issuperset(op.operands):
            position = next(n for n, value in enumerate(op.operands) if value not in visible)
            raise VerifyException(
                f"operand {position} of '{op.name}' is used before it is defined: {op}"
            )
        if op.regions:
            _verify(op, visible)
        visible.update(op.results)
