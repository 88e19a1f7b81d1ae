"""Hashes of rows of numbers."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition

from graphopt.errors import OperandError, ProgramError
from graphopt.ir.dialect.attrs import integer
from graphopt.ir.dialect.ops.base import OneTensor, OpaqueOp
from graphopt.ir.dialect.types import Tensor, dtype_of, like, rank_of, shape_of, show


@irdl_op_definition
class Hash(OneTensor, OpaqueOp):
    """`num_hash` numbers below `mod_by` for each row [..., d]: [..., num_hash, 1].

    They are the hashes XXH64 of the bytes of the row with the seeds 0, 1, ... Paddle: hash.
    """

    name = "pd.hash"
    num_hash = integer(1)
    mod_by = integer(100000)

    @staticmethod
    def infer(x: Tensor, num_hash: int, mod_by: int) -> Tensor:
        if dtype_of(x) not in ("int32", "int64"):
            raise OperandError(f"hash needs int32 or int64, found {dtype_of(x)}; cast it first")
        if rank_of(x) < 2 or not shape_of(x)[-1]:
            raise ProgramError(f"hash needs rows [n, d] of numbers, found {show(x)}")
        if num_hash < 1 or mod_by < 1:
            raise ProgramError(
                f"hash needs 'num_hash' and 'mod_by' above 0, found {num_hash} and {mod_by}"
            )
        return like(x, shape=(*shape_of(x)[:-1], num_hash, 1))
