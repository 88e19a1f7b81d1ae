"""The ops that fusions build: several ops in one, each differentiated as a whole.

`act_attrs` are properties of the activation's op, where they are not its defaults.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.irdl import irdl_op_definition, operand_def, result_def

from graphopt.errors import ProgramError
from graphopt.ir.dialect.attrs import dictionary, flag, number, string, strings
from graphopt.ir.dialect.ops.base import Binary, OpaqueOp
from graphopt.ir.dialect.ops.linear import check_kernel, matmul_type
from graphopt.ir.dialect.ops.norm import BatchNormBase, check_vector
from graphopt.ir.dialect.types import Tensor, compatible, shape_of


@irdl_op_definition
class FusedGemmEpilogue(OpaqueOp):
    """activation(matmul(x, y) + bias). Paddle: fused_gemm_epilogue."""

    name = "pd.fused_gemm_epilogue"
    x = operand_def(Tensor)
    y = operand_def(Tensor)
    bias = operand_def(Tensor)
    out = result_def(Tensor)
    transpose_x = flag(False)
    transpose_y = flag(False)
    activation = string("none")
    approximate = flag(False)
    act_attrs = dictionary({})
    kernel = string("")

    @staticmethod
    def infer(
        x: Tensor,
        y: Tensor,
        bias: Tensor,
        transpose_x: bool,
        transpose_y: bool,
        kernel: str = "",
    ) -> Tensor:
        check_kernel(kernel)
        out = matmul_type(x, y, transpose_x, transpose_y)
        check_vector("bias", bias, shape_of(out)[-1])
        return out


@irdl_op_definition
class FusedBatchNormAct(BatchNormBase):
    """activation(batch_norm(x)). Paddle: fused_batch_norm_act."""

    name = "pd.fused_batch_norm_act"
    activation = string("relu")
    act_attrs = dictionary({})


@irdl_op_definition
class FusedBnAddActivation(BatchNormBase):
    """activation(batch_norm(x) + z), with z shaped like x. Paddle: fused_bn_add_activation."""

    name = "pd.fused_bn_add_activation"
    x = operand_def(Tensor)
    z = operand_def(Tensor)
    activation = string("relu")
    act_attrs = dictionary({})

    @staticmethod
    def infer(
        x: Tensor,
        mean: Tensor,
        variance: Tensor,
        scale: Tensor | None,
        bias: Tensor | None,
        data_format: str,
        z: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        if z is None or not compatible(x, z):
            raise ProgramError("z must be shaped like x")
        return BatchNormBase.infer(x, mean, variance, scale, bias, data_format)


@irdl_op_definition
class FusedElemwiseAddActivation(Binary):
    """functor_list = [outer, inner]: either outer(x + y) or x + inner(y).

    Paddle: fused_elemwise_add_activation.
    """

    name = "pd.fused_elemwise_add_activation"
    functor_list = strings()
    scale = number(1.0)
    approximate = flag(False)
    act_attrs = dictionary({})

    @staticmethod
    def infer(x: Tensor, y: Tensor, functor_list: Sequence[str] = ()) -> Tensor:
        if len(functor_list) != 2 or "elementwise_add" not in functor_list:
            raise ProgramError(f"functor_list {list(functor_list)} is not an add and an activation")
        return Binary.infer(x, y)
