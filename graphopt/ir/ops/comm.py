"""Communication between the replicas of a data-parallel program."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition

from graphopt.errors import ProgramError
from graphopt.ir.attrs import string
from graphopt.ir.ops.base import Unary
from graphopt.ir.types import Tensor


@irdl_op_definition
class AllReduce(Unary):
    """The sum (or mean) of a value over all replicas, on each of them. Paddle: all_reduce."""

    name = "pd.all_reduce"
    reduction = string("sum")

    @staticmethod
    def infer(x: Tensor, reduction: str = "sum") -> Tensor:
        if reduction not in ("sum", "mean"):
            raise ProgramError(f"reduction must be sum or mean, found '{reduction}'")
        return x
