"""A fingerprint of modules that compares quickly; printing takes ten times longer."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

Fingerprint = tuple[object, ...]


def fingerprint(module: ModuleOp) -> Fingerprint:
    """Compute a fingerprint, equal for modules that print alike, but for the names of values."""
    numbers: dict[SSAValue, int] = {}
    found: list[object] = []
    for op in module.walk():
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    numbers[argument] = len(numbers)
        for result in op.results:
            numbers[result] = len(numbers)
        # an operand without a number is one that is used before it is defined
        found.append(
            (
                op.name,
                tuple(numbers.get(value, -1) for value in op.operands),
                frozenset(op.properties.items()),
                tuple(result.type for result in op.results),
                op.parent_op().__class__ if op.parent_op() is not None else None,
            )
        )
    return tuple(found)
