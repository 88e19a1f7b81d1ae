"""Order between ops that no value would give."""

from __future__ import annotations

from xdsl.irdl import irdl_op_definition, var_operand_def, var_result_def

from graphopt.ir.dialect.definition import SEGMENTS
from graphopt.ir.dialect.ops.base import OpaqueOp
from graphopt.ir.dialect.types import Tensor


@irdl_op_definition
class Fence(OpaqueOp):
    """Passes its values on, once all of them and all of `after` are computed.

    Paddle has no such operator: its passes put control dependencies between operators.
    """

    name = "pd.fence"
    values = var_operand_def(Tensor)
    after = var_operand_def(Tensor)
    outs = var_result_def(Tensor)

    irdl_options = (SEGMENTS,)

    @staticmethod
    def infer(values: tuple[Tensor, ...], after: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return values
