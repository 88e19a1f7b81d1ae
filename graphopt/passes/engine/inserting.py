"""Ops that a fusion inserts before its own: a transposed weight, the sum of two masks."""

from __future__ import annotations

from xdsl.ir import SSAValue

from graphopt.ir.dialect.op import PdOp
from graphopt.ir.dialect.ops.math import Cast
from graphopt.ir.dialect.types import dtype_of


class Before:
    """A callable that inserts ops before `op`, with its location, and returns their results."""

    def __init__(self, op: PdOp) -> None:
        self.op = op

    def __call__(self, op: PdOp) -> SSAValue:
        assert self.op.parent is not None
        op.location = self.op.location
        self.op.parent.insert_op_before(op, self.op)
        return op.results[0]

    def cast(self, value: SSAValue, like: SSAValue) -> SSAValue:
        """Cast a value to the dtype of `like`, unless it has that dtype."""
        dtype = dtype_of(like.type)
        return value if dtype_of(value.type) == dtype else self(Cast.make(value, dtype=dtype))
