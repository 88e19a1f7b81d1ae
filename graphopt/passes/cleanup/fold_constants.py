"""Ops on constants, computed now instead of in every step.

Only ops that NumPy computes bit for bit as the op does: moves, comparisons, and arithmetic in the
op's own dtype that rounds once. At most `MOST_ELEMENTS` elements, so programs stay small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from graphopt.ir.dialect.known import MOST_ELEMENTS, Array, KnownValues
from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.control import RegionOp
from graphopt.ir.dialect.ops.creation import AssignValue, Full
from graphopt.ir.dialect.ops.math import Scale
from graphopt.ir.dialect.ops.shape import ShapeOf
from graphopt.ir.dialect.types import UNKNOWN, dtype_of, element_count, shape_of
from graphopt.passes.engine.fusion import Outcome
from graphopt.passes.engine.numerics import Numerics
from graphopt.passes.engine.rewrite import RewriteLog, RewritePass, differentiated_values, replace

# Every integer up to _EXACT is a float64; no finite number exceeds _FINITE.
_EXACT = 2.0**53
_FINITE = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class FoldConstants(RewritePass):
    """Replace ops by the small constants that they compute, in one walk."""

    name = "fold-constants"
    numerics = Numerics.BIT_EXACT

    def rewrite(self, module: ModuleOp) -> list[Outcome]:
        log = RewriteLog(self.name, self.numerics)
        # a derivative must stay with respect to the same value
        known = KnownValues(dict.fromkeys(differentiated_values(module)))
        for op in list(module.walk()):
            if not isinstance(op, PdOp) or not _reads_constants(op):
                continue
            value = _compute(op, known)
            if value is None or not log.allow(op):
                continue
            log.applied(op)
            constant = as_constant(value, op.results[0])
            constant.location = op.location
            assert op.parent is not None
            op.parent.insert_op_before(constant, op)
            if replace(op, {op.results[0]: constant.results[0]}, log):
                known.note(constant.results[0], value)
        return log.outcomes


# Sources are folded before their readers; a shape may be known in part.
_SOURCES = (AssignValue, Full, ShapeOf)


def _reads_constants(op: PdOp) -> bool:
    """True for an op that may be folded: the size of a shape, or one on constants only."""
    if isinstance(op, ShapeOf):
        return True
    return (
        len(op.operands) > 0
        and len(op.results) == 1
        and all(isinstance(value.owner, _SOURCES) for value in op.operands)
    )


def _compute(op: PdOp, known: KnownValues) -> Array | None:
    """Compute an op's result on constants; None if it is unknown, too large or not exact."""
    result = op.results[0]
    shape = shape_of(result.type)
    if isinstance(op, RegionOp) or UNKNOWN in shape or not _is_small(shape):
        return None
    if isinstance(op, Scale) and dtype_of(result.type).is_floating and op.attr("bias") != 0:
        return None  # the product and the sum may round once or twice
    if dtype_of(result.type).is_complex:
        return None
    value = known.array(result)
    if value is None:
        return None
    # attributes hold numbers as float64
    largest = float(np.max(np.abs(value.astype(np.float64))))
    return value if largest <= (_EXACT if value.dtype.kind in "iu" else _FINITE) else None


def _is_small(shape: tuple[int, ...]) -> bool:
    return 0 < element_count(shape) <= MOST_ELEMENTS


def as_constant(value: Array, like: SSAValue) -> PdOp:
    """Build the constant op for an array, with the shape and dtype of `like`."""
    dtype, shape = dtype_of(like.type), shape_of(like.type)
    numbers: list[float] = value.ravel().astype(np.float64).tolist()
    if len({(number, math.copysign(1, number)) for number in numbers}) == 1:
        return Full.make(shape=shape, value=numbers[0], dtype=dtype)
    return AssignValue.make(shape=shape, values=numbers, dtype=dtype)
